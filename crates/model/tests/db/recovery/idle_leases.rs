//! A worker that runs nothing announces a longer lease, and its first claim the ordinary one.

use sched_model::domain::ids::{TenantId, WorkerId};
use sched_model::domain::instance::WorkerStatus;
use sched_model::running::claims::{self, ClaimOutcome, ClaimRequest};
use sched_model::running::workers::{self, Beat};
use test_support::fixture::{Fixture, QUEUE};
use uuid::Uuid;

use crate::recovery::dead_workers::{expire, recover, silence};

const IDLE_MS: i32 = 45_000;
const ORDINARY_MS: i32 = 30_000;

/// A worker that has announced the idle lease.
async fn idle(world: &Fixture) -> WorkerId {
    let worker = world.worker().await;
    let beat =
        Beat { status: WorkerStatus::Idle, running: 0, jobs_processed: 0, lease_ms: IDLE_MS, count_up_to: 1 };
    workers::heartbeat(&mut world.conn().await, worker, beat).await.unwrap();
    worker
}

async fn claim(world: &Fixture, worker: WorkerId, lease_ms: Option<i32>) -> ClaimOutcome {
    let (queues, last) = ([QUEUE.to_owned()], TenantId(Uuid::max()));
    let wanted = ClaimRequest { worker, queues: &queues, limit: 10, last, lease_ms };
    claims::claim_unlimited(&mut world.conn().await, &wanted).await.unwrap()
}

/// The announced lease, and the seconds since the latest renewal.
async fn lease(world: &Fixture) -> (i64, i64) {
    let age =
        "SELECT extract(epoch FROM clock_timestamp() - last_heartbeat)::bigint FROM worker_registration";
    (world.number("SELECT lease_ms FROM worker_registration").await, world.number(age).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_worker_is_kept_for_its_longer_lease() {
    let world = Fixture::new().await;
    let worker = idle(&world).await;
    silence(&world, worker, 40).await;
    assert!(expire(&world).await.is_empty());
    let silent = "SELECT count(*) FROM worker_utilisation WHERE is_silent";
    assert_eq!(world.number(silent).await, 0);
    silence(&world, worker, 46).await;
    assert_eq!(world.number(silent).await, 1);
    assert_eq!(expire(&world).await, [worker]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_claim_announces_the_ordinary_lease() {
    let world = Fixture::new().await;
    let worker = idle(&world).await;
    let (queues, last) = ([QUEUE.to_owned()], TenantId(Uuid::max()));
    let lease_ms = Some(ORDINARY_MS);
    let wanted = ClaimRequest { worker, queues: &queues, limit: 10, last, lease_ms };
    let job = world.job("hourly").save().await;
    let mut conn = world.conn().await;
    for kind in ["usual", "lone", "limited"] {
        let limit = if kind == "limited" { "100" } else { "NULL" };
        world.sql(&format!("UPDATE queues SET max_running = {limit}")).await;
        world.sql(&format!("UPDATE worker_registration SET lease_ms = {IDLE_MS}")).await;
        silence(&world, worker, 20).await;
        world.runs(job.id).insert().await;
        let outcome = match kind {
            "usual" => claims::claim_unlimited(&mut conn, &wanted).await,
            "lone" => claims::claim_lone(&mut conn, worker, &queues, lease_ms).await,
            _ => claims::claim_limited(&mut conn, &wanted).await,
        };
        let outcome = outcome.unwrap();
        assert_eq!((outcome.claimed.len(), outcome.is_renewed), (1, true), "{kind}");
        let (announced, age) = lease(&world).await;
        assert!(announced == i64::from(ORDINARY_MS) && age < 15, "{kind}: {announced}, {age} s");
    }
    // The worker dies after its claim.
    silence(&world, worker, 31).await;
    assert_eq!(expire(&world).await, [worker]);
    assert_eq!(recover(&world).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_without_runs_keeps_the_idle_lease() {
    let world = Fixture::new().await;
    let worker = idle(&world).await;
    assert!(!claim(&world, worker, Some(ORDINARY_MS)).await.is_renewed, "the latest renewal is recent");
    silence(&world, worker, 20).await;
    assert!(!claim(&world, worker, None).await.is_renewed);
    assert!(claim(&world, worker, Some(ORDINARY_MS)).await.is_renewed);
    let (announced, age) = lease(&world).await;
    assert!(announced == i64::from(IDLE_MS) && age < 15, "{announced}, {age} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_renews_no_lost_lease() {
    let world = Fixture::new().await;
    let worker = idle(&world).await;
    world.runs(world.job("hourly").save().await.id).insert().await;
    silence(&world, worker, 46).await;
    assert_eq!(expire(&world).await, [worker]);
    let outcome = claim(&world, worker, Some(ORDINARY_MS)).await;
    assert_eq!((outcome.claimed.len(), outcome.is_renewed), (0, false));
}

/// A claim that waits for a heartbeat that announces the idle lease renews it after it.
#[tokio::test(flavor = "multi_thread")]
async fn claim_after_a_concurrent_heartbeat_prevails() {
    let world = Fixture::new().await;
    let worker = idle(&world).await;
    world.runs(world.job("hourly").save().await.id).insert().await;
    let other = world.client().await;
    other.batch_execute("BEGIN").await.unwrap();
    let beat =
        format!("UPDATE worker_registration SET last_heartbeat = clock_timestamp(), lease_ms = {IDLE_MS}");
    other.batch_execute(&beat).await.unwrap();
    let waiting = async {
        world.wait_for_blocked(1).await;
        other.batch_execute("COMMIT").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(claim(&world, worker, Some(ORDINARY_MS)), waiting);
    assert_eq!((outcome.claimed.len(), outcome.is_renewed), (1, true));
    assert_eq!(lease(&world).await.0, i64::from(ORDINARY_MS));
}

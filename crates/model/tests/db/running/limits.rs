//! Limits of queues under concurrency.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{TenantId, WorkerId};
use sched_model::running::attempts;
use sched_model::running::claims::{self, ClaimOutcome, ClaimRequest, Claimed};
use test_support::fixture::{Fixture, PATIENCE, QUEUE, ended};
use test_support::wait_for;
use uuid::Uuid;

const RUNNING: &str = "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'";

async fn claim_once(world: &Fixture, worker: WorkerId, limit: u32) -> ClaimOutcome {
    let mut conn = world.conn().await;
    let queues = [QUEUE.to_owned()];
    let wanted = ClaimRequest { worker, queues: &queues, limit, last: TenantId(Uuid::nil()), lease_ms: None };
    claims::claim_limited(&mut conn, &wanted).await.unwrap()
}

async fn complete(world: &Fixture, claimed: &[Claimed]) {
    let ends: Vec<_> = claimed.iter().map(|one| ended(one, AttemptOutcome::Completed).build()).collect();
    let claims: Vec<i64> = claimed.iter().map(|one| one.claim_id).collect();
    attempts::end(&mut world.conn().await, &ends, &claims).await.unwrap();
}

async fn limited(limits: &str, waiting: i64) -> Fixture {
    let world = Fixture::new().await;
    world.sql(&format!("UPDATE queues SET {limits}")).await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(waiting).insert().await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_queue_gives_runs_up_to_its_room() {
    let world = limited("max_running = 3", 10).await;
    let worker = world.worker().await;
    assert!(world.claim(worker, 10).await.is_empty(), "the common claim passes it over");
    let first = claim_once(&world, worker, 2).await.claimed;
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|one| one.limited_queue.as_deref() == Some(QUEUE)));
    let other = world.worker().await;
    let second = claim_once(&world, other, 10).await.claimed;
    assert_eq!(second.len(), 1, "runs of other workers count");
    assert!(claim_once(&world, worker, 10).await.claimed.is_empty());
    complete(&world, &first).await;
    assert_eq!(claim_once(&world, other, 10).await.claimed.len(), 2);
    world.sql("UPDATE queues SET max_running = NULL").await;
    assert_eq!(world.claim(worker, 100).await.len(), 5, "without a limit it is claimed from like any other");
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_workers_never_run_more_than_the_limit() {
    let world = limited("max_running = 5", 150).await;
    let (most, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let claimer = async |limit: u32| {
        let worker = world.worker().await;
        while done.load(Ordering::SeqCst) < 150 {
            let claimed = claim_once(&world, worker, limit).await.claimed;
            let running = usize::try_from(world.number(RUNNING).await).unwrap();
            most.fetch_max(running, Ordering::SeqCst);
            complete(&world, &claimed).await;
            done.fetch_add(claimed.len(), Ordering::SeqCst);
        }
    };
    tokio::time::timeout(PATIENCE * 4, join_all((1..=8).map(claimer))).await.unwrap();
    assert_eq!(most.into_inner(), 5, "reached and not exceeded");
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'").await, 150);
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_workers_never_claim_faster_than_the_rate() {
    let world = limited("rate_limit_count = 10, rate_limit_period_seconds = 1", 35).await;
    let claimer = async |limit: u32| {
        let worker = world.worker().await;
        let mut times: Vec<DateTime<Utc>> = Vec::new();
        while world.number("SELECT count(*) FROM job_dispatch WHERE status = 'PENDING'").await > 0 {
            times.extend(claim_once(&world, worker, limit).await.claimed.iter().map(|one| one.claimed_at));
        }
        times
    };
    let all = tokio::time::timeout(PATIENCE * 4, join_all((1..=4).map(claimer))).await.unwrap();
    let mut times = all.concat();
    times.sort();
    assert_eq!(times.len(), 35);
    for (first, eleventh) in times.iter().zip(times.iter().skip(10)) {
        let took = (*eleventh - *first).to_std().unwrap();
        assert!(took >= Duration::from_secs(1), "eleven within {took:?}");
    }
    let entries = world.number("SELECT max(cardinality(claimed)) FROM queue_usage").await;
    assert!((1..=11).contains(&entries), "{entries} entries for a period");
}

#[tokio::test(flavor = "multi_thread")]
async fn exhausted_rate_reports_when_room_returns() {
    let world = limited("rate_limit_count = 2, rate_limit_period_seconds = 2", 10).await;
    let worker = world.worker().await;
    assert_eq!(claim_once(&world, worker, 10).await.claimed.len(), 2);
    let looked = claim_once(&world, worker, 10).await;
    assert!(looked.claimed.is_empty());
    let room_in = looked.room_in.unwrap();
    assert!(room_in <= Duration::from_secs(2), "{room_in:?}");
    wait_for("the rate has room", PATIENCE, async || {
        match claim_once(&world, worker, 10).await.claimed.len() {
            2 => Ok(()),
            claimed => Err(format!("{claimed} claimed")),
        }
    })
    .await;
    let shown = world.rows("SELECT queue, running, claimed_in_period FROM queue_limits").await;
    assert_eq!(shown, [[QUEUE, "4", "2"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_pauses_combine() {
    let world = limited("max_running = 3, rate_limit_count = 2, rate_limit_period_seconds = 3600", 10).await;
    let worker = world.worker().await;
    world.sql("UPDATE queues SET is_paused = true").await;
    assert!(claim_once(&world, worker, 10).await.claimed.is_empty());
    world.sql("UPDATE queues SET is_paused = false").await;
    assert_eq!(claim_once(&world, worker, 10).await.claimed.len(), 2, "the stricter one counts");
    world.sql("UPDATE queues SET rate_limit_count = 9").await;
    assert_eq!(claim_once(&world, worker, 10).await.claimed.len(), 1);
    assert_eq!(
        claim_once(&world, worker, 10).await.room_in,
        None,
        "running runs fill the limit, and no wait time is known"
    );
}

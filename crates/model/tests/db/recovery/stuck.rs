//! A dry run reports exactly the attempts that recovery and the checks for overdue and stray
//! attempts find.

use std::collections::BTreeSet;
use std::time::Duration;

use sched_model::Conn;
use sched_model::connection::row_security::Scope;
use sched_model::connection::transaction::transact_in;
use sched_model::domain::ids::{DispatchId, TenantId, WorkerId};
use sched_model::domain::run_state::DispatchStatus;
use sched_model::recovery::dead_workers;
use sched_model::recovery::lost_attempts::Cause;
use sched_model::recovery::stuck_attempts::{self, StuckAttempt, Thresholds};
use test_support::fixture::{Fixture, TENANT};

use crate::recovery::dead_workers::{expire, silence};

const LEASE: Duration = Duration::from_secs(30);
const UNKNOWN: Duration = Duration::from_secs(600);
const THRESHOLDS: Thresholds = Thresholds { worker_lease: LEASE, unknown_limit: UNKNOWN, max_attempts: 3 };

async fn found(world: &Fixture, scope: Scope, limit: i64) -> Vec<StuckAttempt> {
    let mut conn = world.conn().await;
    transact_in(&mut conn, scope.read_only(), "test_stuck", async |conn: &mut Conn| {
        stuck_attempts::find(conn, THRESHOLDS, limit).await
    })
    .await
    .unwrap()
}

fn operator(tenant: TenantId) -> Scope {
    Scope::tenant(tenant).with_installation()
}

async fn age(world: &Fixture, dispatch: DispatchId, seconds: i32) {
    let older = format!("claimed_at = claimed_at - {seconds} * interval '1 second'");
    world
        .sql(&format!(
            "UPDATE job_dispatch SET {older} WHERE id = '{dispatch}';
             UPDATE worker_claims SET {older} WHERE '{dispatch}' = ANY (dispatch_ids)"
        ))
        .await;
}

/// The attempts that the leader would find after a request, in its order: it marks workers OFFLINE
/// first.
async fn by_the_leader(world: &Fixture) -> BTreeSet<DispatchId> {
    expire(world).await;
    let mut conn = world.conn().await;
    let lost = dead_workers::lost_attempts(&mut conn, 100).await.unwrap();
    let overdue = dead_workers::overdue(&mut conn, UNKNOWN, 100).await.unwrap();
    let strays = dead_workers::strays(&mut conn, UNKNOWN, 100).await.unwrap();
    lost.into_iter()
        .chain(overdue.into_iter().map(|overdue| overdue.attempt))
        .chain(strays.into_iter().map(|stray| stray.attempt))
        .map(|open| open.dispatch_id)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dry_run_matches_the_leader() {
    let world = Fixture::new().await;
    let names =
        ["fine", "silent", "poison", "unwanted", "late", "stray", "unsaid", "young-stray", "forgotten"];
    let mut all = Vec::new();
    for name in names {
        all.push(world.running(name).await);
    }
    let [_fine, silent, poison, unwanted, late, stray, unsaid, young_stray, forgotten] = all.as_slice()
    else {
        panic!("{all:?}")
    };
    let worker = async |dispatch: DispatchId| {
        let of = format!("SELECT worker_id::text FROM job_dispatch WHERE id = '{dispatch}'");
        WorkerId(world.text(&of).await.parse().unwrap())
    };
    for lost in [silent, poison, unwanted] {
        silence(&world, worker(lost.dispatch_id).await, 31).await;
    }
    world.sql(&format!("UPDATE job_dispatch SET lost_count = 2 WHERE id = '{}'", poison.dispatch_id)).await;
    let wanted =
        format!("UPDATE job_dispatch SET cancel_requested_at = now() WHERE id = '{}'", unwanted.dispatch_id);
    world.sql(&wanted).await;
    // A minute, a grace of ten seconds, and the margin.
    age(&world, late.dispatch_id, 110).await;
    age(&world, unsaid.dispatch_id, 110).await;
    world
        .sql(&format!(
            "UPDATE worker_claims SET limit_seconds = NULL WHERE '{}' = ANY (dispatch_ids);
             DELETE FROM worker_claims WHERE '{}' = ANY (dispatch_ids) OR '{}' = ANY (dispatch_ids) OR '{}' = ANY (dispatch_ids);
             UPDATE worker_registration SET status = 'OFFLINE', offline_since = now() WHERE worker_id = '{}'",
            unsaid.dispatch_id,
            stray.dispatch_id,
            young_stray.dispatch_id,
            forgotten.dispatch_id,
            worker(stray.dispatch_id).await,
        ))
        .await;
    age(&world, forgotten.dispatch_id, 700).await;

    let before = world.rows("SELECT * FROM job_dispatch ORDER BY id").await;
    let told = found(&world, operator(TENANT), 100).await;
    let mut shown: Vec<(&str, Cause, DispatchStatus)> =
        told.iter().map(|stuck| (stuck.job.as_deref().unwrap(), stuck.cause, stuck.becomes)).collect();
    shown.sort_by_key(|(name, ..)| *name);
    let lost = Cause::WorkerLost { lease: LEASE };
    let overdue = Cause::Overdue { limit: Duration::from_secs(70) };
    assert_eq!(
        shown,
        [
            ("forgotten", Cause::Stray, DispatchStatus::Pending),
            ("late", overdue, DispatchStatus::Pending),
            ("poison", lost, DispatchStatus::DeadLetter),
            ("silent", lost, DispatchStatus::Pending),
            ("stray", Cause::Stray, DispatchStatus::Pending),
            ("unwanted", lost, DispatchStatus::Cancelled),
        ]
    );
    assert!(told.iter().all(|stuck| stuck.tenant == "default" && stuck.attempt == 1));
    assert!(told.iter().all(|stuck| stuck.hostname.is_some()));
    assert_eq!(found(&world, operator(TENANT), 2).await.len(), 2, "at most the requested number");
    assert_eq!(
        world.rows("SELECT * FROM job_dispatch ORDER BY id").await,
        before,
        "a dry run changes nothing"
    );

    let ids: BTreeSet<DispatchId> = told.iter().map(|stuck| stuck.dispatch_id).collect();
    assert_eq!(ids, by_the_leader(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_operators_see_stuck_attempts() {
    let world = Fixture::new().await;
    let running = world.running("lost").await;
    world.sql("UPDATE worker_registration SET last_heartbeat = clock_timestamp() - interval '1 hour'").await;
    assert_eq!(found(&world, Scope::tenant(TENANT), 100).await, []);
    assert_eq!(found(&world, Scope::no_tenant(), 100).await, []);
    let other = TenantId(uuid::Uuid::from_u128(7));
    let told = found(&world, operator(other), 100).await;
    assert_eq!(
        told.iter().map(|stuck| (stuck.dispatch_id, stuck.job.as_deref())).collect::<Vec<_>>(),
        [(running.dispatch_id, None)]
    );
}

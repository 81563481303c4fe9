//! Triggers of jobs that allow any number of runs: they wait for nothing, and each of their runs is
//! counted exactly once.

use sched_model::dispatching::cancellations::{self, Order};
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::job::{JobSettings, OverlapPolicy};
use sched_model::jobs::{self, DeleteRequest, Deleted};
use sched_model::running::job_counters;
use sched_model::{Conn, transact};
use test_support::fixture::{BEGIN, Fixture, TENANT, settings};

use super::triggers::{count_created, trigger};

const UNCOUNTED: &str = "SELECT coalesce(sum(opened), 0) FROM uncounted_openings";
const COUNTED: &str = "SELECT active_dispatches, total_run_count FROM scheduled_jobs";

fn limited(name: &str, max_instances: i32) -> JobSettings {
    JobSettings { max_instances, overlap_policy: OverlapPolicy::Queue, ..settings(name) }
}

/// Runs `change` after two triggers of job `a` have locked it, and before they commit.
async fn change_beside_triggers<T>(world: &Fixture, change: impl Future<Output = T>) -> T {
    world
        .sql(
            "CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$;
             CREATE TRIGGER gate BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION wait_at_gate()",
        )
        .await;
    let gate = world.db.client().await;
    gate.batch_execute(&format!("{BEGIN}; SELECT pg_advisory_xact_lock(7)")).await.unwrap();
    let triggers = async { assert_eq!(count_created(&trigger(world, &["a", "a"]).await), 2) };
    let change = async {
        world.wait_for_blocked(1).await;
        change.await
    };
    let release = async {
        world.wait_for_blocked(2).await;
        gate.batch_execute("COMMIT").await.unwrap();
    };
    tokio::join!(triggers, change, release).1
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_triggers_wait_for_no_other_lock() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    let (tick, other) = (world.db.client().await, world.db.client().await);
    tick.batch_execute(&format!("{BEGIN}; SELECT FROM scheduled_jobs FOR NO KEY UPDATE")).await.unwrap();
    other.batch_execute(&format!("{BEGIN}; SELECT FROM scheduled_jobs FOR KEY SHARE")).await.unwrap();
    assert_eq!(count_created(&trigger(&world, &["a", "a"]).await), 2);
    assert_eq!(world.rows(COUNTED).await, [["0", "0"]]);
    for client in [tick, other] {
        client.batch_execute("COMMIT").await.unwrap();
    }
    assert!(job_counters::has_uncounted(&mut world.conn().await).await.unwrap());
    world.count_ends().await;
    assert_eq!(world.rows(COUNTED).await, [["2", "2"]]);
    assert_eq!(world.number(UNCOUNTED).await, 0);
    assert!(!job_counters::has_uncounted(&mut world.conn().await).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_change_waits_for_triggers_and_counts() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    assert_eq!(count_created(&trigger(&world, &["a"]).await), 1);
    Box::pin(change_beside_triggers(&world, world.save(&limited("a", 3)))).await;
    assert_eq!(world.rows(COUNTED).await, [["3", "3"]]);
    assert_eq!(world.number(UNCOUNTED).await, 0);
    world.count_ends().await;
    assert_eq!(world.rows(COUNTED).await, [["3", "3"]], "a later count finds nothing");
    assert_eq!(count_created(&trigger(&world, &["a"]).await), 1);
    let queued = "SELECT count(*) FROM job_dispatch WHERE claimable_at = 'infinity'";
    assert_eq!(world.number(queued).await, 1, "the job has no room");
}

/// A lock that is strengthened later is not seen by a trigger with an older snapshot
/// ([`job_counters`]), so even a save without changes begins with the strongest one.
#[tokio::test(flavor = "multi_thread")]
async fn first_lock_of_a_save_waits_for_triggers() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    Box::pin(change_beside_triggers(&world, world.save(&settings("a")))).await;
    assert_eq!(world.number("SELECT version FROM scheduled_jobs").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_waits_for_triggers_and_cancels_runs() {
    let world = Fixture::new().await;
    let id = world.job("a").save().await.id;
    let order = Order { by: "ada", reason: None };
    let request = DeleteRequest { tenant: TENANT, job: id, version: None, source: "ada", order };
    let mut conn = world.conn().await;
    let delete =
        transact(&mut conn, "test_delete", async |conn: &mut Conn| jobs::delete(conn, &request).await);
    let deleted = Box::pin(change_beside_triggers(&world, delete)).await;
    let Ok(Deleted::Done { cancelled, .. }) = deleted else { panic!("{deleted:?}") };
    assert_eq!(cancelled.len(), 2);
    world.count_ends().await;
    assert_eq!(world.rows(COUNTED).await, [["0", "2"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_beside_triggers_and_changes_are_exact() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    let triggers = async || {
        let mut created = 0;
        for _ in 0..20 {
            created += count_created(&trigger(&world, &["a", "a"]).await);
        }
        created
    };
    let counts = async || {
        for _ in 0..20 {
            world.count_ends().await;
        }
    };
    let changes = async {
        for round in 0..10 {
            world.save(&if round % 2 == 0 { limited("a", 1000) } else { settings("a") }).await;
        }
    };
    let (one, other, (), (), ()) = tokio::join!(triggers(), triggers(), counts(), counts(), changes);
    world.count_ends().await;
    assert_eq!(world.number(UNCOUNTED).await, 0);
    let all = (one + other).to_string();
    assert_eq!(world.rows(COUNTED).await, [[all.clone(), all]]);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_limit_holds_beside_triggers() {
    let world = Fixture::new().await;
    let id = world.job("a").save().await.id;
    let triggers = async || {
        for _ in 0..10 {
            trigger(&world, &["a", "a"]).await;
        }
    };
    let changed = limited("a", 3);
    tokio::join!(triggers(), triggers(), triggers(), world.save(&changed));
    for _ in 0..4 {
        world.trigger(id, None).await;
    }
    let is_kept = "SELECT count(*) FILTER (WHERE claimable_at < 'infinity') >= 3
                          AND max(scheduled_for) FILTER (WHERE claimable_at < 'infinity')
                              <= min(scheduled_for) FILTER (WHERE claimable_at = 'infinity')
                   FROM job_dispatch";
    assert_eq!(world.text(is_kept).await, "t", "after the first queued run, all are queued");
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_runs_are_counted_with_their_openings() {
    let world = Fixture::new().await;
    let id = world.job("a").save().await.id;
    assert_eq!(count_created(&trigger(&world, &["a", "a", "a"]).await), 3);
    let worker = world.worker().await;
    let claimed = world.claim(worker, 1).await;
    world.finish(&claimed[0], AttemptOutcome::Completed).await;
    world.assert_counters_are_true().await;
    assert_eq!(world.rows(COUNTED).await, [["2", "3"]]);
    assert_eq!(count_created(&trigger(&world, &["a"]).await), 1);
    let order = Order { by: "ada", reason: None };
    let cancel = async |conn: &mut Conn| cancellations::cancel_of_job(conn, TENANT, id, &order).await;
    transact(&mut world.conn().await, "test_cancel", cancel).await.unwrap();
    assert_eq!(world.rows(COUNTED).await, [["0", "4"]]);
    assert_eq!(world.number(UNCOUNTED).await, 0);
    world.assert_counters_are_true().await;
}

//! The counters of jobs: ends are counted after their transaction, and exactly once.

use std::time::Duration;

use sched_model::connection::database_clock;
use sched_model::dispatching::tick;
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::retention::retain;
use sched_model::running::claims::Claimed;
use sched_model::running::{attempts, job_counters};
use test_support::fixture::{BEGIN, Fixture, ended};

const UNCOUNTED: &str = "SELECT count(*) FROM uncounted_ends";

async fn end(world: &Fixture, claimed: &Claimed, outcome: AttemptOutcome) {
    let end = ended(claimed, outcome).max_attempts(1).build();
    assert_eq!(attempts::end(&mut world.conn().await, &[end], &[]).await.unwrap().len(), 1);
}

async fn counters(world: &Fixture) -> Vec<Vec<String>> {
    world
        .rows("SELECT active_dispatches, last_status, last_run_at IS NOT NULL FROM scheduled_jobs ORDER BY name")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn end_is_counted_later_by_one_of_two_counts() {
    let world = Fixture::new().await;
    for round in 0..20 {
        let claimed = world.running(&format!("job-{round}")).await;
        end(&world, &claimed, AttemptOutcome::Completed).await;
    }
    assert_eq!(world.number(UNCOUNTED).await, 20);
    let open = "SELECT sum(active_dispatches) FROM scheduled_jobs";
    assert_eq!(world.number(open).await, 20, "the end itself counts nothing");
    let (mut one, mut other) = (world.conn().await, world.conn().await);
    let (one, other) = tokio::join!(job_counters::count(&mut one), job_counters::count(&mut other));
    assert_eq!(one.unwrap().jobs + other.unwrap().jobs, 20);
    assert_eq!((world.number(UNCOUNTED).await, world.number(open).await), (0, 0));
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_count_is_repeated() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    end(&world, &claimed, AttemptOutcome::Completed).await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON scheduled_jobs FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    job_counters::count(&mut world.conn().await).await.unwrap_err();
    assert_eq!(world.number(UNCOUNTED).await, 1, "the count and the deletion are one transaction");
    world.sql("DROP TRIGGER refuse ON scheduled_jobs").await;
    world.count_ends().await;
    assert_eq!(counters(&world).await, [["0", "COMPLETED", "t"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn end_from_before_a_change_of_the_clock_waits_too() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    end(&world, &claimed, AttemptOutcome::Completed).await;
    world.sql("UPDATE uncounted_ends SET created_at = now() + interval '1 hour'").await;
    let patience = Duration::from_secs(60);
    assert!(job_counters::is_behind(&mut world.conn().await, patience).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn end_does_not_wait_for_the_lock_on_its_job() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let holder = world.db.client().await;
    holder.batch_execute(&format!("{BEGIN}; SELECT FROM scheduled_jobs FOR UPDATE")).await.unwrap();
    end(&world, &claimed, AttemptOutcome::Completed).await;
    assert_eq!(world.number("SELECT count(*) FROM job_execution_log").await, 1);
    holder.batch_execute("COMMIT").await.unwrap();
    world.count_ends().await;
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_started_attempts_and_final_states_change_the_job() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let unstarted = ended(&claimed, AttemptOutcome::Released)
        .retry_after(Duration::ZERO)
        .record(|record| record.duration = Duration::ZERO)
        .build();
    world.end(&[unstarted], &[]).await;
    assert_eq!(counters(&world).await, [["1", "-", "f"]], "it waits again and has not started");
    let worker = world.worker().await;
    world.skip_waits().await;
    let again = world.claim(worker, 1).await.remove(0);
    world.end(&[ended(&again, AttemptOutcome::Failed).retry_after(Duration::ZERO).build()], &[]).await;
    assert_eq!(counters(&world).await, [["1", "-", "t"]], "it waits for its retry");
    world.skip_waits().await;
    let last = world.claim(worker, 1).await.remove(0);
    world.end(&[ended(&last, AttemptOutcome::Failed).max_attempts(2).build()], &[]).await;
    assert_eq!(counters(&world).await, [["0", "DEAD_LETTER", "t"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tick_discounts_ended_runs_of_a_job_without_room() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    world
        .sql(
            "UPDATE scheduled_jobs
             SET next_run_at = now() - interval '1 second', overlap_policy = 'skip', max_instances = 1",
        )
        .await;
    let open = async || {
        let mut conn = world.conn().await;
        let now = database_clock::now(&conn).await.unwrap();
        tick::lock_due(&mut conn, now, 10).await.unwrap().pop().unwrap().active_dispatches
    };
    assert_eq!(open().await, 1);
    end(&world, &claimed, AttemptOutcome::Completed).await;
    assert_eq!(open().await, 0, "the end is stored and not counted");
    world.sql("UPDATE scheduled_jobs SET active_dispatches = 2, queued_dispatches = 1").await;
    assert_eq!(open().await, 2, "the count releases the queued run first");
    world.sql("UPDATE scheduled_jobs SET active_dispatches = 1, queued_dispatches = 0").await;
    world.count_ends().await;
    assert_eq!(open().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_add_attempts_to_their_minutes_once() {
    let world = Fixture::new().await;
    for (name, outcome) in [
        ("a", AttemptOutcome::Completed),
        ("b", AttemptOutcome::Completed),
        ("c", AttemptOutcome::Failed),
        ("d", AttemptOutcome::Cancelled),
    ] {
        let claimed = world.running(name).await;
        end(&world, &claimed, outcome).await;
        world.count_ends().await;
    }
    world.count_ends().await;
    let totals = |source: &str, count: &str| {
        format!(
            "SELECT status, {count}::bigint, sum(duration_ms)::bigint FROM {source} GROUP BY status ORDER BY status"
        )
    };
    let history = world.rows(&totals("job_execution_log", "count(*)")).await;
    assert_eq!(history.len(), 3);
    assert_eq!(world.rows(&totals("attempt_minutes", "sum(attempts)")).await, history);
    let other = "SELECT count(*) FROM attempt_minutes WHERE minute <> date_trunc('minute', minute)";
    assert_eq!(world.number(other).await, 0);

    let now = database_clock::now(&world.conn().await).await.unwrap();
    let delete = async |now| retain::minutes(&mut world.conn().await, now, 100).await.unwrap();
    assert_eq!(delete(now).await, 0);
    assert!(delete(now + chrono::TimeDelta::days(33)).await >= 3);
    assert_eq!(world.number("SELECT count(*) FROM attempt_minutes").await, 0);
}

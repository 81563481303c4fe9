//! Fires that the leader plans ahead of their time.

use std::time::Duration;

use sched_runtime::driver::Activation;
use sched_scheduler::tasks::dispatch::Dispatch;
use test_support::{fixture::PATIENCE, wait_for};

use crate::leader::{Leader, assert_refused, run};
use crate::refused::dispatch;

const RUNS: &str = "SELECT count(*) FROM job_dispatch";

/// Inserts an hourly job; `due` is SQL.
async fn insert(leader: &Leader, name: &str, due: &str) {
    leader
        .sql(&format!(
            r#"INSERT INTO scheduled_jobs (tenant_id, project_id, name, task_function_id, job_type, schedule_config, next_run_at,
                                           settled_until, created_at, last_fire_at)
               SELECT f.tenant_id, p.id, '{name}', f.id, 'interval', '{{"hours": 1}}', {due}, {due} - interval '1 hour',
                      {due} - interval '1 hour', {due} - interval '1 hour'
               FROM task_functions f JOIN projects p ON p.tenant_id = f.tenant_id WHERE f.name = 'noop'"#
        ))
        .await;
}

/// A task that has planned the job `planned`, due in about two seconds.
async fn with_plan(leader: &Leader) -> Dispatch {
    insert(leader, "planned", "date_trunc('milliseconds', now() + interval '1900 ms')").await;
    let mut task = dispatch(leader);
    run(&mut task).await;
    assert_eq!(task.plans.len(), 1);
    task
}

async fn wait_until_due(leader: &Leader) {
    let later = "SELECT count(*) FROM scheduled_jobs WHERE next_run_at > clock_timestamp()";
    leader.wait_for_count("the jobs are due", later, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn planned_fire_has_rows_of_ordinary_one() {
    let leader = Leader::new().await;
    let mut task = with_plan(&leader).await;
    insert(&leader, "ordinary", "(SELECT next_run_at FROM scheduled_jobs WHERE name = 'planned')").await;
    wait_until_due(&leader).await;
    let report = run(&mut task).await;
    assert_eq!(
        (&report.counts["planned"], &report.counts["dispatched"]),
        (&1.into(), &2.into()),
        "{report:?}"
    );
    // The ordinary tick settles up to its own clock.
    let own = "'{id,job_id,name,created_at,updated_at,last_dispatched_at,burst_order,settled_until}'::text[]";
    for rows in [
        format!("SELECT to_jsonb(d) - {own} AS r FROM job_dispatch d"),
        format!("SELECT to_jsonb(j) - {own} AS r FROM scheduled_jobs j"),
    ] {
        let distinct = format!("SELECT count(*) || ' ' || count(DISTINCT r) FROM ({rows}) AS rows");
        assert_eq!(leader.text(&distinct).await, "2 1", "{:?}", leader.records(&rows).await);
    }
    let settled =
        "SELECT bool_and(settled_until >= last_fire_at AND settled_until < next_run_at) FROM scheduled_jobs";
    assert_eq!(leader.text(settled).await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_job_takes_ordinary_way_at_once() {
    let leader = Leader::new().await;
    let mut task = with_plan(&leader).await;
    leader.sql("UPDATE scheduled_jobs SET version = version + 1, priority = 7").await;
    wait_until_due(&leader).await;
    let report = run(&mut task).await;
    assert_eq!(
        (&report.counts["planned"], &report.counts["dispatched"]),
        (&0.into(), &1.into()),
        "{report:?}"
    );
    assert_eq!(leader.records("SELECT priority FROM job_dispatch").await, ["(7)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_job_gets_skip_of_ordinary_tick() {
    let leader = Leader::new().await;
    let mut task = with_plan(&leader).await;
    leader.sql("UPDATE queues SET is_paused = true").await;
    wait_until_due(&leader).await;
    run(&mut task).await;
    assert_eq!(leader.number(RUNS).await, 0);
    assert_eq!(leader.records("SELECT reason FROM skipped_fires").await, ["(paused_queue)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_end_with_term() {
    let leader = Leader::new().await;
    let mut task = with_plan(&leader).await;
    task.batches.scope = leader.deposed();
    wait_until_due(&leader).await;
    assert_refused(&task.run_once().await);
    assert_eq!((task.plans.len(), leader.number(RUNS).await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_job_is_dispatched_after_unlock() {
    let leader = Leader::new().await;
    let mut task = with_plan(&leader).await;
    wait_until_due(&leader).await;
    let other = leader.client().await;
    other.batch_execute(test_support::fixture::BEGIN).await.unwrap();
    other.batch_execute("SELECT FROM scheduled_jobs FOR UPDATE").await.unwrap();
    run(&mut task).await;
    assert_eq!((task.plans.len(), leader.number(RUNS).await), (0, 0));
    other.batch_execute("COMMIT").await.unwrap();
    wait_for("the tick dispatches the job", PATIENCE, async || {
        run(&mut task).await;
        if leader.number(RUNS).await == 1 { Ok(()) } else { Err("no run".to_owned()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn far_job_is_planned_two_seconds_before() {
    let leader = Leader::new().await;
    insert(&leader, "far", "now() + interval '1 minute'").await;
    let mut task = Dispatch { poll_interval: Duration::from_secs(600), ..dispatch(&leader) };
    let wait = run(&mut task).await.next_in.unwrap();
    assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(58), "{wait:?}");
    assert_eq!(task.plans.len(), 0);
}

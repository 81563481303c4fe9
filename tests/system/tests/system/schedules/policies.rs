//! Overlaps, quotas and new zone tables, from a manifest to the runs.

use serde_json::{Value, json};
use system_tests::{Installation, every, shell_jobs};

fn with(job: Value, fields: Value) -> Value {
    let (Value::Object(mut job), Value::Object(fields)) = (job, fields) else { panic!("objects") };
    job.extend(fields);
    Value::Object(job)
}

const OVERLAPS: &str =
    "SELECT count(*) FROM job_execution_log a JOIN job_execution_log b ON a.job_id = b.job_id AND a.id < b.id
    WHERE a.completed_at > b.started_at AND b.completed_at > a.started_at";

#[tokio::test(flavor = "multi_thread")]
async fn fires_that_overlap_queue_up_and_run_one_after_the_other() {
    let system = Installation::with(1, 2).await;
    let queue = json!({"overlap_policy": "queue", "misfire_policy": "fire_all", "max_runs": 5});
    system.apply(&shell_jobs("sleep 1.4", &[with(every("slow", 1), queue)])).await;
    let in_line = "SELECT max(queued_dispatches) FROM scheduled_jobs";
    system.wait_count("a line", in_line, 1).await;
    system.wait_count("all runs", "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'", 5).await;
    assert_eq!(system.count(OVERLAPS).await, 0);
    assert_eq!(system.count("SELECT count(*) FROM skipped_fires WHERE reason = 'overlap'").await, 0);
    let order = "SELECT count(*) FROM job_execution_log a JOIN job_execution_log b ON a.scheduled_for < b.scheduled_for
                 WHERE a.started_at > b.started_at";
    assert_eq!(system.count(order).await, 0, "the oldest run starts first");
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_fire_takes_the_place_of_the_oldest_run() {
    let system = Installation::with(1, 2).await;
    let cancel = json!({"overlap_policy": "cancel_oldest", "max_runs": 3});
    system.apply(&shell_jobs("sleep 600", &[with(every("endless", 2), cancel)])).await;
    let ended = "SELECT count(*) FROM job_execution_log l JOIN job_dispatch d ON d.id = l.dispatch_id
                 WHERE l.status = 'CANCELLED' AND d.status = 'CANCELLED' AND d.error_message LIKE '%took its place%'";
    system.wait_count("two runs cancelled", ended, 2).await;
    let running = "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'";
    system.wait_count("the last one running", running, 1).await;
    assert_eq!(system.count(OVERLAPS).await, 0, "the next starts when the one before has ended");
    let latest = "SELECT count(*) FROM job_dispatch d WHERE d.status = 'IN_PROGRESS'
                  AND d.scheduled_for = (SELECT max(scheduled_for) FROM job_dispatch)";
    assert_eq!(system.count(latest).await, 1);
    assert_eq!(system.count("SELECT active_dispatches + queued_dispatches FROM scheduled_jobs").await, 1);
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exceeds_a_quota_is_held_back_until_the_next_window() {
    let mut system = Installation::with(0, 0).await;
    system.execute("UPDATE tenants SET quotas = '{\"dispatches_per_minute\": 3}'").await;
    let at_once: Vec<Value> = (0..7)
        .map(|n| json!({"name": format!("job-{n}"), "job_type": "oneoff", "schedule_config": {"run_at": "2026-01-01T00:00:00Z"}}))
        .collect();
    system.apply(&shell_jobs("true", &at_once)).await;
    system.start_scheduler(&[]).await;
    let dispatched = "SELECT count(*) FROM job_dispatch";
    let held =
        "SELECT count(*) FROM scheduled_jobs WHERE dispatch_lock_until > now() AND next_run_at IS NOT NULL";
    for (all, left) in [(3, 4), (6, 1)] {
        system.wait_count("as many as the quota allows", dispatched, all).await;
        system.wait_count("the others held back", held, left).await;
        assert_eq!(system.count("SELECT dispatched FROM tenant_usage").await, 3);
        system
            .execute(
                "UPDATE tenant_usage SET minute = minute - interval '1 minute';
                  UPDATE scheduled_jobs SET dispatch_lock_until = now(), version = version",
            )
            .await;
    }
    system.wait_count("nothing is lost", dispatched, 7).await;
    assert_eq!(system.count(held).await, 0);
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_zone_tables_move_the_fires_that_lie_ahead() {
    let mut system = Installation::with(1, 0).await;
    let daily = json!({"name": "daily", "job_type": "cron", "timezone": "Europe/Berlin", "schedule_config": {"expression": "30 2 * * *"}});
    system.apply(&shell_jobs("true", &[daily])).await;
    let computed = system.count("SELECT extract(epoch FROM next_run_at)::bigint FROM scheduled_jobs").await;
    system.schedulers[0].kill9().await;
    // As a process with other tables would have left it.
    system.execute("UPDATE scheduled_jobs SET tzdata_version = '1999a', next_run_at = next_run_at + interval '1 hour'").await;
    system.start_scheduler(&[]).await;
    let moved_back = format!(
        "SELECT count(*) FROM scheduled_jobs WHERE extract(epoch FROM next_run_at) = {computed} AND tzdata_version <> '1999a'"
    );
    system.wait_count("the fire as the present tables have it", &moved_back, 1).await;
}

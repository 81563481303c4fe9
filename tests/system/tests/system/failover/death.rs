//! Leaders that die.

use serde_json::{Value, json};
use system_tests::{Installation, every, shell_jobs};

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

/// Scenario 4.
#[tokio::test(flavor = "multi_thread")]
async fn failover_after_kill_9_loses_and_doubles_no_fire() {
    let mut system = Installation::with(2, 1).await;
    system.apply(&shell_jobs("true", &[every("a", 1), every("b", 1)])).await;
    system.wait_count("fires of the first leader", COMPLETED, 4).await;
    let (leader, term) = (system.leader().await, system.term().await);
    let killed_at = system.now().await;
    system.schedulers[leader].kill9().await;
    let (_, began) = system.wait_term_after(term).await;
    let took = began - killed_at;
    println!("take-over after kill -9: {took:.2} s, with a lease of 2 s");
    assert!(took < 3.0, "the take-over took {took:.2} s: longer than the lease and one second");
    let before = system.count(COMPLETED).await;
    system.wait_count("fires of the second leader", COMPLETED, before + 6).await;
    assert_ne!(system.leader().await, leader);
    assert_eq!(system.count("SELECT count(*) FROM leader_terms WHERE end_reason = 'expired'").await, 1);
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_without_any_standby_fires_are_made_good_when_one_comes() {
    let mut system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[every("a", 1)])).await;
    system.wait_count("a fire", COMPLETED, 1).await;
    system.schedulers[0].kill9().await;
    let overdue =
        "SELECT count(*) FROM scheduled_jobs WHERE next_run_at < clock_timestamp() - interval '3 seconds'";
    system.wait_count("the job to be overdue", overdue, 1).await;
    system.start_scheduler(&[]).await;
    let before = system.count(COMPLETED).await;
    system.wait_count("fires go on", COMPLETED, before + 3).await;
    system.check_invariants().await;
}

/// Schedulers that start on one host while many jobs become due: each has its own identity, one
/// leads, and every job is dispatched once.
#[tokio::test(flavor = "multi_thread")]
async fn failover_between_schedulers_started_at_once_when_everything_is_due() {
    let mut system = Installation::with(0, 1).await;
    let now = system.count("SELECT extract(epoch FROM clock_timestamp())::bigint").await;
    let second = (now + 5) % 60;
    let cron = json!({"expression": format!("{second} * * * * *"), "seconds": true});
    let jobs: Vec<Value> = (0..30)
        .map(|n| json!({"name": format!("job-{n}"), "job_type": "cron", "schedule_config": cron}))
        .collect();
    system.apply(&shell_jobs("true", &jobs)).await;
    let moment = format!("SELECT (clock_timestamp() > to_timestamp({}))::integer", now + 4);
    system.wait_count("the moment before everything is due", &moment, 1).await;
    system.start_schedulers(3, &[]).await;
    system.wait_count("all runs", COMPLETED, 30).await;
    assert_eq!(system.count("SELECT count(*) FROM job_dispatch").await, 30);
    assert_eq!(system.count("SELECT count(DISTINCT scheduled_for) FROM job_dispatch").await, 1);
    let registered = "SELECT count(*) FROM scheduler_instances";
    system.wait_count("three schedulers", registered, 3).await;
    assert_eq!(system.count("SELECT count(DISTINCT hostname) FROM scheduler_instances").await, 1);
    assert_eq!(system.count("SELECT count(*) FROM scheduler_instances WHERE is_leader").await, 1);
    assert_eq!(system.count("SELECT count(*) FROM leader_terms").await, 1);
    system.check_invariants().await;
}

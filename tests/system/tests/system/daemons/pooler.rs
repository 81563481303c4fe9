//! The daemons through a real pgbouncer: supported modes work, others are rejected.

use system_tests::{Installation, PATIENCE, every, manual, shell_jobs};
use test_support::{Pooler, Process, TestDatabase, http, wait_for};

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

#[tokio::test(flavor = "multi_thread")]
async fn through_a_pooler_in_session_mode_everything_works_notifications_too() {
    let mut system = Installation::new().await;
    let pooler = Pooler::before(system.database.url(), "session").await;
    let url = ("DATABASE_URL", pooler.url());
    system.start_api_with(&[url]).await;
    system.start_scheduler(&[url]).await;
    // Only a notification brings work to this worker within the minute.
    let patient = [url, ("WORKER_POLL_INTERVAL", "60s"), ("WORKER_MAX_POLL_INTERVAL", "60s")];
    system.start_worker(&patient).await;
    let health = system.workers[0].health_addr().await;
    wait_for("the worker listens", PATIENCE, async || {
        let status = http::get(health, "/status").await.unwrap().json();
        if status["status"]["listening"] == true { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    system.apply(&shell_jobs("true", &[every("pulse", 1), manual("by-hand")])).await;
    let began = system.now().await;
    system.trigger("by-hand").await;
    system.wait_count("runs of both jobs", COMPLETED, 4).await;
    let took = system.now().await - began;
    assert!(took < 30.0, "notified work took {took} seconds");
    // A session that returns to the pooler keeps no state for the next client.
    let leader = system.leader().await;
    system.schedulers[leader].kill9().await;
    system.start_scheduler(&[url]).await;
    let before = system.count(COMPLETED).await;
    system.wait_count("runs under the next leader", COMPLETED, before + 2).await;
    system.check_invariants().await;
}

/// pgbouncer 1.18 keeps no prepared statements in this mode, and no release keeps session
/// time-outs. A daemon does not start, with or without notifications.
#[tokio::test(flavor = "multi_thread")]
async fn through_a_pooler_in_transaction_mode_no_daemon_starts_and_each_says_why() {
    let database = TestDatabase::new().await;
    for mode in ["transaction", "statement"] {
        let pooler = Pooler::before(database.url(), mode).await;
        for name in ["sched-api", "sched-scheduler", "sched-worker"] {
            let daemon = Process::daemon(name).env("API_PORT", "0").env("WORKER_LISTEN", "false");
            let ended = daemon.env("DATABASE_URL", pooler.url()).run(PATIENCE).await;
            assert_eq!(ended.status.code(), Some(3), "{name} in {mode} mode: {}", ended.stderr);
            assert!(ended.stderr.contains("set the pooler to session mode"), "{name}: {}", ended.stderr);
        }
    }
}

//! Daemons and the database that die and restart while jobs run.

use system_tests::processes::children_of;
use system_tests::{Installation, PATIENCE, every, manual, retried, shell_jobs};
use test_support::{http, wait_for};

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

/// Scenario 5.
#[tokio::test(flavor = "multi_thread")]
async fn restart_of_a_killed_worker_is_noticed_and_its_work_retried_by_another() {
    let mut system = Installation::with(1, 0).await;
    let folder = tempfile::tempdir().unwrap();
    let temp_dir = [("WORKER_TEMP_DIR", folder.path().to_str().unwrap())];
    let private_directories = || std::fs::read_dir(folder.path()).unwrap().count();
    system.start_worker(&temp_dir).await;
    let files = system.files_of_workers();
    // The first attempt never ends.
    let policy = serde_json::json!({"max_attempts": 3, "backoff_seconds": 0, "jitter_percent": 0});
    let job = serde_json::json!({"name": "survivor", "job_type": "manual", "retry_policy": policy});
    system.apply(&shell_jobs("test $SCHED_ATTEMPT -gt 1 || sleep 600", &[job])).await;
    system.trigger("survivor").await;
    system.wait_count("the claim", "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'", 1).await;
    wait_for("the private directory", PATIENCE, async || match private_directories() {
        1 => Ok(()),
        n => Err(format!("{n} directories")),
    })
    .await;
    system.workers[0].kill9().await;
    system.start_worker(&temp_dir).await;
    system.wait_count("the second attempt", COMPLETED, 1).await;
    assert_eq!(private_directories(), 0, "the killed worker's directory is removed too");
    let history =
        "SELECT count(*) FROM job_execution_log WHERE (attempt, status) IN ((1, 'LOST'), (2, 'COMPLETED'))";
    assert_eq!(system.count(history).await, 2);
    assert_eq!(system.count("SELECT count(*) FROM worker_registration WHERE status = 'OFFLINE'").await, 1);
    assert_eq!(system.count("SELECT count(*) FROM events WHERE event_type = 'worker_offline'").await, 1);
    system.check_machine_below(folder.path(), files).await;
    system.check_invariants().await;
}

/// Each daemon is killed in turn while jobs run: the others continue, and the restarted one
/// resumes.
#[tokio::test(flavor = "multi_thread")]
async fn restart_of_each_daemon_in_turn_while_jobs_run() {
    let mut system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[every("pulse", 1), manual("by-hand")])).await;
    system.wait_count("the first runs", COMPLETED, 2).await;

    system.api.take().unwrap().kill9().await;
    let before = system.count(COMPLETED).await;
    system.wait_count("runs without the API", COMPLETED, before + 2).await;
    system.start_api().await;
    assert_eq!(system.get("/api/v1/jobs/pulse").await["name"], "pulse");

    system.schedulers[0].kill9().await;
    system.trigger("by-hand").await;
    let by_hand = "SELECT count(*) FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id WHERE j.name = 'by-hand' AND l.status = 'COMPLETED'";
    system.wait_count("the triggered run", by_hand, 1).await;
    system.start_scheduler(&[]).await;
    let before = system.count(COMPLETED).await;
    system.wait_count("runs of the new scheduler", COMPLETED, before + 2).await;

    system.workers[0].kill9().await;
    system.trigger("by-hand").await;
    system.start_worker(&[]).await;
    system.wait_count("the run that waited", by_hand, 2).await;
    let before = system.count(COMPLETED).await;
    system.wait_count("runs of the new worker", COMPLETED, before + 2).await;
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_with_term_drains_the_worker_and_hands_back_what_does_not_finish() {
    let mut system = Installation::with(1, 0).await;
    system.start_worker(&[("WORKER_DRAIN_TIMEOUT", "1s")]).await;
    system.apply(&shell_jobs("test $SCHED_ATTEMPT -gt 1 || sleep 600", &[manual("long")])).await;
    system.trigger("long").await;
    system.wait_count("the claim", "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'", 1).await;
    let status = system.workers[0].stop_gracefully(PATIENCE).await;
    assert!(status.success(), "{status}");
    assert_eq!(
        system.count("SELECT count(*) FROM worker_registration").await,
        0,
        "the registration is removed"
    );
    let handed_back = "SELECT count(*) FROM job_dispatch WHERE status = 'PENDING' AND retry_count = 0";
    assert_eq!(system.count(handed_back).await, 1, "handing back costs no attempt");
    system.start_worker(&[]).await;
    system.wait_count("the second attempt", COMPLETED, 1).await;
    assert_eq!(system.count("SELECT count(*) FROM job_execution_log WHERE status = 'RELEASED'").await, 1);
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_with_term_lets_running_work_finish() {
    let mut system = Installation::with(1, 1).await;
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let command = format!("touch {}; sleep 2", begun.display());
    system.apply(&shell_jobs(&command, &[manual("short")])).await;
    system.trigger("short").await;
    // Not only claimed: a stopping worker hands back work that has not begun.
    wait_for("the program", PATIENCE, async || if begun.exists() { Ok(()) } else { Err("not begun".into()) })
        .await;
    let status = system.workers[0].stop_gracefully(PATIENCE).await;
    assert!(status.success(), "{status}");
    assert_eq!(
        system
            .count("SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED' AND attempt = 1")
            .await,
        1
    );
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_is_not_needed_by_a_worker_that_froze_past_its_lease() {
    let mut system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("sleep 2", &[retried("frozen")])).await;
    system.trigger("frozen").await;
    system.wait_count("the claim", "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'", 1).await;
    system.workers[0].pause();
    system
        .wait_count("the lost attempt", "SELECT count(*) FROM job_execution_log WHERE status = 'LOST'", 1)
        .await;
    system.start_worker(&[]).await;
    system.workers[0].resume();
    system.wait_count("the second attempt", COMPLETED, 1).await;
    // The frozen worker lost its identity, and works under a new one.
    let alive = "SELECT count(*) FROM worker_registration WHERE status <> 'OFFLINE'";
    wait_for("both workers", PATIENCE, async || match system.count(alive).await {
        2 => Ok(()),
        n => Err(format!("{n} workers are alive")),
    })
    .await;
    assert_eq!(system.count("SELECT count(*) FROM job_execution_log").await, 2);
    system.check_invariants().await;
}

/// Sessions of all daemons are cut; they recover by themselves and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn restart_of_every_database_session_is_ridden_out() {
    let system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[every("pulse", 1)])).await;
    system.wait_count("the first run", COMPLETED, 1).await;
    for _ in 0..5 {
        system.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").await;
        let before = system.count(COMPLETED).await;
        system.wait_count("runs after the cut", COMPLETED, before + 1).await;
    }
    let health = http::get(system.api_addr(), "/health").await.unwrap();
    assert_eq!(health.status, 200, "{}", health.json());
    system.check_invariants().await;
}

/// SIGTERM arrives during claims: claimed dispatches that have not started are handed back, and
/// nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn restart_with_term_during_claims_loses_no_attempt() {
    let mut system = Installation::with(1, 0).await;
    let job =
        serde_json::json!({"name": "fragile", "job_type": "manual", "retry_policy": {"max_attempts": 1}});
    system.apply(&shell_jobs("true", &[job])).await;
    let total = 120;
    for _ in 0..total {
        system.trigger("fragile").await;
    }
    for _ in 0..4 {
        let worker = system.start_worker(&[("WORKER_CONCURRENCY", "8")]).await;
        system.wait_count("a claim", "SELECT count(*) FROM job_dispatch WHERE attempt > 0", 1).await;
        assert!(system.workers[worker].stop_gracefully(PATIENCE).await.success());
    }
    system.start_worker(&[]).await;
    system.wait_count("every run", COMPLETED, total).await;
    assert_eq!(
        system
            .count("SELECT count(*) FROM job_execution_log WHERE status NOT IN ('COMPLETED', 'RELEASED')")
            .await,
        0
    );
    system.check_invariants().await;
}

/// During a failover the server rejects writes for some time: results are kept until it accepts
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn restart_read_only_keeps_the_results_of_finished_work() {
    let mut system = Installation::new().await;
    system.start_api().await;
    let lease = [("WORKER_OFFLINE_THRESHOLD", "60s")];
    system.start_scheduler(&lease).await;
    system.start_worker(&[lease[0], ("LOG_LEVEL", "info")]).await;
    system.apply(&shell_jobs("sleep 1", &[manual("patient")])).await;
    system.trigger("patient").await;
    system.wait_count("the claim", "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'", 1).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let name = system.database.name().to_owned();
    system.execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on; {cut}")).await;
    wait_for("the worker to keep the result", PATIENCE, async || {
        let log = system.workers[0].stderr();
        if log.contains("failed to store results; keeping them and retrying") { Ok(()) } else { Err(log) }
    })
    .await;
    system.execute(&format!("ALTER DATABASE {name} RESET default_transaction_read_only; {cut}")).await;
    system.wait_count("the result", COMPLETED, 1).await;
    assert_eq!(system.count("SELECT count(*) FROM job_execution_log").await, 1);
    system.check_invariants().await;
}

/// Work killed after a lost lease leaves neither processes nor zombies, including escaped
/// processes.
#[tokio::test(flavor = "multi_thread")]
async fn restart_after_a_lost_lease_leaves_no_process_and_no_zombie() {
    let mut system = Installation::with(1, 1).await;
    let fork = "test $SCHED_ATTEMPT -gt 1 || { for i in $(seq 30); do setsid sleep 600 & done; sleep 600; }";
    system.apply(&shell_jobs(fork, &[retried("forks")])).await;
    system.trigger("forks").await;
    let worker = system.workers[0].id();
    wait_for("the children", PATIENCE, async || match children_of(worker).len() {
        0 => Err("none yet".to_owned()),
        _ => Ok(()),
    })
    .await;
    system.workers[0].pause();
    system
        .wait_count("the lost attempt", "SELECT count(*) FROM job_execution_log WHERE status = 'LOST'", 1)
        .await;
    system.start_worker(&[]).await;
    system.workers[0].resume();
    wait_for("every child process ends", PATIENCE, async || match children_of(worker) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{} are left", left.len())),
    })
    .await;
    system.wait_count("the second attempt", COMPLETED, 1).await;
    system.check_invariants().await;
}

/// Dispatched work is done without a scheduler, also when its worker dies.
#[tokio::test(flavor = "multi_thread")]
async fn restart_of_a_killed_worker_is_noticed_by_another_where_nobody_leads() {
    let mut system = Installation::with(0, 0).await;
    let short = [("WORKER_OFFLINE_THRESHOLD", "2s"), ("WORKER_HEARTBEAT_INTERVAL", "200ms")];
    system.start_worker(&short).await;
    let policy = serde_json::json!({"max_attempts": 3, "backoff_seconds": 0, "jitter_percent": 0});
    let job = serde_json::json!({"name": "survivor", "job_type": "manual", "retry_policy": policy});
    system.apply(&shell_jobs("test $SCHED_ATTEMPT -gt 1 || sleep 600", &[job])).await;
    let dispatch = system.trigger("survivor").await;
    system.wait_count("the claim", "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'", 1).await;
    system.workers[0].kill9().await;
    let killed = system.now().await;
    for _ in 0..3 {
        system.start_worker(&short).await;
    }
    system.wait_count("the second attempt", COMPLETED, 1).await;
    let lost = format!(
        "SELECT extract(epoch FROM completed_at) FROM job_execution_log
         WHERE dispatch_id = '{dispatch}' AND (attempt, status, error_class) = (1, 'LOST', 'worker_lost')"
    );
    let noticed = system.number(&lost).await - killed;
    println!("nobody leads: the attempt was given up {noticed:.1} s after its worker was killed");
    assert!(noticed >= 6.0, "three leases are 6 s, and the worker was lost after {noticed} s");
    for (event, expected) in [("worker_offline", 1), ("schedule_execution_lost", 1)] {
        let told = format!("SELECT count(*) FROM events WHERE event_type = '{event}'");
        assert_eq!(system.count(&told).await, expected, "{event}");
    }
    assert_eq!(system.count("SELECT count(*) FROM scheduler_instances").await, 0);
    system.check_invariants().await;
}

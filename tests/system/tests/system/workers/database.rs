//! Workers whose database goes away at the worst moment: around a commit, by a stop, by a crash.

use system_tests::{Effects, Frozen, Installation, PATIENCE, manual, retried, shell_jobs};
use test_support::{OwnServer, Proxy, http, wait_for};

const COMPLETED: &str = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'";

/// Every second commit of the worker, of a claim or of results, is cut, in turn before the server
/// sees it and before the worker sees the answer. The worker releases unknown claims and reads
/// unknown results back, so nothing is lost and nothing runs again.
#[tokio::test(flavor = "multi_thread")]
async fn worker_whose_commits_are_cut_loses_no_result_and_repeats_no_work() {
    let mut system = Installation::with(1, 0).await;
    let effects = Effects::new();
    system.apply(&shell_jobs(&effects.command("work=1"), &[retried("short")])).await;
    let proxy = Proxy::cutting_around(system.database.url(), "COMMIT", 2).await;
    let settings =
        [("DATABASE_URL", proxy.url()), ("WORKER_CONCURRENCY", "2"), ("WORKER_OFFLINE_THRESHOLD", "30s")];
    system.start_worker(&settings).await;
    for _ in 0..30 {
        system.trigger("short").await;
    }
    system.wait_count("all work", COMPLETED, 30).await;
    println!("30 results, {} commits cut", proxy.cut_so_far());
    assert!(proxy.cut_so_far() >= 4, "{} commits were cut: nothing is shown", proxy.cut_so_far());
    // A claim whose commit was cut may have taken effect. Its runs are released without a start.
    let ran = "SELECT count(*) FROM job_execution_log WHERE status <> 'RELEASED'";
    assert_eq!(system.count(ran).await, 30, "each ran once");
    assert_eq!(effects.count("begin"), 30);
    system.check_what_is_left(&effects, &[], usize::MAX).await;
}

/// Scenario 8: the database stops and crashes while work runs. Every second attempt has a reason.
#[tokio::test(flavor = "multi_thread")]
async fn worker_rides_out_restarts_of_the_database_in_either_mode() {
    let mut server = OwnServer::start().await;
    let mut system = Installation::on(server.database().await).await;
    system.start_api().await;
    system.start_scheduler(&[("WORKER_OFFLINE_THRESHOLD", "10s")]).await;
    let patient = [("WORKER_OFFLINE_THRESHOLD", "10s"), ("WORKER_CONCURRENCY", "4")];
    system.start_worker(&patient).await;
    system.start_worker(&patient).await;
    let files = system.files_of_workers();
    let effects = Effects::new();
    system.apply(&shell_jobs(&effects.command("work=2"), &[retried("short")])).await;
    let mut accepted = 0;
    for is_crash in [false, true, false, true] {
        for _ in 0..15 {
            system.trigger("short").await;
            accepted += 1;
        }
        effects.wait("begin", accepted - 12).await;
        if is_crash {
            server.crash().await;
        } else {
            server.restart_in_order().await;
        }
        system.reconnect().await;
        let api = system.api_addr();
        wait_for("the API to be ready again", PATIENCE, async || {
            match http::get(api, "/health/ready").await {
                Ok(answer) if answer.status == 200 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    let accepted = i64::try_from(accepted).unwrap();
    system.wait_count("what was accepted", COMPLETED, accepted).await;
    // Each later attempt has a record of the end of the previous one.
    let unexplained = "SELECT count(*) FROM job_execution_log l WHERE l.attempt > 1 AND NOT EXISTS (
        SELECT FROM job_execution_log b WHERE b.dispatch_id = l.dispatch_id AND b.attempt = l.attempt - 1
        AND b.status IN ('LOST', 'RELEASED') AND b.error_message IS NOT NULL)";
    assert_eq!(system.count(unexplained).await, 0);
    system.check_what_is_left(&effects, &[] as &[Frozen], files).await;
}

/// A registration that waits longer than the trusted lease is repeated: claims under the first
/// would be killed before they ran.
#[tokio::test(flavor = "multi_thread")]
async fn worker_whose_registration_comes_late_registers_anew_and_kills_nothing() {
    let mut system = Installation::with(0, 0).await;
    system.apply(&shell_jobs("true", &[manual("short")])).await;
    system.trigger("short").await;
    let (in_the_way, look) = (system.database.client().await, system.database.client().await);
    in_the_way.batch_execute("BEGIN; LOCK TABLE worker_registration IN SHARE MODE").await.unwrap();
    let let_go = async {
        // The worker trusts four fifths of its lease.
        let late = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                    AND query LIKE '%worker_registration%' AND clock_timestamp() - query_start > interval '4.5 seconds'";
        wait_for("a registration that waits for longer than the lease is trusted", PATIENCE, async || {
            let waiting: i64 = look.query_one(late, &[]).await.unwrap().get(0);
            (waiting > 0).then_some(()).ok_or_else(|| "none waits".to_owned())
        })
        .await;
        in_the_way.batch_execute("COMMIT").await.unwrap();
    };
    let settings = [("WORKER_OFFLINE_THRESHOLD", "5s"), ("DATABASE_LOCK_TIMEOUT", "20s")];
    tokio::join!(system.start_worker(&settings), let_go);
    system.wait_count("the work", COMPLETED, 1).await;
    assert_eq!(
        system.count("SELECT count(*) FROM job_execution_log").await,
        1,
        "no attempt was started and lost"
    );
    let log = system.workers[0].stderr();
    assert!(log.contains("registration took longer than the trust in the lease; registering again"), "{log}");
    let health = system.workers[0].health_addr().await;
    let metrics = http::get(health, "/metrics").await.unwrap().body;
    assert!(metrics.lines().any(|line| line == "sched_worker_leases_lost_total 0"), "{metrics}");
    system.check_invariants().await;
}

//! Leaders that freeze, and wake when another scheduler leads.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use system_tests::{Installation, PATIENCE, every, shell_jobs};
use test_support::wait_for;

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

/// Time above the lease for a busy machine. An open transaction of the frozen leader adds nothing:
/// the server ends it after half a lease.
const MARGIN: f64 = 2.0;

/// Jobs that fire every second, so that a leader is often busy.
fn busy() -> Value {
    let jobs: Vec<Value> = (0..20).map(|n| every(&format!("job-{n}"), 1)).collect();
    shell_jobs("true", &jobs)
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_of_leaders_frozen_at_random_points_lets_no_stale_write_through() {
    let mut system = Installation::with(0, 1).await;
    system.apply(&busy()).await;
    system.start_schedulers(2, &[("LEADER_LEASE", "1s"), ("SCHEDULER_BATCH_SIZE", "2")]).await;
    let mut random = StdRng::seed_from_u64(4);
    let mut longest = 0.0_f64;
    for _ in 0..5 {
        let before = system.count(COMPLETED).await;
        system.wait_count("fires", COMPLETED, before + 20).await;
        let (leader, term) = (system.leader().await, system.term().await);
        // The fault may occur at any point of a second.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1000))).await;
        let frozen_at = system.now().await;
        system.schedulers[leader].pause();
        let (_, began) = system.wait_term_after(term).await;
        longest = longest.max(began - frozen_at);
        tokio::time::sleep(Duration::from_millis(random.random_range(0..500))).await;
        system.schedulers[leader].resume();
        wait_for("the frozen leader becomes a standby", PATIENCE, async || {
            let status = system.scheduler_status(leader).await;
            if status["role"] == "standby" { Ok(()) } else { Err(status.to_string()) }
        })
        .await;
    }
    println!("take-over from a frozen leader: {longest:.2} s at most of 5, with a lease of 1 s");
    assert!(longest < 1.0 + MARGIN, "a take-over took {longest:.2} s");
    assert_eq!(system.count("SELECT count(*) FROM scheduler_instances WHERE is_leader").await, 1);
    assert!(system.count("SELECT count(DISTINCT term) FROM job_dispatch").await >= 5);
    system.check_invariants().await;
}

/// The leader freezes in its tick with its fence held: the take-over waits until the server ends
/// that transaction, and nothing of it remains.
#[tokio::test(flavor = "multi_thread")]
async fn failover_of_a_leader_frozen_inside_its_tick_waits_for_the_server_to_end_it() {
    let system = Installation::with(2, 1).await;
    system.apply(&busy()).await;
    system.wait_count("fires", COMPLETED, 20).await;
    let (leader, term) = (system.leader().await, system.term().await);
    // The tick's INSERT waits for this lock; its fence and its jobs are locked by then. A planned fire
    // gives up after 50 ms. The server shows only the beginning of a statement.
    let blocker = system.database.client().await;
    blocker.batch_execute("BEGIN; LOCK TABLE job_dispatch IN SHARE ROW EXCLUSIVE MODE").await.unwrap();
    let in_tick = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sched-scheduler'
                   AND wait_event_type = 'Lock' AND query LIKE '-- Runs from the parameters.%'";
    system.wait_count("the leader to be inside its tick", in_tick, 1).await;
    let frozen_at = system.now().await;
    system.schedulers[leader].pause();
    blocker.batch_execute("ROLLBACK").await.unwrap();
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sched-scheduler'
                AND state = 'idle in transaction'";
    system.wait_count("the frozen transaction", idle, 1).await;
    let (next, began) = system.wait_term_after(term).await;
    let took = began - frozen_at;
    println!("take-over from a leader frozen inside its tick: {took:.2} s");
    assert!(took < 2.0 + MARGIN, "the take-over took {took:.2} s");
    system.schedulers[leader].resume();
    let of_next = format!("SELECT count(*) FROM job_dispatch WHERE term = {next}");
    system.wait_count("dispatches of the next leader", &of_next, 40).await;
    assert_ne!(system.leader().await, leader);
    system.check_invariants().await;
}

/// A frozen tick holds the leader's row. A session of the test holds it too, longer than a server
/// would permit.
#[tokio::test(flavor = "multi_thread")]
async fn failover_waits_for_a_transaction_that_was_begun_under_the_old_term() {
    let mut system = Installation::with(2, 1).await;
    system.apply(&shell_jobs("true", &[every("a", 1)])).await;
    system.wait_count("a fire", COMPLETED, 1).await;
    let (leader, term) = (system.leader().await, system.term().await);
    let fence = system.database.client().await;
    fence.batch_execute("BEGIN").await.unwrap();
    let held =
        fence.query("SELECT FROM scheduler_instances WHERE is_leader FOR KEY SHARE", &[]).await.unwrap();
    assert_eq!(held.len(), 1);
    system.schedulers[leader].kill9().await;
    let expired = "SELECT count(*) FROM scheduler_instances WHERE is_leader AND last_heartbeat < clock_timestamp() - interval '4 seconds'";
    system.wait_count("two leases to pass", expired, 1).await;
    assert_eq!(system.term().await, term, "a standby took over during an open transaction of the leader");
    let released_at = system.now().await;
    fence.batch_execute("COMMIT").await.unwrap();
    let (_, began) = system.wait_term_after(term).await;
    let took = began - released_at;
    println!("take-over after the open transaction ended: {took:.3} s");
    assert!(took < 2.0, "the take-over took {took:.2} s more");
    let before = system.count(COMPLETED).await;
    system.wait_count("fires of the second leader", COMPLETED, before + 2).await;
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_and_explanation_show_the_freeze_of_the_only_scheduler() {
    let mut system = Installation::with(0, 1).await;
    let mut job = every("a", 1);
    (job["misfire_policy"], job["misfire_grace_seconds"]) = ("skip".into(), 1.into());
    system.apply(&shell_jobs("true", &[job])).await;
    system.start_schedulers(1, &[("LEADER_LEASE", "1s")]).await;
    system.wait_count("a fire", COMPLETED, 1).await;
    let (leader, term) = (system.leader().await, system.term().await);
    system.schedulers[leader].pause();
    let silent = "SELECT count(*) FROM scheduler_instances WHERE is_leader AND last_heartbeat < clock_timestamp() - interval '5 seconds'";
    system.wait_count("a long silence", silent, 1).await;
    system.schedulers[leader].resume();
    let (next, _) = system.wait_term_after(term).await;
    let gaps = format!(
        "SELECT count(*) FROM leader_history
         WHERE (term = {term} AND lease_expired_at < ended_at - interval '3 seconds' AND led_for < ended_at - started_at)
            OR (term = {next} AND without_leader > interval '3 seconds')"
    );
    assert_eq!(system.count(&gaps).await, 2);
    let misfires = "SELECT count(*) FROM skipped_fires WHERE reason = 'misfire'";
    system.wait_count("the missed fires", misfires, 1).await;
    let explained = system.get("/api/v1/jobs/a/explain?from=-1min").await;
    let texts: Vec<&str> =
        explained["fires"].as_array().unwrap().iter().filter_map(|line| line["text"].as_str()).collect();
    let missed =
        texts.iter().find(|text| text.starts_with("misfire: ")).unwrap_or_else(|| panic!("{explained:#}"));
    assert!(missed.contains("misfire_policy skip catches up no missed fire"), "{missed}");
    assert!(missed.contains("its lease expired at") || missed.contains("no scheduler led from"), "{missed}");
    system.check_invariants().await;
}

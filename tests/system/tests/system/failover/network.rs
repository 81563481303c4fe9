//! Leaders whose network to the database is slow, stuck or cut.

use std::time::Duration;

use serde_json::Value;
use system_tests::{Installation, PATIENCE, every, shell_jobs};
use test_support::{Proxy, wait_for};

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

/// One worker and two schedulers, of which the first leads through a proxy.
async fn behind_a_proxy() -> (Installation, Proxy) {
    let mut system = Installation::with(0, 1).await;
    let jobs: Vec<Value> = (0..10).map(|n| every(&format!("job-{n}"), 1)).collect();
    system.apply(&shell_jobs("true", &jobs)).await;
    let proxy = Proxy::before(system.database.url()).await;
    system.start_scheduler(&[("DATABASE_URL", proxy.url())]).await;
    system.wait_count("fires", COMPLETED, 10).await;
    system.start_scheduler(&[]).await;
    assert_eq!(system.leader().await, 0);
    (system, proxy)
}

/// The leader stops trusting its lease before a standby leads, and stands by when the network works
/// again.
async fn gives_way_before_another_leads(system: &mut Installation, proxy: &Proxy) {
    let term = system.term().await;
    let (next, began) = system.wait_term_after(term).await;
    let stood_down = wait_for("the leader stands down", PATIENCE, async || {
        let log = system.schedulers[0].stderr();
        stood_down_at(&log, term).ok_or(log)
    })
    .await;
    println!("the old leader stood down {:.2} s before the next one led", began - stood_down);
    assert!(stood_down < began, "the old leader trusted itself for {:.3} s too long", stood_down - began);
    let of_next = format!("SELECT count(*) FROM job_dispatch WHERE term = {next}");
    system.wait_count("dispatches of the next leader", &of_next, 20).await;
    proxy.clear();
    wait_for("the old leader to be heard again", PATIENCE, async || {
        let status = system.scheduler_status(0).await;
        match status["last_heartbeat_ms_ago"].as_f64() {
            Some(..1000.0) if status["role"] == "standby" => Ok(()),
            _ => Err(status.to_string()),
        }
    })
    .await;
    assert_eq!(system.leader().await, 1);
    system.wait_count("more dispatches", &of_next, 40).await;
    system.check_invariants().await;
}

/// Log time at which the leader of `term` stood down, in seconds; daemons and database share a
/// clock.
fn stood_down_at(log: &str, term: i64) -> Option<f64> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut stood_down =
        lines.filter(|line| line["message"] == "No longer leading." && line["leader.term"] == term);
    let at: chrono::DateTime<chrono::Utc> = stood_down.next()?["timestamp"].as_str()?.parse().ok()?;
    Some(at.timestamp_micros() as f64 / 1e6)
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_of_a_leader_whose_renewals_arrive_too_late() {
    let (mut system, proxy) = behind_a_proxy().await;
    // Longer than the lease of 2 s: a renewal that arrives is outdated.
    proxy.delay_requests(Duration::from_millis(2_500));
    gives_way_before_another_leads(&mut system, &proxy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_of_a_leader_whose_network_is_stuck() {
    let (mut system, proxy) = behind_a_proxy().await;
    proxy.hold();
    gives_way_before_another_leads(&mut system, &proxy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_is_not_needed_when_connections_are_cut_and_come_back() {
    let (system, proxy) = behind_a_proxy().await;
    for _ in 0..3 {
        proxy.cut();
        let before = system.count(COMPLETED).await;
        system.wait_count("fires after the cut", COMPLETED, before + 10).await;
    }
    assert_eq!(system.count("SELECT count(*) FROM leader_terms").await, 1);
    assert_eq!(system.leader().await, 0);
    system.check_invariants().await;
}

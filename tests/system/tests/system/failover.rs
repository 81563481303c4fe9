//! Leaders that stop, die or freeze.

use system_tests::{Installation, every, shell_jobs};

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

/// Scenario 4.
#[tokio::test(flavor = "multi_thread")]
async fn failover_after_kill_9_loses_and_doubles_no_fire() {
    let mut system = Installation::with(2, 1).await;
    system.apply(&shell_jobs("true", &[every("a", 1), every("b", 1)])).await;
    system.wait_count("fires of the first leader", COMPLETED, 4).await;
    let leader = system.leader().await;
    system.schedulers[leader].kill9().await;
    let before = system.count(COMPLETED).await;
    system.wait_count("fires of the second leader", COMPLETED, before + 6).await;
    assert_ne!(system.leader().await, leader);
    assert_eq!(system.count("SELECT count(*) FROM leader_terms WHERE end_reason = 'expired'").await, 1);
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_of_a_stopped_leader_is_handed_over_at_once() {
    let mut system = Installation::with(2, 1).await;
    system.apply(&shell_jobs("true", &[every("a", 1)])).await;
    system.wait_count("a fire", COMPLETED, 1).await;
    let leader = system.leader().await;
    let status = system.schedulers[leader].stop_gracefully(system_tests::PATIENCE).await;
    assert!(status.success(), "{status}");
    system.wait_count("a second term", "SELECT count(*) FROM leader_terms", 2).await;
    assert_eq!(system.count("SELECT count(*) FROM leader_terms WHERE end_reason = 'resigned'").await, 1);
    // Not by waiting for the lease: the standby was told.
    let gap = "SELECT extract(epoch FROM b.started_at - a.ended_at) * 1000 FROM leader_terms a JOIN leader_terms b ON b.term > a.term";
    assert!(system.count(gap).await < 2000, "the hand-over waited for the lease");
    let before = system.count(COMPLETED).await;
    system.wait_count("fires of the second leader", COMPLETED, before + 2).await;
    assert_eq!(system.count("SELECT count(*) FROM scheduler_instances").await, 1);
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_of_a_frozen_leader_leaves_it_harmless_when_it_wakes() {
    let system = Installation::with(2, 1).await;
    system.apply(&shell_jobs("true", &[every("a", 1)])).await;
    system.wait_count("a fire", COMPLETED, 1).await;
    let leader = system.leader().await;
    system.schedulers[leader].pause();
    system.wait_count("a second term", "SELECT count(*) FROM leader_terms", 2).await;
    system.schedulers[leader].resume();
    let before = system.count(COMPLETED).await;
    system.wait_count("fires go on", COMPLETED, before + 3).await;
    assert_eq!(system.count("SELECT count(*) FROM scheduler_instances WHERE is_leader").await, 1);
    assert_ne!(system.leader().await, leader);
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_leader_fires_are_made_good_when_one_comes() {
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

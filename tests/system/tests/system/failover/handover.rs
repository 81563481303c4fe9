//! Leaders that stop in order, or step down on request.

use serde_json::Value;
use system_tests::{Installation, PATIENCE, every, shell_jobs};

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

/// Long enough to distinguish its expiry from a hand-over.
const LONG_LEASE: [(&str, &str); 2] = [("LEADER_LEASE", "12s"), ("LEADER_HEARTBEAT_INTERVAL", "2s")];

#[tokio::test(flavor = "multi_thread")]
async fn failover_of_a_stopped_leader_is_handed_over_at_once() {
    let mut system = Installation::with(0, 1).await;
    let jobs: Vec<Value> = (0..20).map(|n| every(&format!("job-{n}"), 1)).collect();
    system.apply(&shell_jobs("true", &jobs)).await;
    system.start_schedulers(2, &LONG_LEASE).await;
    let mut longest = 0.0_f64;
    for round in 1..=3 {
        let before = system.count(COMPLETED).await;
        system.wait_count("fires", COMPLETED, before + 20).await;
        let (leader, term) = (system.leader().await, system.term().await);
        let stopped_at = system.now().await;
        let mut former = system.schedulers.remove(leader);
        former.term();
        let (_, began) = system.wait_term_after(term).await;
        longest = longest.max(began - stopped_at);
        assert!(former.wait_exit(PATIENCE).await.success());
        let resigned = "SELECT count(*) FROM leader_terms WHERE end_reason = 'resigned'";
        assert_eq!(system.count(resigned).await, round);
        system.start_scheduler(&LONG_LEASE).await;
    }
    println!("graceful hand-over, from the signal to the next term: {longest:.3} s at most of 3");
    // The standby was notified; a busy machine may need time, but not a quarter of the lease.
    assert!(longest < 3.0, "the hand-over took {longest:.3} s");
    let gap = "SELECT max(extract(epoch FROM b.started_at - a.ended_at)) FROM leader_terms a JOIN leader_terms b ON b.term = a.term + 1";
    println!("without a leader: {:.3} s at most", system.number(gap).await);
    system.wait_count("both schedulers", "SELECT count(*) FROM scheduler_instances", 2).await;
    let before = system.count(COMPLETED).await;
    system.wait_count("fires of the last leader", COMPLETED, before + 20).await;
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_on_request_hands_over_at_once_and_says_so() {
    let mut system = Installation::with(0, 1).await;
    system.apply(&shell_jobs("true", &[every("a", 1)])).await;
    let nobody = system.schedctl(&["leader", "status"]).await;
    assert_eq!(nobody.status.code(), Some(1), "{}", nobody.stderr);
    let nobody = system.schedctl(&["leader", "step-down"]).await;
    assert_eq!(nobody.status.code(), Some(7), "{}", nobody.stderr);
    assert!(nobody.stderr.contains("no scheduler leads"), "{}", nobody.stderr);

    system.start_schedulers(2, &LONG_LEASE).await;
    system.wait_count("a fire", COMPLETED, 1).await;
    system.wait_count("both schedulers", "SELECT count(*) FROM scheduler_instances", 2).await;
    let (first, term) = (system.leader().await, system.term().await);
    let asked_at = system.now().await;
    let done = system.schedctl(&["leader", "step-down", "-o", "json"]).await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    let (next, began) = system.wait_term_after(term).await;
    println!("hand-over on request, from the command to the next term: {:.3} s", began - asked_at);
    // Much less than a heartbeat and a lease: the leader and the standby were notified.
    assert!(began - asked_at < 2.0, "it took {:.3} s", began - asked_at);
    let printed: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(printed["stepped_down"]["pid"], system.schedulers[first].id());
    assert_eq!((&printed["stepped_down"]["term"], &printed["leader"]["term"]), (&term.into(), &next.into()));
    let second = system.leader().await;
    assert_ne!(second, first);
    assert_eq!(printed["leader"]["pid"], system.schedulers[second].id());
    let reason =
        format!("SELECT (end_reason = 'stepped_down')::integer FROM leader_terms WHERE term = {term}");
    assert_eq!(system.count(&reason).await, 1);

    let status = system.scheduler_status(first).await;
    assert_eq!((&status["role"], &status["term"]), (&"standby".into(), &Value::Null), "{status}");
    let status = system.scheduler_status(second).await;
    assert_eq!((&status["role"], &status["term"]), (&"leader".into(), &next.into()), "{status}");
    for figure in ["trust_left_ms", "round_trip_ms", "clock_offset_ms", "last_heartbeat_ms_ago"] {
        assert!(status[figure].is_number(), "{figure} is missing in {status}");
    }
    assert!(status["leader_since"].is_string(), "{status}");
    let metrics = system.scheduler_metrics(first).await;
    for line in [
        "sched_leader 0",
        "sched_leader_lost_total{reason=\"stepped_down\"} 1",
        "sched_leader_changes_total 1",
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line} is missing in {metrics}");
    }
    let shown = system.schedctl(&["leader", "status", "-o", "json"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["leader"]["term"], next);
    assert_eq!(shown["standbys"].as_array().unwrap().len(), 1);
    let before = system.count(COMPLETED).await;
    system.wait_count("fires of the second leader", COMPLETED, before + 2).await;
    system.check_invariants().await;
}

/// A single scheduler receives the request only with force. It leads again after a while, and the
/// command reports that no other took over.
#[tokio::test(flavor = "multi_thread")]
async fn failover_on_request_without_a_standby_returns_to_the_same_leader() {
    let system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[every("a", 1)])).await;
    system.wait_count("a fire", COMPLETED, 1).await;
    let term = system.term().await;
    let refused = system.schedctl(&["leader", "step-down"]).await;
    assert_eq!(refused.status.code(), Some(7), "{}", refused.stdout);
    assert!(refused.stderr.contains("no other scheduler is ready to lead"), "{}", refused.stderr);
    let done = system.schedctl(&["leader", "step-down", "--force"]).await;
    assert_eq!(done.status.code(), Some(1), "{}", done.stdout);
    assert!(done.stderr.contains("leads again"), "{}", done.stderr);
    let gap = format!(
        "SELECT extract(epoch FROM b.started_at - a.ended_at) FROM leader_terms a JOIN leader_terms b ON b.term > a.term WHERE a.term = {term}"
    );
    let gap = system.number(&gap).await;
    assert!(gap > 4.0, "it stood for election again after {gap:.2} s, which is not two leases");
    let before = system.count(COMPLETED).await;
    system.wait_count("fires go on", COMPLETED, before + 2).await;
    system.check_invariants().await;
}

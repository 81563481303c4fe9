use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sched_model::domain::attempt::AttemptOutcome;
use sched_model::running::claims::Claimed;
use sched_runtime::driver::{Activation, Report};
use sched_scheduler::tasks::overdue::Overdue;
use sched_scheduler::tasks::recover::Recover;
use sched_scheduler::tasks::strays::Strays;

use crate::leader::{LEASE, Leader, assert_refused, run};

const ATTEMPTS: u32 = 100;

fn recover(leader: &Leader) -> Recover {
    Recover { scope: leader.scope.clone(), worker_lease: LEASE, max_attempts: ATTEMPTS }
}

fn overdue(leader: &Leader) -> Overdue {
    Overdue { scope: leader.scope.clone(), unknown_limit: Duration::from_secs(600), max_attempts: ATTEMPTS }
}

async fn silence(leader: &Leader) {
    leader.sql("UPDATE worker_registration SET last_heartbeat = now() - interval '1 hour' WHERE status <> 'OFFLINE'").await;
}

async fn age(leader: &Leader, seconds: i32) {
    leader
        .sql(&format!(
            "UPDATE job_dispatch SET claimed_at = claimed_at - {seconds} * interval '1 second' WHERE status = 'IN_PROGRESS';
             UPDATE worker_claims SET claimed_at = claimed_at - {seconds} * interval '1 second'"
        ))
        .await;
}

/// Completes an attempt as its worker would. Returns whether the claim was still valid.
async fn complete(leader: &Leader, claimed: &Claimed) -> bool {
    leader.finish(claimed, AttemptOutcome::Completed).await.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatch_that_kills_its_worker_three_times_is_poison() {
    let leader = Leader::new().await;
    leader.job_with_runs("poison", 1).await;
    let mut recover = recover(&leader);
    for loss in 1..=3 {
        leader.skip_waits().await;
        assert_eq!(leader.claim_as_new_worker(1).await.len(), 1, "attempt {loss}");
        assert_eq!(run(&mut recover).await, Report::idle(), "its worker lives");
        silence(&leader).await;
        let report = run(&mut recover).await;
        assert_eq!(report.counts["attempts_lost"], 1, "attempt {loss}");
        assert_eq!(run(&mut recover).await, Report::idle(), "found once");
    }
    let dispatch = "SELECT status, attempt, lost_count, completed_at IS NOT NULL FROM job_dispatch";
    assert_eq!(leader.records(dispatch).await, ["(DEAD_LETTER,3,3,t)"]);
    let message = "SELECT count(*) FROM job_dispatch WHERE error_message LIKE 'worker % sent no heartbeat for 30s and is marked offline;%lost too often'";
    assert_eq!(leader.number(message).await, 1);
    leader.count_ends().await;
    assert_eq!(
        leader.records("SELECT last_status, active_dispatches FROM scheduled_jobs").await,
        ["(DEAD_LETTER,0)"]
    );
    let history = "SELECT attempt, status, error_class FROM job_execution_log ORDER BY attempt";
    assert_eq!(
        leader.records(history).await,
        ["(1,LOST,worker_lost)", "(2,LOST,worker_lost)", "(3,LOST,worker_lost)"]
    );
    let each = ["schedule_execution_started", "worker_offline", "schedule_execution_lost"];
    let mut expected: Vec<&str> = each.iter().copied().cycle().take(9).collect();
    expected.push("dispatch_dead_letter");
    assert_eq!(leader.events().await, expected);
    let poison = "SELECT payload ->> 'reason', payload ->> 'lost_count' FROM events
                  WHERE event_type = 'dispatch_dead_letter' AND job_id IS NOT NULL AND dispatch_id IS NOT NULL";
    assert_eq!(leader.records(poison).await, ["(poison,3)"]);
    leader.skip_waits().await;
    assert!(leader.claim_as_new_worker(1).await.is_empty(), "a dead letter is not retried");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_a_lost_dispatch_is_told_as_it_is() {
    for (max_attempts, is_cancelled, status) in [
        (ATTEMPTS, false, "PENDING"),
        (1, false, "TIMEOUT"),
        (1, true, "CANCELLED"),
        (ATTEMPTS, true, "CANCELLED"),
    ] {
        let leader = Leader::new().await;
        leader.job_with_runs("lost", 1).await;
        assert_eq!(leader.claim_as_new_worker(1).await.len(), 1);
        if is_cancelled {
            // The cancel request takes precedence over the dead letter.
            leader.sql("UPDATE job_dispatch SET cancel_requested_at = now(), lost_count = 2").await;
        }
        silence(&leader).await;
        let mut recover = Recover { max_attempts, ..recover(&leader) };
        assert_eq!(run(&mut recover).await.counts["attempts_lost"], 1);
        let told =
            "SELECT payload ->> 'dispatch_status' FROM events WHERE event_type = 'schedule_execution_lost'";
        assert_eq!(leader.records(told).await, [format!("({status})")]);
        assert_eq!(leader.records("SELECT status FROM job_dispatch").await, [format!("({status})")]);
        let dead = "SELECT count(*) FROM events WHERE event_type = 'dispatch_dead_letter'";
        assert_eq!(leader.number(dead).await, 0, "{status}: it is no dead letter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_no_claim_names_is_lost_when_asked_for_and_only_after_a_lease() {
    let leader = Leader::new().await;
    leader.job_with_runs("stray", 3).await;
    let claimed = leader.claim_as_new_worker(2).await;
    let requested = Arc::new(AtomicBool::new(false));
    let mut strays = Strays {
        scope: leader.scope.clone(),
        worker_lease: Duration::from_secs(3_600),
        unknown_limit: Duration::from_secs(600),
        max_attempts: ATTEMPTS,
        requested: requested.clone(),
        seen: None,
    };
    let ask = async |strays: &mut Strays| {
        requested.store(true, Ordering::Relaxed);
        run(strays).await
    };
    silence(&leader).await;
    assert_eq!(ask(&mut strays).await, Report::idle(), "claims name them, so recovery finds them");
    leader.sql("DELETE FROM worker_claims").await;
    assert_eq!(ask(&mut strays).await, Report::idle(), "the worker is alive, and the timeout is not over");
    leader.sql("UPDATE worker_registration SET status = 'OFFLINE', offline_since = now()").await;
    assert_eq!(run(&mut strays).await, Report::idle(), "there was no request");
    assert_eq!(ask(&mut strays).await.counts["attempts_suspected"], 2);
    assert!(ask(&mut strays).await.counts.get("attempts_stray").is_none(), "the lease is not over");
    assert!(complete(&leader, &claimed[0]).await, "meanwhile its worker may end it");
    strays.worker_lease = Duration::ZERO;
    assert_eq!(run(&mut strays).await.counts["attempts_stray"], 1);
    assert_eq!(run(&mut strays).await, Report::idle(), "nothing is left");
    let states = "SELECT status, lost_count FROM job_dispatch WHERE attempt > 0 ORDER BY status";
    assert_eq!(leader.records(states).await, ["(COMPLETED,0)", "(PENDING,1)"]);
    assert!(!complete(&leader, &claimed[1]).await, "the claim is invalid");
    assert_eq!(
        leader.number("SELECT count(*) FROM events WHERE payload ->> 'reason' = 'claim_missing'").await,
        1
    );
    leader.skip_waits().await;

    // The leader is deposed between the two checks.
    assert_eq!(leader.claim_as_new_worker(1).await.len(), 1);
    leader.sql("DELETE FROM worker_claims; UPDATE worker_registration SET status = 'OFFLINE', offline_since = now()").await;
    assert_eq!(ask(&mut strays).await.counts["attempts_suspected"], 1);
    strays.scope = leader.deposed();
    strays.worker_lease = Duration::ZERO;
    assert_refused(&strays.run_once().await);
    assert_eq!(leader.number("SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overdue_attempt_is_lost_and_what_its_worker_says_later_changes_nothing() {
    let leader = Leader::new().await;
    leader.function("noop").settings(|function| function.default_timeout_seconds = 300).save().await;
    leader.job_with_runs("stuck", 2).await;
    let claimed = leader.claim_as_new_worker(2).await;
    let mut overdue = overdue(&leader);
    assert_eq!(run(&mut overdue).await, Report::idle());
    assert!(complete(&leader, &claimed[0]).await);
    // Time-out 300 s, grace period 10 s, margin 31 s.
    age(&leader, 335).await;
    assert_eq!(run(&mut overdue).await, Report::idle());
    age(&leader, 10).await;
    assert_eq!(run(&mut overdue).await.counts["attempts_overdue"], 1);
    assert_eq!(run(&mut overdue).await, Report::idle(), "found once");

    let states = "SELECT status, lost_count FROM job_dispatch ORDER BY status";
    assert_eq!(leader.records(states).await, ["(COMPLETED,0)", "(PENDING,1)"]);
    let history = "SELECT count(*) FROM job_execution_log WHERE status = 'LOST' AND error_class = 'overdue'
                   AND error_message LIKE 'overdue: worker % is alive but has not ended the attempt after 345s (limit 310s, grace included)%'";
    assert_eq!(leader.number(history).await, 1);
    let (begun, ended) = ("schedule_execution_started", "schedule_execution_completed");
    assert_eq!(leader.events().await, [begun, begun, ended, "schedule_execution_lost"]);
    assert_eq!(leader.number("SELECT count(*) FROM events WHERE payload ->> 'reason' = 'overdue'").await, 1);
    assert_eq!(leader.number("SELECT active_dispatches FROM scheduled_jobs").await, 1);

    let before = leader.records("SELECT * FROM job_dispatch ORDER BY id").await;
    assert!(!complete(&leader, &claimed[1]).await, "the claim is invalid");
    assert_eq!(leader.records("SELECT * FROM job_dispatch ORDER BY id").await, before);
    leader.skip_waits().await;
    let again = leader.claim_as_new_worker(2).await;
    assert_eq!(again.len(), 1);
    assert!(complete(&leader, &again[0]).await);
    assert_eq!(leader.number("SELECT active_dispatches FROM scheduled_jobs").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_lead_any_more_ends_nothing() {
    let leader = Leader::new().await;
    leader.job_with_runs("stuck", 1).await;
    leader.claim_as_new_worker(1).await;
    age(&leader, 10_000).await;
    assert_refused(&Overdue { scope: leader.deposed(), ..overdue(&leader) }.run_once().await);
    silence(&leader).await;
    assert_refused(&Recover { scope: leader.deposed(), ..recover(&leader) }.run_once().await);
    assert_eq!(leader.records("SELECT status FROM job_dispatch").await, ["(IN_PROGRESS)"]);
    assert_eq!(leader.events().await, ["schedule_execution_started"]);
}

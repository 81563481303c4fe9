use std::time::Duration;

use sched_runtime::driver::{Activation, Report};
use sched_scheduler::tasks::expiry::Waiting;

use crate::leader::{Leader, assert_refused, run};

fn waiting(leader: &Leader) -> Waiting {
    Waiting { scope: leader.scope.clone(), patience: Duration::from_secs(10) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_vain_is_told_given_up_and_told_to_be_over() {
    let leader = Leader::new().await;
    let mut waiting = waiting(&leader);
    assert_eq!(run(&mut waiting).await, Report::idle());
    leader.job_with_runs("urgent", 2).await;
    assert_eq!(run(&mut waiting).await.counts["queues_unserved"], 1);
    assert_eq!(run(&mut waiting).await, Report::idle(), "reported once");
    assert_eq!(leader.events().await, ["queue_unserved"]);

    leader.sql("UPDATE job_dispatch SET expires_at = now()").await;
    let report = run(&mut waiting).await;
    assert_eq!(
        (&report.counts["dispatches_expired"], &report.counts["queues_served_again"]),
        (&2.into(), &1.into())
    );
    assert_eq!(run(&mut waiting).await, Report::idle());
    assert_eq!(
        leader.events().await,
        ["queue_unserved", "dispatch_expired", "dispatch_expired", "queue_unserved_ended"]
    );
    let ended = "SELECT payload ->> 'queue', payload ->> 'has_live_worker' FROM events WHERE event_type = 'queue_unserved_ended'";
    assert_eq!(leader.records(ended).await, ["(default,false)"]);
    let told = "SELECT count(*) FROM events e JOIN job_dispatch d ON d.id = e.dispatch_id AND d.job_id = e.job_id
                WHERE e.event_type = 'dispatch_expired' AND e.payload ->> 'reason' = d.error_message AND d.status = 'FAILED'";
    assert_eq!(leader.number(told).await, 2);
    assert_eq!(
        leader.records("SELECT last_status, active_dispatches FROM scheduled_jobs").await,
        ["(FAILED,0)"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_ends_that_a_queue_is_unserved() {
    let leader = Leader::new().await;
    let mut waiting = waiting(&leader);
    leader.job_with_runs("patient", 1).await;
    run(&mut waiting).await;
    assert_eq!(leader.claim_as_new_worker(0).await.len(), 0, "a worker registers");
    assert_eq!(run(&mut waiting).await.counts["queues_served_again"], 1);
    let ended = "SELECT payload ->> 'has_live_worker' FROM events WHERE event_type = 'queue_unserved_ended'";
    assert_eq!(leader.records(ended).await, ["(true)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_lead_any_more_gives_nothing_up() {
    let leader = Leader::new().await;
    leader.job_with_runs("urgent", 1).await;
    let mut deposed = Waiting { scope: leader.deposed(), ..waiting(&leader) };
    assert_refused(&deposed.run_once().await);
    leader.sql("UPDATE job_dispatch SET expires_at = now()").await;
    assert_refused(&deposed.run_once().await);
    assert_eq!(leader.records("SELECT status FROM job_dispatch").await, ["(PENDING)"]);
    assert!(leader.events().await.is_empty());
}

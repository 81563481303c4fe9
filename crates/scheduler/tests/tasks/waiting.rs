//! Runs that expire, and queues without a worker.

use std::time::Duration;

use sched_runtime::driver::{Activation, Report};
use sched_scheduler::tasks::expiry::Waiting;

use crate::fixture::{World, assert_refused, run};

fn waiting(world: &World) -> Waiting {
    Waiting { scope: world.scope.clone(), patience: Duration::from_secs(10) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_vain_is_told_given_up_and_told_to_be_over() {
    let world = World::new().await;
    let mut waiting = waiting(&world);
    assert_eq!(run(&mut waiting).await, Report::idle());
    world.job("urgent", 2).await;
    assert_eq!(run(&mut waiting).await.counts["queues_unserved"], 1);
    assert_eq!(run(&mut waiting).await, Report::idle(), "told once");
    assert_eq!(world.events().await, ["queue_unserved"]);

    world.sql("UPDATE job_dispatch SET expires_at = now()").await;
    let report = run(&mut waiting).await;
    assert_eq!(
        (&report.counts["dispatches_expired"], &report.counts["queues_served_again"]),
        (&2.into(), &1.into())
    );
    assert_eq!(run(&mut waiting).await, Report::idle());
    assert_eq!(
        world.events().await,
        ["queue_unserved", "dispatch_expired", "dispatch_expired", "queue_unserved_ended"]
    );
    let ended = "SELECT payload ->> 'queue', payload ->> 'has_live_worker' FROM events WHERE event_type = 'queue_unserved_ended'";
    assert_eq!(world.rows(ended).await, ["(default,false)"]);
    let told = "SELECT count(*) FROM events e JOIN job_dispatch d ON d.id = e.dispatch_id AND d.job_id = e.job_id
                WHERE e.event_type = 'dispatch_expired' AND e.payload ->> 'reason' = d.error_message AND d.status = 'FAILED'";
    assert_eq!(world.number(told).await, 2);
    assert_eq!(world.rows("SELECT last_status, active_dispatches FROM scheduled_jobs").await, ["(FAILED,0)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_ends_that_a_queue_is_unserved() {
    let world = World::new().await;
    let mut waiting = waiting(&world);
    world.job("patient", 1).await;
    run(&mut waiting).await;
    assert_eq!(world.claim(0).await.len(), 0, "a worker registers");
    assert_eq!(run(&mut waiting).await.counts["queues_served_again"], 1);
    let ended = "SELECT payload ->> 'has_live_worker' FROM events WHERE event_type = 'queue_unserved_ended'";
    assert_eq!(world.rows(ended).await, ["(true)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_lead_any_more_gives_nothing_up() {
    let world = World::new().await;
    world.job("urgent", 1).await;
    let mut deposed = Waiting { scope: world.deposed(), ..waiting(&world) };
    assert_refused(&deposed.run_once().await);
    world.sql("UPDATE job_dispatch SET expires_at = now()").await;
    assert_refused(&deposed.run_once().await);
    assert_eq!(world.rows("SELECT status FROM job_dispatch").await, ["(PENDING)"]);
    assert!(world.events().await.is_empty());
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sched_scheduler::tasks::counters::Counters;

use crate::leader::{Leader, run};

/// Polls until the task is idle, which takes more than ten of them.
async fn become_idle(counters: &mut Counters, is_idle: &AtomicBool) {
    for _ in 0..10 {
        run(counters).await;
        assert!(!is_idle.load(Ordering::Relaxed));
    }
    run(counters).await;
    assert!(is_idle.load(Ordering::Relaxed));
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_counters_are_woken_until_they_count() {
    let leader = Leader::new().await;
    leader.job("a").save().await;
    let is_idle = Arc::new(AtomicBool::new(false));
    let mut counters = Counters::new(leader.scope.clone(), is_idle.clone());
    become_idle(&mut counters, &is_idle).await;
    leader
        .sql(
            "INSERT INTO uncounted_openings (tenant_id, job_id, opened, opened_at)
             SELECT tenant_id, id, 2, now() FROM scheduled_jobs",
        )
        .await;
    run(&mut counters).await;
    assert!(!is_idle.load(Ordering::Relaxed), "it polls often after a count");
    assert_eq!(leader.text("SELECT total_run_count::text FROM scheduled_jobs").await, "2");
    become_idle(&mut counters, &is_idle).await;
}

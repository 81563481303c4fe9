use sched_scheduler::tasks::overlap_queue::Lines;

use crate::leader::{Leader, run};

#[tokio::test(flavor = "multi_thread")]
async fn leader_clears_flag_after_last_restriction() {
    let leader = Leader::new().await;
    let mut lines = Lines { scope: leader.scope.clone() };
    let flag = "SELECT is_restricted::text FROM claim_restrictions";
    leader.sql("UPDATE queues SET is_paused = true; UPDATE tenants SET is_paused = true").await;
    for (free, is_restricted) in [("queues", "true"), ("tenants", "false")] {
        leader.sql(&format!("UPDATE {free} SET is_paused = false")).await;
        run(&mut lines).await;
        assert_eq!(leader.text(flag).await, is_restricted, "after {free}");
    }
}

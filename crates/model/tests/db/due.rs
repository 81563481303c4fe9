//! Due jobs: what a tick is told about them before it decides.

use chrono::TimeDelta;
use sched_model::db::tick;
use sched_model::domain::schedule::SkipReason;

use crate::fixture::World;
use crate::tick::{due, make_due};

#[tokio::test(flavor = "multi_thread")]
async fn due_jobs_tell_which_kill_switch_is_on() {
    let world = World::new().await;
    world.job("hourly").await;
    make_due(&world).await;
    let mut conn = world.conn().await;
    assert_eq!(due(&mut conn, 1).await[0].paused_by, None);
    for (table, reason) in [
        ("scheduled_jobs", SkipReason::PausedJob),
        ("task_functions", SkipReason::PausedFunction),
        ("queues", SkipReason::PausedQueue),
        ("projects", SkipReason::PausedProject),
        ("tenants", SkipReason::PausedTenant),
    ] {
        world.sql(&format!("UPDATE {table} SET is_paused = true")).await;
        assert_eq!(due(&mut conn, 1).await[0].paused_by, Some(reason), "the wider switch is named: {table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_held_back_is_not_due_and_hides_no_other() {
    let world = World::new().await;
    let held = world.job("held").await;
    let next = world.job("next").await;
    make_due(&world).await;
    world
        .sql(&format!(
            "UPDATE scheduled_jobs SET dispatch_lock_until = now() + interval '1 day' WHERE id = '{}';
             UPDATE scheduled_jobs SET next_run_at = now() + interval '1 minute' WHERE id = '{}'",
            held.id, next.id
        ))
        .await;
    let mut conn = world.conn().await;
    assert!(due(&mut conn, 10).await.is_empty());
    let outlook = tick::outlook(&mut conn, 10).await.unwrap();
    assert_eq!(outlook.due, 0);
    let wait = outlook.next_due.unwrap() - outlook.now;
    assert!(wait <= TimeDelta::minutes(1), "the next job is due within a minute, not after {wait}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_due_next_where_there_are_no_jobs() {
    let world = World::new().await;
    let mut conn = world.conn().await;
    assert_eq!(tick::outlook(&mut conn, 10).await.unwrap().next_due, None);
}

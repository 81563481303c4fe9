//! Due jobs as a tick reads them.

use chrono::TimeDelta;
use sched_model::dispatching::tick;
use sched_model::domain::timetable::SkipReason;
use test_support::fixture::Fixture;

use crate::dispatching::tick::{due, make_due};

#[tokio::test(flavor = "multi_thread")]
async fn due_jobs_tell_which_kill_switch_is_on() {
    let world = Fixture::new().await;
    world.job("hourly").save().await;
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
    let world = Fixture::new().await;
    let held = world.job("held").save().await;
    let next = world.job("next").save().await;
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
    assert_eq!(outlook.due(), 0);
    assert_eq!(outlook.at_next_due().unwrap().due(), 1, "the one that is held back is not due with it");
    let wait = outlook.next_due.unwrap() - outlook.now;
    assert!(wait <= TimeDelta::minutes(1), "the next job is due within a minute, not after {wait}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_due_next_where_there_are_no_jobs() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    assert_eq!(tick::outlook(&mut conn, 10).await.unwrap().next_due, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_says_how_many_jobs_come_due_next_until_they_are() {
    let world = Fixture::new().await;
    for name in ["one", "two", "later"] {
        world.job(name).save().await;
    }
    world
        .sql("UPDATE scheduled_jobs SET next_run_at = date_trunc('minute', now()) + interval '1 hour'")
        .await;
    world
        .sql("UPDATE scheduled_jobs SET next_run_at = next_run_at + interval '1 second' WHERE name = 'later'")
        .await;
    let mut conn = world.conn().await;
    let outlook = tick::outlook(&mut conn, 10).await.unwrap();
    let then = outlook.at_next_due().unwrap();
    assert_eq!((outlook.due(), then.due(), Some(then.now)), (0, 2, outlook.next_due));
    assert_eq!(tick::outlook(&mut conn, 1).await.unwrap().at_next_due().unwrap().due(), 1, "up to the limit");
    world.sql("UPDATE scheduled_jobs SET next_run_at = next_run_at - interval '2 hours'").await;
    let outlook = tick::outlook(&mut conn, 10).await.unwrap();
    assert_eq!((outlook.due(), outlook.at_next_due()), (3, None), "no next instant while jobs are due");
}

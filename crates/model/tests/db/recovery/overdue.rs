//! Overdue attempts are found only through their claims.

use std::time::Duration;

use sched_model::domain::ids::DispatchId;
use sched_model::recovery::dead_workers::{self, OverdueAttempt};
use sched_model::running::claims::Claimed;

use crate::recovery::dead_workers::{expire, silence};
use sched_model::domain::attempt::AttemptOutcome;
use test_support::fixture::{Fixture, ended};

const UNKNOWN: Duration = Duration::from_secs(600);

pub(crate) async fn overdue(world: &Fixture) -> Vec<OverdueAttempt> {
    dead_workers::overdue(&mut world.conn().await, UNKNOWN, 100).await.unwrap()
}

pub(crate) async fn ids(world: &Fixture) -> Vec<DispatchId> {
    overdue(world).await.iter().map(|found| found.attempt.dispatch_id).collect()
}

pub(crate) async fn age(world: &Fixture, seconds: i64) {
    world
        .sql(&format!(
            "UPDATE job_dispatch SET claimed_at = claimed_at - {seconds} * interval '1 second' WHERE status = 'IN_PROGRESS';
             UPDATE worker_claims SET claimed_at = claimed_at - {seconds} * interval '1 second'"
        ))
        .await;
}

/// A running attempt of a job with this timeout; `grace` is that of its function. Both in seconds.
pub(crate) async fn running(world: &Fixture, timeout: Option<i32>, grace: Option<i32>) -> Claimed {
    let job = world.job("slow").settings(|settings| settings.timeout_seconds = timeout).save().await;
    if let Some(grace) = grace {
        let config = format!("handler_config || '{{\"grace_seconds\": {grace}}}'");
        world.sql(&format!("UPDATE task_functions SET handler_config = {config}")).await;
    }
    world.runs(job.id).insert().await;
    let worker = world.worker().await;
    world.claim(worker, 1).await.pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_overdue_after_its_time_out_its_grace_and_a_margin() {
    // Job timeout, grace, and the ages around the limit. The function's timeout is a minute.
    for (timeout, grace, before, after) in [
        (Some(5), Some(1), 34, 38),
        (Some(5), None, 43, 47),
        (None, None, 98, 102),
        (Some(3_600), Some(0), 3_950, 3_970),
    ] {
        let world = Fixture::new().await;
        let claimed = running(&world, timeout, grace).await;
        assert!(ids(&world).await.is_empty());
        age(&world, before).await;
        assert!(ids(&world).await.is_empty(), "{timeout:?} {grace:?}: too early at {before}");
        age(&world, after - before).await;
        let found = overdue(&world).await;
        assert_eq!(found.len(), 1, "{timeout:?} {grace:?}: not yet at {after}");
        assert_eq!(
            (found[0].attempt.dispatch_id, found[0].attempt.token),
            (claimed.dispatch_id, claimed.token)
        );
        let limit = u64::from(timeout.unwrap_or(60).unsigned_abs() + grace.unwrap_or(10).unsigned_abs());
        assert_eq!(found[0].limit.as_secs(), limit);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_worker_was_told_counts_and_not_what_the_settings_say_by_now() {
    let world = Fixture::new().await;
    let claimed = running(&world, Some(600), None).await;
    world.sql("UPDATE scheduled_jobs SET timeout_seconds = 1; UPDATE task_functions SET default_timeout_seconds = 1").await;
    age(&world, 640).await;
    assert!(ids(&world).await.is_empty(), "the worker may still run it");
    age(&world, 100).await;
    assert_eq!(ids(&world).await, [claimed.dispatch_id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_do_not_say_have_the_standard_or_what_the_settings_say_if_that_is_more() {
    for (timeout, limit) in [(Some(5), 600), (Some(1_000), 1_000)] {
        let world = Fixture::new().await;
        let claimed = running(&world, timeout, None).await;
        world.sql("UPDATE worker_claims SET limit_seconds = NULL").await;
        age(&world, limit + 20).await;
        assert!(ids(&world).await.is_empty());
        age(&world, 100).await;
        assert_eq!(ids(&world).await, [claimed.dispatch_id]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_latest_of_two_claims_of_a_worker_counts() {
    let world = Fixture::new().await;
    let job = world.job("pair").save().await;
    world.runs(job.id).count(2).insert().await;
    let worker = world.worker().await;
    let claimed = world.claim(worker, 2).await;
    world.end(&[ended(&claimed[0], AttemptOutcome::Failed).max_attempts(9).build()], &[]).await;
    world.sql("UPDATE scheduled_jobs SET timeout_seconds = 3600").await;
    world.skip_waits().await;
    let again = world.claim(worker, 1).await;
    assert_eq!(again[0].dispatch_id, claimed[0].dispatch_id);
    age(&world, 200).await;
    assert_eq!(ids(&world).await, [claimed[1].dispatch_id], "the other has an hour");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_and_what_is_lost_with_its_worker_is_not_overdue() {
    let world = Fixture::new().await;
    let job = world.job("pair").save().await;
    world.runs(job.id).count(2).insert().await;
    let worker = world.worker().await;
    let claimed = world.claim(worker, 2).await;
    age(&world, 10_000).await;
    assert_eq!(ids(&world).await.len(), 2);
    world.finish(&claimed[0], AttemptOutcome::Completed).await;
    assert_eq!(ids(&world).await, [claimed[1].dispatch_id], "though its claim names both");
    silence(&world, worker, 3_600).await;
    assert_eq!(ids(&world).await, [claimed[1].dispatch_id], "no leader has marked the worker as lost");
    assert_eq!(expire(&world).await, [worker]);
    assert!(ids(&world).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grace_that_is_no_number_keeps_nobody_from_claiming() {
    let world = Fixture::new().await;
    for grace in ["\"long\"", "null", "1e300", "-5", "[1]"] {
        world
            .sql(&format!("UPDATE task_functions SET handler_config = '{{\"grace_seconds\": {grace}}}'"))
            .await;
        world.running(&format!("job-{}", grace.len())).await;
    }
    let limits = "SELECT limit_seconds[1] FROM worker_claims ORDER BY id";
    assert_eq!(world.rows(limits).await, [["70"], ["70"], ["360"], ["60"], ["70"]]);
}

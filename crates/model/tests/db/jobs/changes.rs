//! Changes of a job with due fires: none is lost, none returns.

use sched_model::domain::job::{JobSettings, MisfireKind};
use sched_model::domain::timetable::JobType;
use serde_json::json;
use test_support::fixture::{Fixture, settings};

const SKIPS: &str = "SELECT reason, fire_count FROM skipped_fires ORDER BY id";

/// An hourly job, last dispatched five and a half hours ago.
async fn overdue(world: &Fixture) -> JobSettings {
    let job = settings("a");
    world.save(&job).await;
    world
        .sql("UPDATE scheduled_jobs SET created_at = now() - interval '330 minutes', next_run_at = now() - interval '270 minutes', settled_until = now() - interval '271 minutes'")
        .await;
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_change_keeps_the_latest_due_fire() {
    let world = Fixture::new().await;
    let job = overdue(&world).await;
    world.save(&JobSettings { schedule_config: json!({"hours": 2}), ..job }).await;
    let due = "SELECT count(*) FROM scheduled_jobs WHERE next_run_at BETWEEN now() - interval '31 minutes' AND now() - interval '29 minutes'";
    assert_eq!(
        world.number(due).await,
        1,
        "{:?}",
        world.rows("SELECT now() - next_run_at FROM scheduled_jobs").await
    );
    assert_eq!(world.rows(SKIPS).await, [["misfire", "4"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn disabling_a_job_records_its_due_fires() {
    let world = Fixture::new().await;
    let job = overdue(&world).await;
    world.save(&JobSettings { is_enabled: false, ..job.clone() }).await;
    assert_eq!(world.text("SELECT next_run_at FROM scheduled_jobs").await, "-");
    assert_eq!(world.rows(SKIPS).await, [["disabled", "5"]]);
    world.save(&job).await;
    assert_eq!(world.number("SELECT count(*) FROM scheduled_jobs WHERE next_run_at > now()").await, 1);
    assert_eq!(world.number("SELECT count(*) FROM skipped_fires").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unrelated_change_keeps_due_fires() {
    let world = Fixture::new().await;
    let job = overdue(&world).await;
    let before = world.text("SELECT next_run_at FROM scheduled_jobs").await;
    world.save(&JobSettings { description: "changed".into(), ..job }).await;
    assert_eq!(world.text("SELECT next_run_at FROM scheduled_jobs").await, before);
    assert_eq!(world.number("SELECT count(*) FROM skipped_fires").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn decided_one_off_stays_decided_after_enable() {
    let world = Fixture::new().await;
    let job = JobSettings {
        job_type: JobType::OneOff,
        schedule_config: json!({"run_at": "2020-01-01T00:00:00Z"}),
        misfire_policy: MisfireKind::Skip,
        ..settings("once")
    };
    world.save(&job).await;
    assert_eq!(world.number("SELECT count(*) FROM scheduled_jobs WHERE next_run_at IS NOT NULL").await, 1);
    for _ in 0..2 {
        world.save(&JobSettings { is_enabled: false, ..job.clone() }).await;
        world.save(&job).await;
        assert_eq!(world.text("SELECT next_run_at FROM scheduled_jobs").await, "-");
    }
    assert_eq!(world.rows(SKIPS).await, [["disabled", "1"]]);
}

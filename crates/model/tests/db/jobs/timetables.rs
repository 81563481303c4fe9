//! Bounds and calendars of jobs: their effect on the cursor and the ledger.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::definitions::calendars::{self, CalendarSettings};
use sched_model::domain::ids::JobId;
use sched_model::domain::job::JobSettings;
use sched_model::domain::timetable::{CalendarRoll, JobType, jitter};
use sched_model::jobs::{self, SaveError, SaveMode, Writing};
use sched_model::{Conn, DbError, connection::database_clock, transact};
use serde_json::{Value, json};
use test_support::fixture::{Fixture, TENANT, settings};

const SKIPS: &str = "SELECT reason, fire_count FROM skipped_fires ORDER BY id";

async fn freeze(world: &Fixture, definition: Value) -> usize {
    let settings = CalendarSettings { name: "freeze".into(), description: String::new(), definition };
    let mut conn = world.conn().await;
    let moved = transact(&mut conn, "test_freeze", async |conn: &mut Conn| {
        let saved = calendars::save(conn, TENANT, &settings, "tests").await?;
        match saved.before.as_ref().filter(|_| saved.changes_fires()) {
            Some(before) => jobs::reschedule_users_of(conn, TENANT, "freeze", &before.definition).await,
            None => Ok::<usize, SaveError>(0),
        }
    });
    moved.await.unwrap()
}

fn around(now: DateTime<Utc>, before: i64, after: i64) -> Value {
    let local = |at: DateTime<Utc>| at.format("%Y-%m-%dT%H:%M:%S").to_string();
    let (from, until) = (now - TimeDelta::hours(before), now + TimeDelta::hours(after));
    json!({"timezone": "UTC", "windows": [{"from": local(from), "until": local(until)}]})
}

async fn now(world: &Fixture) -> DateTime<Utc> {
    database_clock::now(&world.conn().await).await.unwrap()
}

fn frozen(name: &str) -> JobSettings {
    JobSettings { calendars: vec!["freeze".into()], ..settings(name) }
}

async fn try_save(world: &Fixture, settings: &JobSettings) -> Result<(), SaveError> {
    let mut conn = world.conn().await;
    let saved = transact(&mut conn, "test_save", async |conn: &mut Conn| {
        jobs::save(conn, TENANT, settings, Writing::new(SaveMode::Upsert, "tests")).await
    });
    saved.await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_may_only_name_calendars_that_exist() {
    let world = Fixture::new().await;
    let refused = try_save(&world, &frozen("a")).await.unwrap_err();
    assert!(
        matches!(&refused, SaveError::Missing { field: "calendars", name, .. } if name == "freeze"),
        "{refused}"
    );
    assert_eq!(world.number("SELECT count(*) FROM scheduled_jobs").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_fire_follows_the_excluded_times() {
    let world = Fixture::new().await;
    let now = now(&world).await;
    freeze(&world, around(now, 1, 3)).await;
    world.save(&frozen("a")).await;
    let late =
        "SELECT count(*) FROM scheduled_jobs WHERE next_run_at >= now() + interval '2 hours 59 minutes'";
    assert_eq!(
        world.number(late).await,
        1,
        "{}",
        world.text("SELECT next_run_at - now() FROM scheduled_jobs").await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn calendar_change_moves_jobs_and_records_exclusions() {
    let world = Fixture::new().await;
    let now = now(&world).await;
    freeze(&world, around(now, 10, 3)).await;
    for job in ["a", "b"] {
        world.save(&frozen(job)).await;
    }
    world.save(&JobSettings { is_enabled: false, ..frozen("off") }).await;
    world.save(&settings("other")).await;
    world
        .sql("UPDATE scheduled_jobs SET created_at = now() - interval '330 minutes', settled_until = now() - interval '270 minutes'")
        .await;
    let other = world.text("SELECT next_run_at FROM scheduled_jobs WHERE name = 'other'").await;
    assert_eq!(freeze(&world, json!({})).await, 2);
    let soon = "SELECT name FROM scheduled_jobs WHERE next_run_at < now() + interval '1 hour' AND settled_until > now() - interval '1 minute' ORDER BY name";
    assert_eq!(world.rows(soon).await, [["a"], ["b"]]);
    assert_eq!(world.rows(SKIPS).await, [["calendar", "4"], ["calendar", "4"]]);
    assert_eq!(world.text("SELECT next_run_at FROM scheduled_jobs WHERE name = 'other'").await, other);
    assert_eq!(
        world.number("SELECT count(*) FROM scheduled_jobs WHERE version > 1").await,
        0,
        "settings are as they were"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn due_fire_survives_a_calendar_change() {
    let world = Fixture::new().await;
    let now = now(&world).await;
    freeze(&world, json!({})).await;
    world.save(&frozen("a")).await;
    world
        .sql("UPDATE scheduled_jobs SET created_at = now() - interval '330 minutes', settled_until = now() - interval '91 minutes',
                     next_run_at = now() - interval '90 minutes'")
        .await;
    freeze(&world, around(now, 5, 5)).await;
    let due = "SELECT count(*) FROM scheduled_jobs WHERE next_run_at BETWEEN now() - interval '31 minutes' AND now() - interval '29 minutes'
               AND settled_until > next_run_at";
    assert_eq!(world.number(due).await, 1);
    assert_eq!(world.rows(SKIPS).await, [["misfire", "1"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn excluded_one_off_is_visited_or_moved() {
    let world = Fixture::new().await;
    freeze(&world, json!({"dates": ["2031-05-05"]})).await;
    let once = JobSettings {
        job_type: JobType::OneOff,
        schedule_config: json!({"run_at": "2031-05-05T09:00:00Z"}),
        ..frozen("once")
    };
    world.save(&once).await;
    world
        .save(&JobSettings { name: "moved".into(), calendar_roll: CalendarRoll::NextBusinessDay, ..once })
        .await;
    let next = "SELECT name, (next_run_at AT TIME ZONE 'UTC')::text FROM scheduled_jobs WHERE settled_until <= now() ORDER BY name";
    assert_eq!(world.rows(next).await, [["moved", "2031-05-06 09:00:00"], ["once", "2031-05-05 09:00:00"]]);
    assert_eq!(world.rows(SKIPS).await, [] as [[&str; 2]; 0], "nothing is recorded ahead");
    freeze(&world, json!({})).await;
    let next = "SELECT DISTINCT (next_run_at AT TIME ZONE 'UTC')::text FROM scheduled_jobs";
    assert_eq!(world.rows(next).await, [["2031-05-05 09:00:00"]]);
}

/// A daily job: its fire two hours ago moves to tomorrow, the next business day.
async fn on_its_way(world: &Fixture) -> DateTime<Utc> {
    let due = now(world).await - TimeDelta::hours(2);
    let day = due.format("%F").to_string();
    freeze(world, json!({"timezone": "UTC", "dates": [day]})).await;
    let job = JobSettings {
        job_type: JobType::Cron,
        schedule_config: json!({"expression": due.format("%M %H %d %m *").to_string()}),
        calendar_roll: CalendarRoll::NextBusinessDay,
        ..frozen("a")
    };
    world.save(&job).await;
    world.sql("UPDATE scheduled_jobs SET created_at = now() - interval '1 year', settled_until = now() - interval '1 minute'").await;
    due
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_fire_is_due_when_its_calendar_changes() {
    let world = Fixture::new().await;
    let due = on_its_way(&world).await;
    assert_eq!(world.number("SELECT count(*) FROM scheduled_jobs WHERE next_run_at > now()").await, 1);
    freeze(&world, json!({})).await;
    let left = format!(
        "SELECT count(*) FROM scheduled_jobs WHERE date_trunc('minute', '{due}'::timestamptz) = next_run_at AND settled_until > next_run_at"
    );
    assert_eq!(
        world.number(&left).await,
        1,
        "{}",
        world.text("SELECT next_run_at FROM scheduled_jobs").await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_fire_is_recorded_on_disable() {
    let world = Fixture::new().await;
    on_its_way(&world).await;
    let job = world.job("a").save().await.settings;
    world.save(&JobSettings { is_enabled: false, ..job }).await;
    assert_eq!(world.text("SELECT next_run_at FROM scheduled_jobs").await, "-");
    assert_eq!(world.rows(SKIPS).await, [["disabled", "1"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dispatched_fire_does_not_move() {
    let world = Fixture::new().await;
    let due = on_its_way(&world).await;
    let day = due.format("%F").to_string();
    freeze(&world, json!({})).await;
    world.sql("UPDATE scheduled_jobs SET next_run_at = now() + interval '1 year'").await;
    freeze(&world, json!({"timezone": "UTC", "dates": [day]})).await;
    let later = "SELECT count(*) FROM scheduled_jobs WHERE next_run_at > now() + interval '300 days'";
    assert_eq!(
        world.number(later).await,
        1,
        "{}",
        world.text("SELECT next_run_at FROM scheduled_jobs").await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn job_at_max_runs_does_not_fire() {
    let world = Fixture::new().await;
    let job = JobSettings { max_runs: Some(3), ..settings("a") };
    world.save(&job).await;
    world.sql("UPDATE scheduled_jobs SET fired_count = 3, next_run_at = NULL").await;
    world.save(&JobSettings { is_enabled: false, ..job.clone() }).await;
    world.save(&job).await;
    assert_eq!(world.text("SELECT next_run_at FROM scheduled_jobs").await, "-");
    world.save(&JobSettings { max_runs: Some(4), ..job }).await;
    assert_eq!(world.number("SELECT count(*) FROM scheduled_jobs WHERE next_run_at > now()").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_write_waits_for_a_calendar_change() {
    let world = Fixture::new().await;
    freeze(&world, json!({})).await;
    let mut conn = world.conn().await;
    let now = now(&world).await;
    let changed =
        CalendarSettings { name: "freeze".into(), description: String::new(), definition: around(now, 1, 3) };
    transact(&mut conn, "test_change", async |conn: &mut Conn| {
        calendars::save(conn, TENANT, &changed, "tests").await?;
        let writing = tokio::time::timeout(Duration::from_millis(500), try_save(&world, &frozen("a"))).await;
        assert!(writing.is_err(), "the write did not wait");
        Ok::<(), DbError>(())
    })
    .await
    .unwrap();
    try_save(&world, &frozen("a")).await.unwrap();
    let late = "SELECT count(*) FROM scheduled_jobs WHERE next_run_at >= now() + interval '2 hours'";
    assert_eq!(world.number(late).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_formula_of_the_documentation_gives_the_jitter_of_the_scheduler() {
    let world = Fixture::new().await;
    let documentation = include_str!("../../../../../docs/guide/schedules.md");
    let (_, formula) = documentation.split_once("SELECT mod(").unwrap();
    let (formula, _) = formula.split_once(" AS delay_microseconds").unwrap();
    let given = "(VALUES ('018f0000-0000-7000-8000-00000000beef'::uuid, '2026-03-01 12:00:00.25Z'::timestamptz, 3600)) v (job_id, scheduled_for, jitter_seconds)";
    let computed = world.text(&format!("SELECT mod({formula} FROM {given}")).await;
    let job = JobId("018f0000-0000-7000-8000-00000000beef".parse().unwrap());
    let expected = jitter(job.0, "2026-03-01T12:00:00.25Z".parse().unwrap(), Duration::from_secs(3600));
    assert_eq!(computed, expected.as_micros().to_string());
}

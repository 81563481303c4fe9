//! Jobs written and read back, also by two concurrent writers.

use diesel_async::SimpleAsyncConnection;
use sched_model::definitions::functions::Change;
use sched_model::domain::ids::JobId;
use sched_model::domain::job::{JobSettings, MisfireKind, OverlapPolicy};
use sched_model::domain::retry::{BackoffType, RetryPolicy};
use sched_model::domain::timetable::{DstGap, DstOverlap, JobType};
use sched_model::jobs::{self, Job, SaveError, SaveMode, SavedJob, Writing};
use sched_model::{Conn, transact};
use serde_json::json;
use test_support::fixture::{BEGIN, Fixture, TENANT, settings};

const MARKED: &str = "2090-02-03T04:05:06Z";

async fn save(world: &Fixture, settings: &JobSettings, mode: SaveMode) -> Result<SavedJob, SaveError> {
    let mut conn = world.conn().await;
    transact(&mut conn, "test_save", async |conn: &mut Conn| {
        jobs::save(conn, TENANT, settings, Writing::new(mode, "tests")).await
    })
    .await
}

async fn by_id(world: &Fixture, id: JobId) -> Option<Job> {
    jobs::by_id(&world.conn().await, TENANT, id).await.unwrap()
}

async fn versions(world: &Fixture) -> Vec<Vec<String>> {
    world.rows("SELECT version, change, changed_src FROM scheduled_job_versions ORDER BY version").await
}

fn daily(name: &str) -> JobSettings {
    JobSettings {
        job_type: JobType::Cron,
        schedule_config: json!({"expression": "0 2 * * *"}),
        ..settings(name)
    }
}

fn everything(name: &str) -> JobSettings {
    JobSettings {
        description: "Ünïcode, \"quotes\" and\nlines".into(),
        task_args: json!({"list": [1, 2.5, null], "deep": {"text": "x"}}),
        timezone: "Europe/Zurich".into(),
        dst_gap: Some(DstGap::Skip),
        dst_overlap: Some(DstOverlap::Both),
        misfire_policy: MisfireKind::FireAll,
        misfire_grace_seconds: Some(30),
        misfire_cap: 7,
        max_instances: 3,
        overlap_policy: OverlapPolicy::Queue,
        queue: Some("other".into()),
        priority: Some(0),
        timeout_seconds: Some(5),
        retry_policy: Some(RetryPolicy {
            max_attempts: 4,
            backoff_seconds: 0,
            backoff_type: BackoffType::Linear,
            max_backoff_seconds: 60,
            jitter_percent: 100,
            non_retryable: vec!["bad_input".into()],
        }),
        ..daily(name)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_job_has_a_first_version_and_a_cursor() {
    let world = Fixture::new().await;
    let saved = save(&world, &settings("a"), SaveMode::Create).await.unwrap();
    assert_eq!((saved.change, saved.before), (Change::Created, None));
    let Job { id, settings: kept, state, .. } = by_id(&world, saved.job.id).await.unwrap();
    assert_eq!((&kept, id), (&settings("a"), saved.job.id));
    assert_eq!(
        (state.version, state.created_src.as_str(), state.updated_src.as_str()),
        (1, "tests", "tests")
    );
    assert_eq!((state.total_run_count, state.active_dispatches, state.last_status), (0, 0, None));
    assert_eq!(state.next_run_at, Some(state.created_at + chrono::TimeDelta::hours(1)));
    assert_eq!(state.tzdata_version, None, "an interval reads no wall clock");
    assert_eq!(versions(&world).await, [["1", "created", "tests"]]);
    let stored = world.text("SELECT settings FROM scheduled_job_versions").await;
    assert_eq!(serde_json::from_str::<JobSettings>(&stored).unwrap(), settings("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_setting_is_stored_and_can_be_reset() {
    let world = Fixture::new().await;
    world.queue("other").await;
    let full = everything("a");
    assert_eq!(full.check(), []);
    let id = world.save(&full).await.job.id;
    assert_eq!(by_id(&world, id).await.unwrap().settings, full);
    assert_eq!(world.save(&full).await.change, Change::Unchanged, "the read settings equal the written ones");
    let saved = world.save(&settings("a")).await;
    assert_eq!((saved.change, saved.before), (Change::Updated, Some(full)));
    assert_eq!((saved.job.id, saved.job.settings), (id, settings("a")));
    let left = "SELECT count(*) FROM scheduled_jobs WHERE num_nulls(queue, priority, timeout_seconds, retry_policy, dst_gap,
                dst_overlap, misfire_grace_seconds, tzdata_version) = 8";
    assert_eq!(world.number(left).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_of_an_existing_job_is_rejected() {
    let world = Fixture::new().await;
    world.save(&settings("a")).await;
    let row = "SELECT xmin, * FROM scheduled_jobs";
    let before = world.rows(row).await;
    let changed = JobSettings { description: "new".into(), ..settings("a") };
    let refused = save(&world, &changed, SaveMode::Create).await;
    assert!(matches!(&refused, Err(SaveError::Exists(name)) if name == "a"), "{refused:?}");
    let saved = world.save(&settings("a")).await;
    assert_eq!((saved.change, saved.before), (Change::Unchanged, Some(settings("a"))));
    assert_eq!(world.rows(row).await, before);
    assert_eq!(versions(&world).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cursor_stays_unless_the_schedule_changes() {
    let world = Fixture::new().await;
    world.queue("other").await;
    world.function("other").save().await;
    let base = daily("a");
    let kept: &[fn(&mut JobSettings)] = &[
        |s| s.description = "new".into(),
        |s| s.task_args = json!({}),
        |s| s.function = "other".into(),
        |s| s.queue = Some("other".into()),
        |s| s.misfire_policy = MisfireKind::Skip,
        |s| s.retry_policy = Some(RetryPolicy::standard(2)),
    ];
    let recomputed: &[fn(&mut JobSettings)] = &[
        |s| s.schedule_config = json!({"expression": "0 3 * * *"}),
        |s| s.timezone = "Asia/Tokyo".into(),
        |s| s.dst_gap = Some(DstGap::Skip),
        |s| s.dst_overlap = Some(DstOverlap::Second),
        |s| (s.job_type, s.schedule_config) = (JobType::Interval, json!({"hours": 5})),
    ];
    let mut expected_version = 1;
    world.save(&base).await;
    for (keeps, change) in kept.iter().map(|c| (true, c)).chain(recomputed.iter().map(|c| (false, c))) {
        let mut changed = base.clone();
        change(&mut changed);
        world.sql(&format!("UPDATE scheduled_jobs SET next_run_at = '{MARKED}'")).await;
        let saved = world.save(&changed).await;
        let state = saved.job.state;
        expected_version += 1;
        assert_eq!((saved.change, state.version), (Change::Updated, expected_version), "{changed:?}");
        let cursor = state.next_run_at.unwrap();
        assert_eq!(cursor == MARKED.parse::<chrono::DateTime<chrono::Utc>>().unwrap(), keeps, "{changed:?}");
        assert!(keeps || cursor > state.updated_at, "{changed:?}");
        assert_eq!(state.tzdata_version.is_some(), changed.job_type == JobType::Cron);
        world.save(&base).await;
        expected_version += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disable_clears_and_enable_computes_the_cursor() {
    let world = Fixture::new().await;
    let off = JobSettings { is_enabled: false, ..settings("a") };
    world.save(&settings("a")).await;
    assert_eq!(world.save(&off).await.job.state.next_run_at, None);
    let described = JobSettings { description: "new".into(), ..off };
    assert_eq!(world.save(&described).await.job.state.next_run_at, None);
    let state = world.save(&settings("a")).await.job.state;
    assert!(state.next_run_at.is_some_and(|cursor| cursor > state.updated_at));
    let changes: Vec<String> = versions(&world).await.into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(changes, ["created", "disabled", "updated", "enabled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_off_keeps_its_time_and_stays_over() {
    let world = Fixture::new().await;
    let at = "2020-01-01T00:00:00Z";
    let once =
        JobSettings { job_type: JobType::OneOff, schedule_config: json!({"run_at": at}), ..settings("a") };
    assert_eq!(world.save(&once).await.job.state.next_run_at, Some(at.parse().unwrap()));
    world.sql("UPDATE scheduled_jobs SET next_run_at = NULL").await;
    let described = JobSettings { description: "new".into(), ..once };
    assert_eq!(world.save(&described).await.job.state.next_run_at, None);
    let manual = JobSettings { job_type: JobType::Manual, schedule_config: json!({}), ..settings("b") };
    assert_eq!(world.save(&manual).await.job.state.next_run_at, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_stored_policy_reads_as_the_default() {
    let world = Fixture::new().await;
    let job = world.job("a").save().await;
    world.sql("UPDATE scheduled_jobs SET retry_policy = '{\"max_attempts\": \"many\"}'").await;
    let read = jobs::by_id(&world.conn().await, TENANT, job.id).await.unwrap().unwrap();
    assert_eq!(read.settings.retry_policy, None);
    world.runs(job.id).insert().await;
    let worker = world.worker().await;
    let claimed = world.claim(worker, 1).await;
    assert_eq!((claimed.len(), &claimed[0].retry_policy), (1, &None));
}

/// Saves the job in an open transaction, starts another save, and commits the first when the second
/// waits.
async fn two_at_once(world: &Fixture, second: &JobSettings, mode: SaveMode) -> Result<SavedJob, SaveError> {
    let mut first = world.conn().await;
    first.batch_execute(BEGIN).await.unwrap();
    let described = JobSettings { description: "first".into(), ..settings("a") };
    jobs::save(&mut first, TENANT, &described, Writing::new(SaveMode::Upsert, "first")).await.unwrap();
    let commit = async {
        world.wait_for_blocked(1).await;
        first.batch_execute("COMMIT").await.unwrap();
    };
    tokio::join!(save(world, second, mode), commit).0
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_create_fails_for_the_second() {
    let world = Fixture::new().await;
    let second = two_at_once(&world, &settings("a"), SaveMode::Create).await;
    assert!(matches!(second, Err(SaveError::Exists(_))), "{second:?}");
    assert_eq!(versions(&world).await, [["1", "created", "first"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_upserts_create_then_change() {
    let world = Fixture::new().await;
    let second = two_at_once(&world, &settings("a"), SaveMode::Upsert).await.unwrap();
    assert_eq!((second.change, second.before.unwrap().description.as_str()), (Change::Updated, "first"));
    assert_eq!(versions(&world).await, [["1", "created", "first"], ["2", "updated", "tests"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_are_both_kept() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    let second = two_at_once(&world, &settings("a"), SaveMode::Upsert).await.unwrap();
    assert_eq!((second.change, second.before.unwrap().description.as_str()), (Change::Updated, "first"));
    let changes = versions(&world).await;
    assert_eq!(changes, [["1", "created", "tests"], ["2", "updated", "first"], ["3", "updated", "tests"]]);
}

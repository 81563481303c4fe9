//! The built-in functions and jobs, and their stored settings.

use std::time::Duration;

use sched_model::cluster::housekeeping::{self, Housekeeping};
use sched_model::domain::retention::{HistoryExpiry, Retention};
use sched_model::jobs::{self, SaveMode, Writing};
use sched_model::{
    Conn,
    definitions::{built_in, functions},
    retention::archive,
    transact,
};
use test_support::fixture::{Fixture, TENANT, settings};

const NAMES: [&str; 6] = [
    "sched.archive",
    "sched.backup",
    "sched.notify",
    "sched.partitions",
    "sched.retention",
    "sched.stale_instances",
];

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_gets_its_built_in_jobs_once() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let installed = built_in::install(&mut conn).await.unwrap();
    assert_eq!(
        (installed.functions, installed.jobs, installed.taken),
        (NAMES.to_vec(), NAMES.to_vec(), vec![])
    );
    assert_eq!(
        built_in::install(&mut conn).await.unwrap(),
        built_in::Installed::default(),
        "and nothing the second time"
    );
    let jobs =
        "SELECT name, scope, is_enabled, next_run_at > now(), disabled_reason IS NOT NULL, project_id IS NULL
                FROM scheduled_jobs ORDER BY name";
    let expected = [
        ["sched.archive", "system", "f", "-", "t", "t"],
        ["sched.backup", "backup_infrastructure", "f", "-", "t", "t"],
        ["sched.notify", "system", "t", "-", "f", "t"],
        ["sched.partitions", "system", "t", "t", "f", "t"],
        ["sched.retention", "system", "t", "t", "f", "t"],
        ["sched.stale_instances", "system", "t", "t", "f", "t"],
    ];
    assert_eq!(world.rows(jobs).await, expected);
    let functions = "SELECT count(*) FROM task_functions WHERE is_system AND queue = 'system' AND handler_config ->> 'handler' = name";
    assert_eq!(world.number(functions).await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_belong_to_the_operator_and_functions_to_the_release() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    built_in::install(&mut conn).await.unwrap();
    world
        .sql(
            "UPDATE scheduled_jobs SET is_enabled = false, next_run_at = NULL WHERE name = 'sched.retention';
             UPDATE scheduled_jobs SET deleted_at = now(), next_run_at = NULL WHERE name = 'sched.partitions';
             UPDATE task_functions SET description = 'of an older release' WHERE name = 'sched.backup'",
        )
        .await;
    let installed = built_in::install(&mut conn).await.unwrap();
    assert_eq!((installed.functions, installed.jobs), (vec!["sched.backup"], vec![]));
    let enabled = "SELECT is_enabled FROM scheduled_jobs WHERE name = 'sched.retention'";
    assert_eq!(world.text(enabled).await, "f", "a disabled job stays disabled");
    assert_eq!(world.number("SELECT count(*) FROM scheduled_jobs").await, 6, "a deleted job stays deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn taken_names_are_skipped() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    world.function("sched.backup").save().await;
    world.job("sched.archive").save().await;
    let installed = built_in::install(&mut conn).await.unwrap();
    assert_eq!(installed.taken, ["sched.archive", "sched.backup"]);
    let function = functions::by_name(&mut conn, TENANT, "sched.backup").await.unwrap().unwrap();
    assert!(!function.is_system && function.settings.display_name == "sched.backup", "{function:?}");
    let function = "SELECT f.name FROM scheduled_jobs j JOIN task_functions f ON f.id = j.task_function_id WHERE j.name = 'sched.archive'";
    assert_eq!(world.text(function).await, "noop");
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_function_has_one_job_per_scope() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    built_in::install(&mut conn).await.unwrap();
    let mut second = settings("second");
    second.function = "sched.retention".to_owned();
    second.scope = sched_model::domain::job::Scope::System;
    second.project = None;
    let refused = transact(&mut conn, "test_save", async |conn: &mut Conn| {
        jobs::save(conn, TENANT, &second, Writing::new(SaveMode::Create, "tests")).await
    });
    let text = refused.await.unwrap_err().to_string();
    assert!(text.contains("only one is allowed"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn housekeeping_settings_are_written_only_on_change() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    assert_eq!(housekeeping::load(&mut conn).await.unwrap(), None);
    let day = Duration::from_secs(24 * 3600);
    assert!(!housekeeping::was_retained_within(&mut conn, day).await.unwrap());
    let mut told = Housekeeping {
        retention: Retention { finished_days: 3, dead_letter_days: 4, audit_days: 5 },
        idempotency_keys: day,
        expiry: HistoryExpiry::Drop,
        stale_scheduler: Duration::from_secs(60),
        stale_worker: day,
    };
    assert!(housekeeping::store(&mut conn, &told).await.unwrap());
    assert!(!housekeeping::store(&mut conn, &told).await.unwrap());
    housekeeping::note_retained(&mut conn).await.unwrap();
    assert!(housekeeping::was_retained_within(&mut conn, day).await.unwrap());
    assert!(!housekeeping::was_retained_within(&mut conn, Duration::ZERO).await.unwrap());
    told.expiry = HistoryExpiry::Detach;
    assert!(housekeeping::store(&mut conn, &told).await.unwrap());
    assert_eq!(housekeeping::load(&mut conn).await.unwrap(), Some(told));
    assert!(housekeeping::was_retained_within(&mut conn, day).await.unwrap(), "the mark stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_month_is_read_block_by_block_with_every_row_once() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    assert_eq!(archive::months(&mut conn).await.unwrap(), []);
    world
        .sql(
            "CREATE TABLE history_archive.\"events_y2020m02\" AS SELECT n, repeat('x', 100) AS text FROM generate_series(1, 3000) AS n;
             CREATE TABLE maintenance_archive.job_execution_log_y2020m01 AS SELECT 1 AS n",
        )
        .await;
    let months = archive::months(&mut conn).await.unwrap();
    let names: Vec<&str> = months.iter().map(|month| month.name.as_str()).collect();
    assert_eq!(
        names,
        ["maintenance_archive.job_execution_log_y2020m01", "history_archive.events_y2020m02"],
        "oldest first"
    );
    let month = &months[1];
    assert!(month.blocks > 10, "{month:?}");
    for step in [1, 7, 100_000] {
        assert_eq!(archive::count(&mut conn, month, step).await.unwrap(), 3000);
    }
    let mut beginning = month.clone();
    beginning.blocks = 3;
    let counted = archive::count(&mut conn, &beginning, 2).await.unwrap();
    assert!((100..1_000).contains(&counted), "{counted} rows in three blocks of many");
    let mut numbers = Vec::new();
    for first in (0..month.blocks).step_by(7) {
        for line in archive::rows(&mut conn, month, first, 7).await.unwrap() {
            let row: serde_json::Value = serde_json::from_str(&line).unwrap();
            numbers.push(row["n"].as_i64().unwrap());
        }
    }
    assert_eq!(numbers, (1..=3000).collect::<Vec<i64>>());
    archive::drop_month(&mut conn, month).await.unwrap();
    assert_eq!(archive::months(&mut conn).await.unwrap().len(), 1);
    assert!(archive::server_version(&mut conn).await.unwrap() >= 14);
}

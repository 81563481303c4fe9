//! The built-in jobs, run by a worker on a real database.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get what it needs fails, and says where"
)]

mod notify;
mod s3;

use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sched_model::cluster::housekeeping::{self, Housekeeping};
use sched_model::domain::retention::{HistoryExpiry, Retention};
use sched_model::{Conn, definitions::built_in};
use sched_runtime::config::{self, MapSource};
use sched_runtime::daemon::Context;
use sched_runtime::exit::ExitError;
use sched_runtime::shutdown::Shutdown;
use sched_runtime::tasks::{OwnedTask, spawn_owned};
use sched_runtime::telemetry;
use sched_runtime::traces::Traces;
use sched_runtime::tracker::Tracker;
use sched_worker::{Config, PROGRAM, Worker};
use serde_json::{Value, json};
use test_support::{Client, Process, TestDatabase, server_program, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

/// A database with the built-in jobs and a worker on it.
struct World {
    db: TestDatabase,
    client: Client,
    shutdown: Shutdown,
    worker: Option<OwnedTask<Result<(), ExitError>>>,
}

impl World {
    /// With a worker with these settings, in an installation whose schedulers expire old months
    /// that way.
    async fn start(expiry: HistoryExpiry, settings: &[(&str, &str)]) -> Self {
        let mut world = Self::without_worker(expiry).await;
        let context = Context {
            program: PROGRAM,
            shutdown: world.shutdown.clone(),
            metrics: telemetry::metrics_recorder().unwrap(),
            traces: Traces::default(),
            tracker: Tracker::default(),
        };
        let bin_dir = server_program("pg_dump").parent().unwrap().display().to_string();
        let url = world.db.url().to_owned();
        let always = [("DATABASE_URL", url.as_str()), ("HEALTH_PORT", "0"), ("PG_BIN_DIR", &bin_dir)];
        let source: MapSource = always.into_iter().chain(settings.iter().copied()).collect();
        let mut values =
            config::load(&PROGRAM, sched_worker::config::GROUPS, ["sched-worker"], &source).unwrap();
        let config = Config::read(&mut values);
        values.finish().unwrap();
        let run = Worker::builder().build().unwrap().run(config, context);
        world.worker = Some(spawn_owned("worker", run));
        world
    }

    async fn without_worker(expiry: HistoryExpiry) -> Self {
        let db = TestDatabase::new().await;
        let mut conn = db.database().dedicated().await.unwrap();
        assert_eq!(built_in::install(&mut conn).await.unwrap().jobs.len(), 6);
        tell(&mut conn, expiry).await;
        Self { client: db.client().await, db, shutdown: Shutdown::new(), worker: None }
    }

    async fn sql(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// Returns the single text of a query, or an empty text without a row.
    async fn text(&self, query: &str) -> String {
        let row = self.client.query_opt(&format!("SELECT ({query})::text"), &[]).await.unwrap();
        row.and_then(|row| row.get::<_, Option<String>>(0)).unwrap_or_default()
    }

    /// Triggers a built-in job and returns status, result and error of its first attempt.
    async fn run(&self, job: &str, args: &Value) -> (String, Value, String) {
        let id = self.text("gen_random_uuid()").await;
        self.sql(&format!(
            "UPDATE scheduled_jobs SET active_dispatches = active_dispatches + 1 WHERE name = '{job}';
             INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, triggered_by,
                                       trigger_id, args)
             SELECT '{id}', j.tenant_id, j.id, now(), now(), now(), 'system', 'api', '{id}', '{args}'
             FROM scheduled_jobs j WHERE j.name = '{job}'"
        ))
        .await;
        let attempt = format!(
            "SELECT l.status || E'\\n' || coalesce(l.result::text, 'null') || E'\\n' || coalesce(l.error_class || ': ' || l.error_message, '')
             FROM (SELECT * FROM job_execution_log UNION ALL SELECT * FROM maintenance.job_execution_log) l
             WHERE l.dispatch_id = '{id}' AND l.attempt = 1"
        );
        let mut ended = String::new();
        wait_for("the attempt ends", PATIENCE, async || {
            ended = self.text(&attempt).await;
            if ended.is_empty() { Err(format!("{job} has not ended")) } else { Ok(()) }
        })
        .await;
        let mut lines = ended.splitn(3, '\n').map(str::to_owned);
        let (status, result, error) =
            (lines.next().unwrap(), lines.next().unwrap(), lines.next().unwrap_or_default());
        (status, serde_json::from_str(&result).unwrap(), error)
    }

    /// Returns the result of a built-in job that succeeds.
    async fn done(&self, job: &str) -> Value {
        let (status, result, error) = self.run(job, &json!({})).await;
        assert_eq!((status.as_str(), error.as_str()), ("COMPLETED", ""), "{job}");
        result
    }

    /// Creates an old detached month of events with so many rows.
    async fn detached_month(&self, month: u32, rows: u32) -> String {
        let (name, next) = (format!("events_y2020m{month:02}"), month + 1);
        self.sql(&format!(
            "CREATE TABLE history_archive.{name} (LIKE events INCLUDING DEFAULTS);
             INSERT INTO history_archive.{name} (id, event_type, payload, created_at)
             SELECT n, 'tested', jsonb_build_object('n', n, 'text', repeat('zeile' || E'\\n', n % 50)), '2020-{next:02}-01'
             FROM generate_series(1, {rows}) AS n"
        ))
        .await;
        name
    }

    async fn stop(self) {
        drop(self.stop_and_keep().await);
    }

    /// Stops the worker and keeps the database.
    async fn stop_and_keep(mut self) -> (TestDatabase, Client) {
        self.shutdown.trigger();
        self.worker.take().unwrap().await.unwrap().unwrap();
        (self.db, self.client)
    }
}

async fn tell(conn: &mut Conn, expiry: HistoryExpiry) {
    let told = Housekeeping {
        retention: Retention { finished_days: 30, dead_letter_days: 90, audit_days: 365 },
        idempotency_keys: Duration::from_secs(24 * 3600),
        expiry,
        stale_scheduler: Duration::from_secs(120),
        stale_worker: Duration::from_secs(3600),
    };
    housekeeping::tell(conn, &told).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn old_things_are_removed_by_what_schedulers_were_told_and_the_leader_learns_of_it() {
    let world = World::start(HistoryExpiry::Drop, &[]).await;
    world
        .sql(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, created_at, available_at, completed_at, status, queue,
                                       triggered_by, trigger_id, args)
             SELECT u.id, j.tenant_id, j.id, u.at, u.at, u.at, u.at, 'COMPLETED', 'system', 'api', u.id, '{}'
             FROM scheduled_jobs j
             CROSS JOIN LATERAL (
                 SELECT a.at, (lpad(to_hex((extract(epoch FROM a.at) * 1000)::bigint), 12, '0') || '7'
                               || substr(md5(n::text || a.at::text), 1, 3) || '8' || substr(md5(n::text), 1, 15))::uuid AS id
                 FROM generate_series(1, 30) AS n,
                      LATERAL (SELECT now() - CASE WHEN n <= 25 THEN 40 ELSE 20 END * interval '1 day' AS at) AS a) AS u
             WHERE j.name = 'sched.backup';
             INSERT INTO scheduler_instances (id, hostname, pid, version, last_heartbeat)
             VALUES (gen_random_uuid(), 'gone', 1, '0.0.0', now() - interval '1 day')",
        )
        .await;
    let (status, result, _) = world.run("sched.retention", &json!({"page_rows": 10})).await;
    assert_eq!(status, "COMPLETED");
    assert_eq!((&result["dispatches"], &result["is_complete"]), (&json!(25), &json!(true)));
    let fresh = "SELECT retained_at > now() - interval '1 minute' FROM housekeeping";
    assert_eq!(world.text(fresh).await, "true");
    assert_eq!(world.done("sched.retention").await["dispatches"], 0);
    assert_eq!(world.done("sched.stale_instances").await, json!({"schedulers": 1, "workers": 0}));
    let (status, _, error) = world.run("sched.retention", &json!({"page_rows": 0})).await;
    assert_eq!((status.as_str(), error.as_str()), ("FAILED", "invalid_args: page_rows must be 1 to 100000"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn months_behind_are_detached_and_those_ahead_are_made() {
    let world = World::start(HistoryExpiry::Detach, &[]).await;
    world
        .sql(
            "CREATE TABLE events_y2020m01 PARTITION OF events FOR VALUES FROM ('2020-01-01 00:00Z') TO ('2020-02-01 00:00Z');
             SELECT isolate_tenants('events_y2020m01');
             DO $$ BEGIN EXECUTE format('DROP TABLE events%s', to_char(now() AT TIME ZONE 'UTC' + interval '1 month', '\"_y\"YYYY\"m\"MM')); END $$",
        )
        .await;
    let result = world.done("sched.partitions").await;
    assert_eq!((&result["removed"], &result["how"]), (&json!(["events_y2020m01"]), &json!("detach")));
    assert_eq!(result["made"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        world.text("to_regclass('history_archive.events_y2020m01')").await,
        "history_archive.events_y2020m01"
    );
    world.stop().await;
}

/// The lines of an object.
fn lines(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn detached_months_are_archived_whole_and_only_then_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}/archive", dir.path().display());
    let world = World::start(HistoryExpiry::Detach, &[("ARCHIVE_URL", &url)]).await;
    let (first, empty) = (world.detached_month(1, 5000).await, world.detached_month(2, 0).await);
    let result = world.done("sched.archive").await;
    assert_eq!((&result["rows"], &result["left"]), (&json!(5000), &json!(0)));
    let objects = result["archived"].as_array().unwrap();
    assert_eq!(objects.len(), 2);
    for (object, (table, rows)) in objects.iter().zip([(first, 5000), (empty, 0)]) {
        assert_eq!(object["table"], format!("history_archive.{table}"));
        assert_eq!(world.text(&format!("to_regclass('history_archive.{table}')")).await, "", "it is dropped");
        let path = object["object"].as_str().unwrap().strip_prefix("file://").unwrap().to_owned();
        let lines = lines(Path::new(&path));
        let mut numbers: Vec<u64> = lines.iter().map(|line| line["payload"]["n"].as_u64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=rows).collect::<Vec<u64>>(), "every row, once");
        let file = Path::new(&path).file_name().unwrap().to_str().unwrap();
        let sums = format!("{}  {file}\n", object["sha256"].as_str().unwrap());
        assert_eq!(std::fs::read_to_string(format!("{path}.sha256")).unwrap(), sums);
        let checked = Command::new("sha256sum")
            .arg("-c")
            .arg(format!("{file}.sha256"))
            .current_dir(Path::new(&path).parent().unwrap())
            .output();
        assert!(checked.unwrap().status.success());
    }
    assert_eq!(world.done("sched.archive").await["archived"], json!([]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn months_are_archived_to_what_speaks_the_language_of_s3() {
    let s3 = s3::S3::start().await;
    let world = World::without_worker(HistoryExpiry::Detach).await;
    let table = world.detached_month(1, 2000).await;
    // A separate process: credentials and endpoint come from its environment.
    let mut worker = Process::daemon("sched-worker")
        .env("DATABASE_URL", world.db.url())
        .env("ARCHIVE_URL", "s3://history/of/sched")
        .env("AWS_ENDPOINT", format!("http://{}", s3.addr))
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .start();
    let result = world.done("sched.archive").await;
    assert_eq!(result["rows"], 2000);
    assert_eq!(world.text(&format!("to_regclass('history_archive.{table}')")).await, "", "it is dropped");
    let object = result["archived"][0]["object"].as_str().unwrap();
    let path = object.replace("s3://", "/");
    assert!(path.starts_with(&format!("/history/of/sched/history_archive/{table}-")), "{path}");
    assert_eq!(s3.paths(), [path.clone(), format!("{path}.sha256")]);
    let mut text = String::new();
    flate2::read::GzDecoder::new(&s3.object(&path)[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 2000);
    assert!(worker.stop_gracefully(PATIENCE).await.success());
}

/// The path of the object of a detached month.
async fn path_of(world: &World, dir: &Path, table: &str) -> std::path::PathBuf {
    let oid = world.text(&format!("'history_archive.{table}'::regclass::oid")).await;
    dir.join(format!("history_archive/{table}-{oid}.jsonl.gz"))
}

#[tokio::test(flavor = "multi_thread")]
async fn archiving_goes_on_wherever_an_earlier_run_died() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let world = World::start(HistoryExpiry::Detach, &[("ARCHIVE_URL", &url)]).await;
    // A complete object of a month of 100 rows with its checksum: the state after a run died before
    // it dropped the month.
    let whole = world.detached_month(1, 100).await;
    let content = {
        let copy = world.detached_month(9, 100).await;
        world.done("sched.archive").await;
        assert_eq!(world.text(&format!("to_regclass('history_archive.{copy}')")).await, "");
        let archived = std::fs::read_dir(dir.path().join("history_archive")).unwrap();
        let mut paths: Vec<_> = archived.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.to_str().unwrap().contains("m09") && path.extension().unwrap() == "gz");
        (
            std::fs::read(&paths[0]).unwrap(),
            std::fs::read_to_string(format!("{}.sha256", paths[0].display())).unwrap(),
        )
    };
    assert_eq!(
        world.text(&format!("to_regclass('history_archive.{whole}')")).await,
        "",
        "it was archived along"
    );

    let dropped = world.detached_month(2, 100).await;
    let half = world.detached_month(3, 100).await;
    let damaged = world.detached_month(4, 100).await;
    let other = world.detached_month(5, 99).await;
    for (table, object, checksum) in [
        // The run died before it dropped the month.
        (&dropped, &content.0[..], Some(&content.1)),
        // The run died before it wrote the checksum.
        (&half, &content.0[..content.0.len() / 2], None),
        // The object was damaged later.
        (&damaged, &content.0[..content.0.len() / 2], Some(&content.1)),
        // A complete object of another month.
        (&other, &content.0[..], Some(&content.1)),
    ] {
        let path = path_of(&world, dir.path(), table).await;
        std::fs::write(&path, object).unwrap();
        if let Some(checksum) = checksum {
            std::fs::write(format!("{}.sha256", path.display()), checksum).unwrap();
        }
    }
    let paths = [
        path_of(&world, dir.path(), &dropped).await,
        path_of(&world, dir.path(), &half).await,
        path_of(&world, dir.path(), &damaged).await,
        path_of(&world, dir.path(), &other).await,
    ];
    let (status, _, error) = world.run("sched.archive", &json!({})).await;
    assert_eq!(status, "FAILED");
    assert!(error.starts_with("archive_failed: 3 months were archived, 1 were not"), "{error}");
    assert!(error.contains("is the archive of another month"), "{error}");
    for (table, path) in [dropped, half, damaged].iter().zip(&paths) {
        assert_eq!(
            world.text(&format!("to_regclass('history_archive.{table}')")).await,
            "",
            "{table} is dropped"
        );
        assert_eq!(lines(path).len(), 100, "{table}");
    }
    assert_eq!(world.text(&format!("SELECT count(*) FROM history_archive.{other}")).await, "99", "it stays");
    assert_eq!(std::fs::read(&paths[3]).unwrap(), content.0, "and what was there before too");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_need_settings_say_which() {
    let world = World::start(HistoryExpiry::Drop, &[]).await;
    for (job, setting) in [("sched.archive", "ARCHIVE_URL"), ("sched.backup", "BACKUP_DIR")] {
        let reason =
            format!("SELECT disabled_reason FROM scheduled_jobs WHERE name = '{job}' AND NOT is_enabled");
        assert!(world.text(&reason).await.contains(setting), "{job}");
        let (status, _, error) = world.run(job, &json!({})).await;
        assert_eq!(status, "FAILED");
        assert!(error.starts_with(&format!("not_configured: {setting} is not set")), "{error}");
    }
    world.stop().await;
}

/// The number of rows of each table that does not change while a worker runs and a backup is
/// written.
const COUNTS: &str = "SELECT string_agg(t.name || ' ' || (xpath('/row/c/text()', query_to_xml('SELECT count(*) AS c FROM ' || t.name, true, true, '')))[1]::text, ', ' ORDER BY t.name)
    FROM unnest(ARRAY['tenants', 'projects', 'queues', 'task_functions', 'scheduled_jobs', 'scheduled_job_versions', 'skipped_fires',
                      'housekeeping', 'maintenance.job_execution_log']) AS t (name)";

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_restores_into_a_fresh_database_with_every_row() {
    let dir = tempfile::tempdir().unwrap();
    let backups = dir.path().join("backups").display().to_string();
    let world = World::start(HistoryExpiry::Drop, &[("BACKUP_DIR", &backups), ("BACKUP_KEEP", "2")]).await;
    world
        .sql(
            "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason)
             SELECT tenant_id, id, at, at, 1, 'overlap'
             FROM scheduled_jobs, generate_series(now() - interval '90 minutes', now(), interval '1 minute') AS at",
        )
        .await;
    let counts = world.text(COUNTS).await;
    assert!(counts.contains("scheduled_jobs 6") && counts.contains("skipped_fires 546"), "{counts}");
    let result = world.done("sched.backup").await;
    let path = Path::new(result["path"].as_str().unwrap());
    assert_eq!(std::fs::metadata(path).unwrap().len(), result["bytes"].as_u64().unwrap());
    let sums =
        format!("{}  {}\n", result["sha256"].as_str().unwrap(), path.file_name().unwrap().to_str().unwrap());
    assert_eq!(std::fs::read_to_string(format!("{}.sha256", path.display())).unwrap(), sums);
    // The log of the backup job itself is outside the main schema.
    assert_eq!(world.text("SELECT count(*) FROM maintenance.job_execution_log").await, "1");
    assert_eq!(world.text("SELECT count(*) FROM job_execution_log").await, "0");

    let fresh = TestDatabase::empty().await;
    let restored = Command::new(server_program("pg_restore"))
        .args(["--exit-on-error", "--no-owner", "--single-transaction", "--dbname", fresh.url()])
        .arg(path)
        .output()
        .unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let client = fresh.client().await;
    let row = client.query_one(&format!("SELECT ({COUNTS})::text"), &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), counts, "every table has what it had");

    for _ in 0..2 {
        world.done("sched.backup").await;
    }
    assert!(!path.exists(), "two are kept");
    assert_eq!(
        std::fs::read_dir(&backups).unwrap().count(),
        4,
        "with their checksums, and nothing unfinished"
    );

    // Restoring the main schema alone returns it to its former state, and the log of backups stays.
    let newest = world.done("sched.backup").await["path"].as_str().unwrap().to_owned();
    let (db, client) = world.stop_and_keep().await;
    client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await.unwrap();
    let restored = Command::new(server_program("pg_restore"))
        .args(["--exit-on-error", "--no-owner", "--single-transaction", "--schema=public"])
        .args(["--dbname", db.url()])
        .arg(newest)
        .output()
        .unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let after = "SELECT (SELECT name FROM tenants) || ' ' || (SELECT count(*) FROM skipped_fires) || ' '
                        || (SELECT count(*) FROM maintenance.job_execution_log)";
    let row = client.query_one(after, &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "Default 546 4");
}

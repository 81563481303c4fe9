#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get what it needs fails, and says where"
)]

mod archive;
mod backup;
mod notify;
mod s3;

use std::time::Duration;

use sched_model::cluster::housekeeping::{self, Housekeeping};
use sched_model::domain::ids::JobId;
use sched_model::domain::retention::{HistoryExpiry, Retention};
use sched_model::{Conn, definitions::built_in};
use sched_runtime::config::{self, MapSource};
use sched_runtime::daemon::Context;
use sched_runtime::exit::ExitError;
use sched_runtime::service_manager::ServiceManager;
use sched_runtime::shutdown::Shutdown;
use sched_runtime::tasks::{OwnedTask, spawn_owned};
use sched_runtime::telemetry;
use sched_runtime::traces::Traces;
use sched_runtime::tracker::Tracker;
use sched_worker::{Config, PROGRAM, Worker};
use serde_json::{Value, json};
use test_support::{Fixture, Login, server_program, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

struct RunningWorker {
    fixture: Fixture,
    shutdown: Shutdown,
    task: Option<OwnedTask<Result<(), ExitError>>>,
}

impl RunningWorker {
    /// `expiry` is that of the installation's schedulers; `settings` are the worker's. Only the owner
    /// of the tables detaches and drops months; all else needs the login of a worker.
    async fn start(expiry: HistoryExpiry, settings: &[(&str, &str)]) -> Self {
        let worker = Self::without_worker(expiry).await;
        let db = &worker.fixture.db;
        let url = match expiry {
            HistoryExpiry::Detach => db.url().to_owned(),
            HistoryExpiry::Drop => db.url_of(Login::Worker),
        };
        worker.started(&url, settings)
    }

    fn started(mut self, url: &str, settings: &[(&str, &str)]) -> Self {
        let context = Context {
            program: PROGRAM,
            shutdown: self.shutdown.clone(),
            metrics: telemetry::metrics_recorder().unwrap(),
            traces: Traces::default(),
            tracker: Tracker::default(),
            service: ServiceManager::default(),
        };
        let bin_dir = server_program("pg_dump").parent().unwrap().display().to_string();
        let always = [("DATABASE_URL", url), ("HEALTH_PORT", "0"), ("PG_BIN_DIR", &bin_dir)];
        let source: MapSource = always.into_iter().chain(settings.iter().copied()).collect();
        let mut values =
            config::load(&PROGRAM, sched_worker::config::GROUPS, ["sched-worker"], &source).unwrap();
        let config = Config::read(&mut values);
        values.finish().unwrap();
        let run = Worker::builder().build().unwrap().run(config, context);
        self.task = Some(spawn_owned("worker", run));
        self
    }

    async fn without_worker(expiry: HistoryExpiry) -> Self {
        let fixture = Fixture::installed().await;
        let mut conn = fixture.conn().await;
        assert_eq!(built_in::install(&mut conn).await.unwrap().jobs.len(), 6);
        store_settings(&mut conn, expiry).await;
        Self { fixture, shutdown: Shutdown::new(), task: None }
    }

    async fn text(&self, query: &str) -> String {
        self.fixture.text(&format!("SELECT ({query})::text")).await
    }

    async fn run(&self, job: &str, args: &Value) -> (String, Value, String) {
        let job_id = self.text(&format!("SELECT id FROM scheduled_jobs WHERE name = '{job}'")).await;
        let runs = self.fixture.runs(JobId(job_id.parse().unwrap())).queue("system").args(args.clone());
        let id = runs.waiting_since_minutes(0).insert().await.remove(0);
        let attempt = format!(
            "SELECT l.status || E'\\n' || coalesce(l.result::text, 'null') || E'\\n' || coalesce(l.error_class || ': ' || l.error_message, '')
             FROM (SELECT * FROM job_execution_log UNION ALL SELECT * FROM maintenance.job_execution_log) l
             WHERE l.dispatch_id = '{id}' AND l.attempt = 1"
        );
        let mut ended = String::new();
        wait_for("the attempt ends", PATIENCE, async || {
            ended = self.text(&attempt).await;
            if ended == "-" { Err(format!("{job} has not ended")) } else { Ok(()) }
        })
        .await;
        let mut lines = ended.splitn(3, '\n').map(str::to_owned);
        let (status, result, error) =
            (lines.next().unwrap(), lines.next().unwrap(), lines.next().unwrap_or_default());
        (status, serde_json::from_str(&result).unwrap(), error)
    }

    async fn done(&self, job: &str) -> Value {
        let (status, result, error) = self.run(job, &json!({})).await;
        assert_eq!((status.as_str(), error.as_str()), ("COMPLETED", ""), "{job}");
        result
    }

    async fn detached_month(&self, month: u32, rows: u32) -> String {
        let (name, next) = (format!("events_y2020m{month:02}"), month + 1);
        self.fixture.sql(&format!(
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

    async fn stop_and_keep(mut self) -> Fixture {
        self.shutdown.trigger();
        self.task.take().unwrap().await.unwrap().unwrap();
        self.fixture
    }
}

async fn store_settings(conn: &mut Conn, expiry: HistoryExpiry) {
    let settings = Housekeeping {
        retention: Retention { finished_days: 30, dead_letter_days: 90, audit_days: 365 },
        idempotency_keys: Duration::from_secs(24 * 3600),
        expiry,
        stale_scheduler: Duration::from_secs(120),
        stale_worker: Duration::from_secs(3600),
    };
    housekeeping::store(conn, &settings).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_job_removes_old_rows_and_records_completion() {
    let worker = RunningWorker::start(HistoryExpiry::Drop, &[]).await;
    worker.fixture
        .sql(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, created_at, available_at, completed_at, status, queue,
                                       triggered_by, trigger_id, args)
             SELECT u.id, j.tenant_id, j.id, j.version, u.at, u.at, u.at, u.at, 'COMPLETED', 'system', 'api', u.id, '{}'
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
    let (status, result, _) = worker.run("sched.retention", &json!({"page_rows": 10})).await;
    assert_eq!(status, "COMPLETED");
    assert_eq!((&result["dispatches"], &result["is_complete"]), (&json!(25), &json!(true)));
    let fresh = "SELECT retained_at > now() - interval '1 minute' FROM housekeeping";
    assert_eq!(worker.text(fresh).await, "true");
    assert_eq!(worker.done("sched.retention").await["dispatches"], 0);
    assert_eq!(worker.done("sched.stale_instances").await, json!({"schedulers": 1, "workers": 0}));
    let (status, _, error) = worker.run("sched.retention", &json!({"page_rows": 0})).await;
    assert_eq!((status.as_str(), error.as_str()), ("FAILED", "invalid_args: page_rows must be 1 to 100000"));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_job_detaches_old_and_creates_new_months() {
    let worker = RunningWorker::start(HistoryExpiry::Detach, &[]).await;
    worker.fixture
        .sql(
            "SET ROLE sched;
             CREATE TABLE events_y2020m01 PARTITION OF events FOR VALUES FROM ('2020-01-01 00:00Z') TO ('2020-02-01 00:00Z');
             SELECT isolate_tenants('events_y2020m01');
             RESET ROLE;
             DO $$ BEGIN EXECUTE format('DROP TABLE events%s', to_char(now() AT TIME ZONE 'UTC' + interval '1 month', '\"_y\"YYYY\"m\"MM')); END $$",
        )
        .await;
    let result = worker.done("sched.partitions").await;
    assert_eq!((&result["removed"], &result["how"]), (&json!(["events_y2020m01"]), &json!("detach")));
    assert_eq!(result["made"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        worker.text("to_regclass('history_archive.events_y2020m01')").await,
        "history_archive.events_y2020m01"
    );
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unconfigured_jobs_name_the_missing_setting() {
    let worker = RunningWorker::start(HistoryExpiry::Drop, &[]).await;
    for (job, setting) in [("sched.archive", "ARCHIVE_URL"), ("sched.backup", "BACKUP_DIR")] {
        let reason =
            format!("SELECT disabled_reason FROM scheduled_jobs WHERE name = '{job}' AND NOT is_enabled");
        assert!(worker.text(&reason).await.contains(setting), "{job}");
        let (status, _, error) = worker.run(job, &json!({})).await;
        assert_eq!(status, "FAILED");
        assert!(error.starts_with(&format!("not_configured: {setting} is not set")), "{error}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_jobs_are_enabled_once() {
    let (folder, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let url = format!("file://{}", archive.path().display());
    let settings = [("BACKUP_DIR", folder.path().to_str().unwrap()), ("ARCHIVE_URL", url.as_str())];
    let worker = RunningWorker::start(HistoryExpiry::Detach, &settings).await;
    let enabled =
        "SELECT count(*) FROM scheduled_jobs WHERE name IN ('sched.archive', 'sched.backup') AND is_enabled
                   AND next_run_at IS NOT NULL AND disabled_reason IS NULL AND updated_src = 'worker'";
    worker.fixture.wait_for_count("both jobs are enabled", enabled, 2).await;
    let audited = "SELECT count(*) FROM audit_log WHERE actor = 'worker' AND action = 'enable_job'";
    assert_eq!(worker.fixture.number(audited).await, 2);
    let fixture = worker.stop_and_keep().await;
    // A user disables one.
    fixture.sql("UPDATE scheduled_jobs SET is_enabled = false, next_run_at = NULL, version = version + 1 WHERE name = 'sched.backup'").await;
    let mut conn = fixture.conn().await;
    assert!(!built_in::enable(&mut conn, "sched.backup", "worker").await.unwrap());
    assert!(!built_in::enable(&mut conn, "sched.archive", "worker").await.unwrap(), "it is enabled");
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_stays_disabled_without_detached_months() {
    let archive = tempfile::tempdir().unwrap();
    let url = format!("file://{}", archive.path().display());
    let settings = [("BACKUP_DIR", archive.path().to_str().unwrap()), ("ARCHIVE_URL", url.as_str())];
    let worker = RunningWorker::without_worker(HistoryExpiry::Drop).await;
    let owner = worker.fixture.db.url().to_owned();
    let worker = worker.started(&owner, &settings);
    let backup = "SELECT count(*) FROM scheduled_jobs WHERE name = 'sched.backup' AND is_enabled";
    worker.fixture.wait_for_count("the backup is enabled", backup, 1).await;
    let archived = "SELECT is_enabled FROM scheduled_jobs WHERE name = 'sched.archive'";
    assert_eq!(worker.text(archived).await, "false");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn login_of_workers_enables_no_job() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [("BACKUP_DIR", folder.path().to_str().unwrap())];
    let worker = RunningWorker::start(HistoryExpiry::Drop, &settings).await;
    let (outcome, _, error) = worker.run("sched.retention", &json!({})).await;
    assert_eq!(outcome, "COMPLETED", "{error}");
    let backup = "SELECT is_enabled FROM scheduled_jobs WHERE name = 'sched.backup'";
    assert_eq!(worker.text(backup).await, "false");
    worker.stop().await;
}

//! A migrated database, with shortcuts to fill and read it.
//!
//! Everything here panics on failure. Rows inserted by plain SQL keep the counters of the jobs
//! correct, so that tests may compare them.

use std::time::Duration;

use sched_model::definitions::functions::{self, FunctionSettings};
use sched_model::dispatching::trigger::{self, Demands, Fate, Order};
use sched_model::domain::dependency::AfterMode;
use sched_model::domain::dispatch::Trigger;
use sched_model::domain::function::HandlerType;
use sched_model::domain::ids::{DEFAULT_TENANT, JobId, TenantId, WorkerId};
use sched_model::domain::job::{JobSettings, MisfireKind, OverlapPolicy, Scope};
use sched_model::domain::timetable::{CalendarRoll, JobType};
use sched_model::jobs::{self, Job, SaveMode, SavedJob};
use sched_model::running::claims::{self, Claimed};
use sched_model::running::workers::{self, NewWorker};
use sched_model::{Conn, Database, transact};
use serde_json::json;
use test_support::{TestDatabase, wait_for};
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;

/// The tenant that the migrations create.
pub(crate) const TENANT: TenantId = DEFAULT_TENANT;

/// The queue that the migrations create.
pub(crate) const QUEUE: &str = "default";

/// Opens a transaction that may stay idle while the test waits for something else.
pub(crate) const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0";

/// Timeout for a condition on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A database of one test, with the function `noop`.
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) db: TestDatabase,
    client: Client,
}

impl World {
    pub(crate) async fn new() -> Self {
        let db = TestDatabase::new().await;
        let world = Self { database: db.database(), client: db.client().await, db };
        world.function("noop").await;
        world
    }

    /// A connection with the settings of daemons.
    pub(crate) async fn conn(&self) -> Conn {
        self.database.dedicated().await.unwrap()
    }

    pub(crate) async fn sql(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// The rows of a query as text; NULL is `-`.
    pub(crate) async fn rows(&self, query: &str) -> Vec<Vec<String>> {
        rows(&self.client, query).await
    }

    /// The single value of a query as text.
    pub(crate) async fn text(&self, query: &str) -> String {
        let rows = self.rows(query).await;
        assert_eq!((rows.len(), rows.first().map(Vec::len)), (1, Some(1)), "{query} gives {rows:?}");
        rows[0][0].clone()
    }

    /// The single value of a query as a number.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let text = self.text(query).await;
        text.parse().unwrap_or_else(|error| panic!("{query} gives {text}: {error}"))
    }

    /// Waits until a query returns the wanted count.
    pub(crate) async fn wait_for_count(&self, what: &str, query: &str, wanted: i64) {
        wait_for(what, PATIENCE, async || match self.number(query).await {
            found if found == wanted => Ok(()),
            found => Err(format!("{query} gives {found}, not {wanted}")),
        })
        .await;
    }

    /// Waits until that many sessions of this database wait for a lock.
    pub(crate) async fn wait_for_blocked(&self, sessions: i64) {
        let blocked = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.wait_for_count("sessions wait for locks", blocked, sessions).await;
    }

    /// Saves a function of that name with defaults.
    pub(crate) async fn function(&self, name: &str) {
        let mut conn = self.conn().await;
        functions::save(&mut conn, TENANT, &function(name)).await.unwrap();
    }

    pub(crate) async fn queue(&self, name: &str) {
        self.sql(&format!("INSERT INTO queues (tenant_id, name) VALUES ('{TENANT}', '{name}')")).await;
    }

    /// Creates or changes a job.
    pub(crate) async fn save(&self, settings: &JobSettings) -> SavedJob {
        let mut conn = self.conn().await;
        transact(&mut conn, "test_save", async |conn: &mut Conn| {
            jobs::save(conn, TENANT, settings, SaveMode::Upsert, "tests").await
        })
        .await
        .unwrap()
    }

    /// Saves a job of that name with defaults.
    pub(crate) async fn job(&self, name: &str) -> Job {
        self.save(&settings(name)).await.job
    }

    /// Creates that many runs of a job that have waited in `queue` for a minute.
    pub(crate) async fn dispatches(&self, job: JobId, queue: &str, count: i64) {
        self.sql(&format!(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, triggered_by,
                                       trigger_id, args)
             SELECT u.id, '{TENANT}', '{job}', now() - interval '1 minute', now() - interval '1 minute',
                    now() - interval '1 minute', '{queue}', 'api', u.id, '{{}}'
             FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, {count})) AS u;
             UPDATE scheduled_jobs SET active_dispatches = active_dispatches + {count} WHERE id = '{job}'"
        ))
        .await;
    }

    /// Registers a worker that serves [`QUEUE`].
    pub(crate) async fn worker(&self) -> WorkerId {
        let mut conn = self.conn().await;
        let worker = new_worker();
        workers::register(&mut conn, &worker, None).await.unwrap();
        worker.worker_id
    }

    /// Claims for a worker from [`QUEUE`].
    pub(crate) async fn claim(&self, worker: WorkerId, limit: u32) -> Vec<Claimed> {
        let mut conn = self.conn().await;
        claims::claim(&mut conn, worker, &[QUEUE.to_owned()], limit).await.unwrap()
    }

    /// One running attempt: a job, its run, and the worker that claimed it.
    pub(crate) async fn running(&self, name: &str) -> Claimed {
        let job = self.job(name).await;
        self.dispatches(job.id, QUEUE, 1).await;
        let worker = self.worker().await;
        self.claim(worker, 1).await.pop().unwrap()
    }
}

/// The rows of a query as text; NULL is `-`.
pub(crate) async fn rows(client: &Client, query: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(query).await.unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).unwrap_or("-").to_owned()).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// A registration under a new id.
pub(crate) fn new_worker() -> NewWorker {
    NewWorker {
        worker_id: WorkerId(Uuid::new_v4()),
        hostname: "test".into(),
        platform: "linux/x86_64".into(),
        process_id: 1,
        version: "0.0.0".into(),
        queues: vec![QUEUE.into()],
        concurrency: 8,
        lease_ms: 1,
    }
}

/// A function that runs `true`.
pub(crate) fn function(name: &str) -> FunctionSettings {
    FunctionSettings {
        name: name.into(),
        display_name: name.into(),
        description: String::new(),
        handler_type: HandlerType::Process,
        handler_config: json!({"command": ["true"]}),
        queue: QUEUE.into(),
        default_timeout_seconds: 60,
        retry_policy: None,
        args_schema: None,
    }
}

/// An hourly job that runs `noop`.
pub(crate) fn settings(name: &str) -> JobSettings {
    JobSettings {
        name: name.into(),
        description: String::new(),
        scope: Scope::Project,
        project: Some("default".into()),
        function: "noop".into(),
        task_args: json!({"n": 1}),
        job_type: JobType::Interval,
        schedule_config: json!({"hours": 1}),
        timezone: "UTC".into(),
        dst_gap: None,
        dst_overlap: None,
        start_at: None,
        end_at: None,
        max_runs: None,
        jitter_seconds: 0,
        calendars: Vec::new(),
        calendar_roll: CalendarRoll::Skip,
        expected_duration_seconds: None,
        after: Vec::new(),
        after_mode: AfterMode::All,
        misfire_policy: MisfireKind::FireOnce,
        misfire_grace_seconds: None,
        misfire_cap: 100,
        max_instances: 1,
        overlap_policy: OverlapPolicy::Allow,
        queue: None,
        priority: None,
        timeout_seconds: None,
        start_within_seconds: None,
        retry_policy: None,
        is_enabled: true,
    }
}

/// Triggers a job in its own transaction, with arguments or those of the job.
pub(crate) async fn trigger_alone(world: &World, job: JobId, args: Option<&serde_json::Value>) -> Fate {
    let id = job.to_string();
    let order = Order {
        job: &id,
        may_run_built_in: true,
        user: "tests",
        args,
        traceparent: Some("00-a-b-01"),
        actor: "tests via key",
        request: "r-1",
        address: Some("192.0.2.1"),
    };
    let work = async |conn: &mut Conn| {
        trigger::trigger(conn, TENANT, Trigger::Api, &order, Demands::default()).await
    };
    transact(&mut world.conn().await, "test_trigger", work).await.unwrap()
}

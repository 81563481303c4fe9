//! A migrated database with a leader, and helpers that fill and query it.
//!
//! Every helper panics on failure.

use std::time::Duration;

use sched_model::cluster::leadership::{self, NewInstance, TakeOver};
use sched_model::domain::ids::{DEFAULT_TENANT, InstanceId, Term, WorkerId};
use sched_model::running::claims::{self, Claimed};
use sched_model::running::workers::{self, NewWorker};
use sched_model::{Conn, Database};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use sched_runtime::traces::Traces;
use sched_scheduler::tasks::Scope;
use test_support::{Client, TestDatabase};
use uuid::Uuid;

/// The queue that the migrations create.
pub(crate) const QUEUE: &str = "default";

/// Silence after which a worker counts as lost.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A database with a leader.
pub(crate) struct World {
    pub(crate) database: Database,
    /// The scope of the leader's tasks.
    pub(crate) scope: Scope,
    client: Client,
    db: TestDatabase,
}

impl World {
    pub(crate) async fn new() -> Self {
        let db = TestDatabase::new().await;
        let database = db.database();
        let mut conn = database.dedicated().await.unwrap();
        let instance = InstanceId(Uuid::new_v4());
        let new = NewInstance { id: instance, hostname: "test".into(), pid: 1, version: "0.0.0".into() };
        leadership::register(&mut conn, &new).await.unwrap();
        let TakeOver::Leading(term) =
            leadership::take_over(&mut conn, instance, Duration::from_secs(600)).await.unwrap()
        else {
            panic!("somebody leads already");
        };
        let stop = tokio_util::sync::CancellationToken::new();
        let scope = Scope { database: database.clone(), instance, term, stop, traces: Traces::default() };
        let world = Self { database, scope, client: db.client().await, db };
        world
            .sql(&format!(
                "INSERT INTO task_functions (tenant_id, name, display_name, handler_type, handler_config)
                 VALUES ('{DEFAULT_TENANT}', 'noop', 'noop', 'process', '{{}}')"
            ))
            .await;
        world
    }

    /// The scope of a former leader.
    pub(crate) fn deposed(&self) -> Scope {
        Scope { term: Term(self.scope.term.0 - 1), ..self.scope.clone() }
    }

    /// Another connection.
    pub(crate) async fn another(&self) -> Client {
        self.db.client().await
    }

    pub(crate) async fn conn(&self) -> Conn {
        self.database.dedicated().await.unwrap()
    }

    pub(crate) async fn sql(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// The rows of a query in the text format of PostgreSQL: `(a,1,t)`.
    pub(crate) async fn rows(&self, query: &str) -> Vec<String> {
        let query = format!("SELECT q::text FROM ({query}) AS q");
        let rows = self.client.query(&query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error:?}"));
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// The single number that a query returns.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let query = format!("SELECT ({query})::bigint");
        self.client.query_one(&query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error:?}")).get(0)
    }

    /// Creates a manual job with `dispatches` runs that have waited for a minute.
    pub(crate) async fn job(&self, name: &str, dispatches: i32) {
        self.sql(&format!(
            "INSERT INTO scheduled_jobs (tenant_id, project_id, name, task_function_id, job_type, schedule_config, active_dispatches)
             SELECT f.tenant_id, p.id, '{name}', f.id, 'manual', '{{}}', {dispatches}
             FROM task_functions f JOIN projects p ON p.tenant_id = f.tenant_id WHERE f.name = 'noop';
             INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, triggered_by,
                                       trigger_id, args)
             SELECT u.id, j.tenant_id, j.id, u.at, u.at, u.at, '{QUEUE}', 'api', u.id, '{{}}'
             FROM scheduled_jobs j
             CROSS JOIN LATERAL (SELECT gen_random_uuid() AS id, now() - interval '1 minute' AS at
                                 FROM generate_series(1, {dispatches})) AS u
             WHERE j.name = '{name}'"
        ))
        .await;
    }

    /// Registers a worker and claims runs for it.
    pub(crate) async fn claim(&self, limit: u32) -> Vec<Claimed> {
        let mut conn = self.conn().await;
        let worker = NewWorker {
            worker_id: WorkerId(Uuid::new_v4()),
            hostname: "test".into(),
            platform: "linux/x86_64".into(),
            process_id: 1,
            version: "0.0.0".into(),
            queues: vec![QUEUE.into()],
            concurrency: 8,
            lease_ms: 1,
        };
        workers::register(&mut conn, &worker, None).await.unwrap();
        claims::claim(&mut conn, worker.worker_id, &[QUEUE.to_owned()], limit).await.unwrap()
    }

    /// The event types so far, oldest first, without the take-over of the fixture's leader.
    pub(crate) async fn events(&self) -> Vec<String> {
        let told = "SELECT event_type FROM events WHERE event_type NOT IN ('leader_changed', 'worker_online') ORDER BY id";
        let rows = self.rows(told).await;
        rows.iter().map(|row| row.trim_matches(['(', ')']).to_owned()).collect()
    }
}

pub(crate) async fn run(task: &mut impl Activation) -> Report {
    task.run_once().await.unwrap()
}

/// Asserts that the fence rejected a task of a former leader.
#[track_caller]
pub(crate) fn assert_refused(result: &Result<Report, BoxError>) {
    let text = result.as_ref().map_err(ToString::to_string);
    assert_eq!(text.map(drop), Err("the term of leadership is over".to_owned()));
}

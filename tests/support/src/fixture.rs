//! A migrated private database, with builders that fill it and helpers that query it.
//!
//! [`Fixture`] uses the public API of `sched-model` and plain SQL; a test builds a scheduler, an
//! API or a worker over it. Everything panics on failure. Rows by plain SQL keep the counters of
//! the jobs correct. All rows belong to [`TENANT`], except those of a test's own SQL.

mod endings;
mod functions;
mod jobs;
mod runs;

use std::time::Duration;

use sched_model::cluster::leadership::{self, NewInstance, TakeOver};
use sched_model::domain::ids::{DEFAULT_TENANT, InstanceId, TenantId, Term, WorkerId};
use sched_model::running::claims::{self, Claimed};
use sched_model::running::workers::{self, NewWorker};
use sched_model::{Conn, Database};
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;

use crate::{TestDatabase, wait_for};

pub use self::endings::{EndedBuilder, ended};
pub use self::functions::{FunctionBuilder, function};
pub use self::jobs::{JobBuilder, settings};
pub use self::runs::RunsBuilder;

pub const TENANT: TenantId = DEFAULT_TENANT;

pub const QUEUE: &str = "default";

/// The transaction may stay idle while the test waits.
pub const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0";

/// Timeout for a condition on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A leader keeps its term during a test.
const LEASE: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub struct Fixture {
    pub database: Database,
    pub db: TestDatabase,
    client: Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    pub instance: InstanceId,
    pub term: Term,
}

impl Fixture {
    /// A new database with the function `noop`, which runs `true`.
    pub async fn new() -> Self {
        let fixture = Self::bare().await;
        fixture.function("noop").save().await;
        fixture
    }

    /// Has the rows of the migrations only.
    pub async fn bare() -> Self {
        Self::on(TestDatabase::new().await).await
    }

    /// As [`Self::bare`], on a [`TestDatabase::installed`].
    pub async fn installed() -> Self {
        Self::on(TestDatabase::installed().await).await
    }

    /// Uses an existing database, without inserting rows.
    pub async fn on(db: TestDatabase) -> Self {
        Self { database: db.database(), client: db.client().await, db }
    }

    /// A new connection with the settings of daemons.
    pub async fn conn(&self) -> Conn {
        self.database
            .dedicated()
            .await
            .unwrap_or_else(|error| panic!("cannot connect to {}: {error}", self.db.name()))
    }

    /// A new connection for plain SQL.
    pub async fn client(&self) -> Client {
        self.db.client().await
    }

    pub async fn sql(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// The rows as text; NULL is `-`.
    pub async fn rows(&self, query: &str) -> Vec<Vec<String>> {
        rows(&self.client, query).await
    }

    /// The rows in PostgreSQL's text format: `(a,1,t)`.
    pub async fn records(&self, query: &str) -> Vec<String> {
        let rows = self.rows(&format!("SELECT q::text FROM ({query}) AS q")).await;
        rows.into_iter().flatten().collect()
    }

    /// The single value as text; NULL is `-`.
    pub async fn text(&self, query: &str) -> String {
        let mut rows = self.rows(query).await;
        assert_eq!((rows.len(), rows.first().map(Vec::len)), (1, Some(1)), "{query} gives {rows:?}");
        rows.remove(0).remove(0)
    }

    pub async fn number(&self, query: &str) -> i64 {
        let text = self.text(query).await;
        text.parse().unwrap_or_else(|error| panic!("{query} gives {text}: {error}"))
    }

    pub async fn wait_for_count(&self, what: &str, query: &str, wanted: i64) {
        wait_for(what, PATIENCE, async || match self.number(query).await {
            found if found == wanted => Ok(()),
            found => Err(format!("{query} gives {found}, not {wanted}")),
        })
        .await;
    }

    /// Waits until that many sessions of this database wait for a lock.
    pub async fn wait_for_blocked(&self, sessions: i64) {
        let blocked = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.wait_for_count("sessions wait for locks", blocked, sessions).await;
    }

    pub async fn queue(&self, name: &str) {
        self.sql(&format!(
            "INSERT INTO queues (tenant_id, name) VALUES ('{TENANT}', '{name}') ON CONFLICT DO NOTHING"
        ))
        .await;
    }

    /// Registers a scheduler and makes it the leader.
    pub async fn lead(&self) -> Leader {
        let mut conn = self.conn().await;
        let instance = InstanceId(Uuid::new_v4());
        let new = NewInstance { id: instance, hostname: "test".into(), pid: 1, version: "0.0.0".into() };
        leadership::register(&mut conn, &new)
            .await
            .unwrap_or_else(|error| panic!("cannot register {instance}: {error:?}"));
        match leadership::take_over(&mut conn, instance, LEASE).await {
            Ok(TakeOver::Leading(term)) => Leader { instance, term },
            Ok(TakeOver::Held) => panic!("another instance leads already"),
            Err(error) => panic!("{instance} cannot take over: {error:?}"),
        }
    }

    /// Registers a worker that serves [`QUEUE`].
    pub async fn worker(&self) -> WorkerId {
        let worker = new_worker();
        workers::register(&mut self.conn().await, &worker, None)
            .await
            .unwrap_or_else(|error| panic!("cannot register {}: {error:?}", worker.worker_id));
        worker.worker_id
    }

    /// Claims up to `limit` runs of [`QUEUE`] for a worker.
    pub async fn claim(&self, worker: WorkerId, limit: u32) -> Vec<Claimed> {
        claims::claim(&mut self.conn().await, worker, &[QUEUE.to_owned()], limit)
            .await
            .unwrap_or_else(|error| panic!("{worker} cannot claim: {error:?}"))
    }

    /// One running attempt: a job, its run, and the worker with the claim.
    pub async fn running(&self, name: &str) -> Claimed {
        let job = self.job(name).save().await;
        self.runs(job.id).insert().await;
        let worker = self.worker().await;
        self.claim(worker, 1).await.pop().unwrap_or_else(|| panic!("the run of {name} was not claimed"))
    }
}

/// The rows as text; NULL is `-`.
pub async fn rows(client: &Client, query: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(query).await.unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).unwrap_or("-").to_owned()).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

pub fn new_worker() -> NewWorker {
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

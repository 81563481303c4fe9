//! One installation for a test: a separate database and the real daemons, which tests start, pause
//! and kill.
//!
//! It is an installation as documented: the owner of the tables is not a superuser, and each
//! daemon has a separate login. Tests read and damage rows as the superuser.
//!
//! Tests create jobs through the API. They read the results with plain SQL, independent of the code
//! under test. Dropping the installation kills every process, also after a panic.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails at the place where a precondition is missing"
)]

mod checks;
mod counting;
mod effects;
mod ends;
mod finished;
mod finished_checks;
mod installation_checks;
mod invariant;
mod lateness;
mod manifests;
pub mod processes;
mod skip_checks;
mod verdict;
mod witness;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use test_support::{Client, Finished, Login, Process, TestDatabase, http, wait_for};

pub use effects::{Effects, Frozen};
pub use finished::FinishedRun;
pub use manifests::{every, manual, retried, shell_jobs};
pub use verdict::Verdict;
pub use witness::install as install_witness;

/// Long, because test machines may be slow. A condition that holds ends the wait at once.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Installation {
    pub database: TestDatabase,
    pub api: Option<Process>,
    pub schedulers: Vec<Process>,
    pub workers: Vec<Process>,
    api_addr: Option<SocketAddr>,
    sql: Client,
}

impl Installation {
    pub async fn new() -> Self {
        Self::on(TestDatabase::installed().await).await
    }

    /// Takes a database as it is, with the logins of [`TestDatabase::installed`], and starts no daemon.
    pub async fn on(database: TestDatabase) -> Self {
        let sql = database.client().await;
        witness::install(&sql).await;
        Self { database, api: None, schedulers: Vec::new(), workers: Vec::new(), api_addr: None, sql }
    }

    /// Starts one API, `schedulers` schedulers and `workers` workers, and waits until all are
    /// ready.
    pub async fn with(schedulers: usize, workers: usize) -> Self {
        let mut installation = Self::new().await;
        installation.start_api().await;
        for _ in 0..schedulers {
            installation.start_scheduler(&[]).await;
        }
        for _ in 0..workers {
            installation.start_worker(&[]).await;
        }
        installation
    }

    fn launch(&self, program: &str, settings: &[(&str, &str)]) -> test_support::Launch {
        let login = Login::of(program);
        let launch = Process::daemon(program).env("DATABASE_URL", self.database.url_of(login));
        settings.iter().fold(launch, |launch, (name, value)| match *name {
            "DATABASE_URL" => launch.env(name, login.in_url(value)),
            name => launch.env(name, value),
        })
    }

    pub async fn start_api(&mut self) {
        self.start_api_with(&[]).await;
    }

    pub async fn start_api_with(&mut self, settings: &[(&str, &str)]) {
        test_support::identity::install(&self.sql).await;
        let mut api = self.launch("sched-api", &[&[("API_PORT", "0")][..], settings].concat()).start();
        self.api_addr = Some(ready(&mut api).await);
        self.api = Some(api);
    }

    /// Starts a scheduler with a short lease; returns its position.
    pub async fn start_scheduler(&mut self, settings: &[(&str, &str)]) -> usize {
        self.start_schedulers(1, settings).await;
        self.schedulers.len() - 1
    }

    /// Starts several schedulers at the same moment, with a short lease.
    pub async fn start_schedulers(&mut self, count: usize, settings: &[(&str, &str)]) {
        let quick = [
            ("HEALTH_PORT", "0"),
            ("LEADER_LEASE", "2s"),
            ("LEADER_HEARTBEAT_INTERVAL", "200ms"),
            ("WORKER_OFFLINE_THRESHOLD", "3s"),
        ];
        let launch = self.launch("sched-scheduler", &[&quick[..], settings].concat());
        let mut started: Vec<Process> = (0..count).map(|_| launch.clone().start()).collect();
        for scheduler in &mut started {
            ready(scheduler).await;
        }
        self.schedulers.extend(started);
    }

    /// Starts a worker with a short lease; returns its position.
    pub async fn start_worker(&mut self, settings: &[(&str, &str)]) -> usize {
        let quick = [
            ("HEALTH_PORT", "0"),
            ("WORKER_OFFLINE_THRESHOLD", "3s"),
            ("WORKER_HEARTBEAT_INTERVAL", "300ms"),
            ("WORKER_MAX_POLL_INTERVAL", "2s"),
        ];
        let mut worker = self.launch("sched-worker", &[&quick[..], settings].concat()).start();
        ready(&mut worker).await;
        self.workers.push(worker);
        self.workers.len() - 1
    }

    /// # Panics
    /// When the API was not started.
    #[must_use]
    pub fn api_addr(&self) -> SocketAddr {
        self.api_addr.expect("the API was started")
    }

    /// # Panics
    /// When the API rejects the manifest.
    pub async fn apply(&self, manifest: &Value) {
        let answer = http::post(self.api_addr(), "/api/v1/apply", manifest).await.expect("the API answers");
        assert_eq!(answer.status, 200, "{}", answer.json());
    }

    /// Returns the id of the dispatch.
    ///
    /// # Panics
    /// When the API rejects the request.
    pub async fn trigger(&self, job: &str) -> String {
        let path = format!("/api/v1/jobs/{job}/trigger");
        let answer = http::post(self.api_addr(), &path, &json!({})).await.expect("the API answers");
        assert_eq!(answer.status, 202, "{}", answer.json());
        answer.json()["run_id"].as_str().expect("the answer has a run id").to_owned()
    }

    /// # Panics
    /// When the answer is not 200.
    pub async fn get(&self, path: &str) -> Value {
        let answer = http::get(self.api_addr(), path).await.expect("the API answers");
        assert_eq!(answer.status, 200, "{path}: {}", answer.json());
        answer.json()
    }

    /// # Panics
    /// When the statement fails.
    pub async fn count(&self, sql: &str) -> i64 {
        let row = self
            .sql
            .query_one(&format!("SELECT ({sql})::bigint"), &[])
            .await
            .expect("the statement is sound");
        row.get::<_, Option<i64>>(0).unwrap_or(0)
    }

    /// Reads a number with a fraction. An instant is read as seconds (`extract(epoch FROM …)`).
    ///
    /// # Panics
    /// When the statement fails or gives NULL.
    pub async fn number(&self, sql: &str) -> f64 {
        let row = self.sql.query_one(&format!("SELECT ({sql})::double precision"), &[]).await;
        row.expect("the statement is sound").get(0)
    }

    /// # Panics
    /// When the statement fails or gives NULL.
    pub async fn text(&self, sql: &str) -> String {
        self.sql
            .query_one(&format!("SELECT ({sql})::text"), &[])
            .await
            .expect("the statement is sound")
            .get(0)
    }

    /// Every row of every table as text.
    ///
    /// # Panics
    /// When a table cannot be read.
    pub async fn all_rows(&self) -> String {
        let tables = "SELECT coalesce(string_agg(format('SELECT t::text FROM %I.%I t', schemaname, tablename), ' UNION ALL '), '')
                      FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
        let every_row = self.text(tables).await;
        self.text(&format!("SELECT coalesce(string_agg(r.line, E'\n'), '') FROM ({every_row}) AS r (line)"))
            .await
    }

    /// The clock of the database, in seconds since the epoch.
    pub async fn now(&self) -> f64 {
        self.number("extract(epoch FROM clock_timestamp())").await
    }

    /// Waits until a number is at least `least`.
    pub async fn wait_count(&self, what: &str, sql: &str, least: i64) -> i64 {
        wait_for(what, PATIENCE, async || {
            let seen = self.count(sql).await;
            if seen >= least { Ok(seen) } else { Err(format!("{seen} of {least}")) }
        })
        .await
    }

    /// # Panics
    /// When the statement fails.
    pub async fn execute(&self, sql: &str) {
        self.sql.batch_execute(sql).await.expect("the statement is sound");
    }

    pub async fn leader(&self) -> usize {
        wait_for("a leader among the schedulers", PATIENCE, async || {
            let pid = self.count("SELECT pid FROM scheduler_instances WHERE is_leader").await;
            let position = self.schedulers.iter().position(|scheduler| i64::from(scheduler.id()) == pid);
            position.ok_or_else(|| format!("the leader's process is {pid}"))
        })
        .await
    }

    /// Returns the next term and its begin, in seconds since the epoch.
    pub async fn wait_term_after(&self, term: i64) -> (i64, f64) {
        let next = format!("SELECT min(term) FROM leader_terms WHERE term > {term}");
        let next = self.wait_count("the next term", &next, term + 1).await;
        let began = format!("SELECT extract(epoch FROM started_at) FROM leader_terms WHERE term = {next}");
        (next, self.number(&began).await)
    }

    pub async fn term(&self) -> i64 {
        self.count("SELECT max(term) FROM leader_terms").await
    }

    /// Reads the status from the scheduler itself, not from the database.
    ///
    /// # Panics
    /// When the scheduler does not answer.
    pub async fn scheduler_status(&mut self, position: usize) -> Value {
        let health = self.schedulers[position].health_addr().await;
        let answer = http::get(health, "/status").await.expect("the scheduler answers");
        answer.json()["status"].clone()
    }

    /// # Panics
    /// When the scheduler does not answer.
    pub async fn scheduler_metrics(&mut self, position: usize) -> String {
        let health = self.schedulers[position].health_addr().await;
        http::get(health, "/metrics").await.expect("the scheduler answers").body
    }

    /// # Panics
    /// When `schedctl` does not end.
    pub async fn schedctl(&self, arguments: &[&str]) -> Finished {
        let api = format!("http://{}", self.api_addr());
        let schedctl = Process::program("schedctl").env("SCHED_API_URL", api);
        schedctl.env("SCHED_API_KEY", test_support::identity::api_key()).args(arguments).run(PATIENCE).await
    }

    /// Reconnects for plain SQL, after an outage of the database.
    pub async fn reconnect(&mut self) {
        self.sql = self.database.client().await;
    }
}

async fn ready(process: &mut Process) -> SocketAddr {
    let health = process.health_addr().await;
    wait_for("the daemon to be ready", PATIENCE, async || match http::get(health, "/health/ready").await {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => Err(answer.json().to_string()),
        Err(error) => Err(error.to_string()),
    })
    .await;
    health
}

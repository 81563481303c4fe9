//! One installation for a test: a database of its own and the real daemons, started, paused and killed at will.
//!
//! Jobs go in through the API, as users put them in; what came of them is read with plain SQL, by other code than that under
//! test. Every process is killed when the installation is dropped, also by a panic.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get what it needs fails, and says where"
)]

mod checks;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use test_support::{Client, Process, TestDatabase, http, wait_for};

/// Generous: machines that run tests are slow at times, and a condition that holds ends the wait at once.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A database and the daemons on it.
#[derive(Debug)]
pub struct Installation {
    /// The database.
    pub database: TestDatabase,
    /// The API, once started.
    pub api: Option<Process>,
    /// The schedulers.
    pub schedulers: Vec<Process>,
    /// The workers.
    pub workers: Vec<Process>,
    api_addr: Option<SocketAddr>,
    sql: Client,
}

impl Installation {
    /// An empty database with the schema, and no daemon.
    pub async fn new() -> Self {
        let database = TestDatabase::new().await;
        let sql = database.client().await;
        Self { database, api: None, schedulers: Vec::new(), workers: Vec::new(), api_addr: None, sql }
    }

    /// One API, `schedulers` schedulers and `workers` workers, all ready.
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
        let launch = Process::daemon(program).env("DATABASE_URL", self.database.url());
        settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value))
    }

    /// Starts the API on a free port.
    pub async fn start_api(&mut self) {
        let mut api = self.launch("sched-api", &[("API_PORT", "0")]).start();
        self.api_addr = Some(ready(&mut api).await);
        self.api = Some(api);
    }

    /// Starts a scheduler with a short lease; returns its position.
    pub async fn start_scheduler(&mut self, settings: &[(&str, &str)]) -> usize {
        let quick = [
            ("HEALTH_PORT", "0"),
            ("LEADER_LEASE", "2s"),
            ("LEADER_HEARTBEAT_INTERVAL", "200ms"),
            ("WORKER_OFFLINE_THRESHOLD", "3s"),
        ];
        let mut scheduler = self.launch("sched-scheduler", &[&quick[..], settings].concat()).start();
        ready(&mut scheduler).await;
        self.schedulers.push(scheduler);
        self.schedulers.len() - 1
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

    /// Where the API listens.
    ///
    /// # Panics
    /// When it was not started.
    #[must_use]
    pub fn api_addr(&self) -> SocketAddr {
        self.api_addr.expect("the API was started")
    }

    /// Applies a manifest through the API.
    ///
    /// # Panics
    /// When the API refuses it.
    pub async fn apply(&self, manifest: &Value) {
        let answer = http::post(self.api_addr(), "/api/v1/apply", manifest).await.expect("the API answers");
        assert_eq!(answer.status, 200, "{}", answer.json());
    }

    /// Triggers a job through the API; returns the dispatch.
    ///
    /// # Panics
    /// When the API refuses it.
    pub async fn trigger(&self, job: &str) -> String {
        let path = format!("/api/v1/jobs/{job}/trigger");
        let answer = http::post(self.api_addr(), &path, &json!({})).await.expect("the API answers");
        assert_eq!(answer.status, 202, "{}", answer.json());
        answer.json()["dispatch_id"].as_str().expect("an id").to_owned()
    }

    /// Reads from the API.
    ///
    /// # Panics
    /// When the answer is not 200.
    pub async fn get(&self, path: &str) -> Value {
        let answer = http::get(self.api_addr(), path).await.expect("the API answers");
        assert_eq!(answer.status, 200, "{path}: {}", answer.json());
        answer.json()
    }

    /// A single number from plain SQL.
    ///
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

    /// Waits until a number from plain SQL is at least `least`.
    pub async fn wait_count(&self, what: &str, sql: &str, least: i64) -> i64 {
        wait_for(what, PATIENCE, async || {
            let seen = self.count(sql).await;
            if seen >= least { Ok(seen) } else { Err(format!("{seen} of {least}")) }
        })
        .await
    }

    /// Runs a statement for its effect.
    ///
    /// # Panics
    /// When it fails.
    pub async fn execute(&self, sql: &str) {
        self.sql.batch_execute(sql).await.expect("the statement is sound");
    }

    /// The position of the scheduler that leads.
    pub async fn leader(&self) -> usize {
        wait_for("a leader among the schedulers", PATIENCE, async || {
            let pid = self.count("SELECT pid FROM scheduler_instances WHERE is_leader").await;
            let position = self.schedulers.iter().position(|scheduler| i64::from(scheduler.id()) == pid);
            position.ok_or_else(|| format!("the leader's process is {pid}"))
        })
        .await
    }

    /// Checks every invariant that can be read from the tables; see `PROTOCOL`, "Invariants".
    ///
    /// # Panics
    /// When one does not hold, naming it and its rows.
    pub async fn check_invariants(&self) {
        checks::all(&self.sql).await;
    }
}

/// Waits until a daemon says where it listens and that it is ready.
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

/// A manifest with one function that runs a shell command and `jobs`, each of them running it.
#[must_use]
pub fn shell_jobs(command: &str, jobs: &[Value]) -> Value {
    let jobs: Vec<Value> = jobs
        .iter()
        .map(|job| {
            let mut job = job.clone();
            job["function"] = json!("command");
            job
        })
        .collect();
    json!({
        "task_functions": [{
            "name": "command",
            "handler_type": "process",
            "handler_config": {"shell": true, "command": command, "grace_seconds": 1},
        }],
        "jobs": jobs,
    })
}

/// A manual job.
#[must_use]
pub fn manual(name: &str) -> Value {
    json!({"name": name, "job_type": "manual"})
}

/// A job that fires every `seconds`.
#[must_use]
pub fn every(name: &str, seconds: u32) -> Value {
    json!({"name": name, "job_type": "interval", "schedule_config": {"seconds": seconds}})
}

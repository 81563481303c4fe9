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
mod effects;
mod ends;
mod finished;
mod finished_checks;
mod lateness;
pub mod processes;
mod skip_checks;
mod verdict;
mod witness;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use test_support::{Client, Finished, Process, TestDatabase, http, wait_for};

use crate::finished_checks::{OF_RUN, OF_STREAM};
pub use effects::{Effects, Frozen};
pub use finished::FinishedRun;
pub use verdict::Verdict;
pub use witness::install as install_witness;

/// Generous: machines that run tests are slow at times, and a condition that holds ends the wait at once.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Files that a worker may have open more than when it was ready: its connections to the database.
const SPARE_FILES: usize = 12;

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
        Self::on(TestDatabase::new().await).await
    }

    /// A database as it is, and no daemon.
    pub async fn on(database: TestDatabase) -> Self {
        let sql = database.client().await;
        witness::install(&sql).await;
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
        self.start_api_with(&[]).await;
    }

    /// Starts the API on a free port with more settings.
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
        answer.json()["run_id"].as_str().expect("an id").to_owned()
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

    /// A single number with its fraction from plain SQL; instants as seconds (`extract(epoch FROM …)`).
    ///
    /// # Panics
    /// When the statement fails or gives NULL.
    pub async fn number(&self, sql: &str) -> f64 {
        let row = self.sql.query_one(&format!("SELECT ({sql})::double precision"), &[]).await;
        row.expect("the statement is sound").get(0)
    }

    /// A single text from plain SQL.
    ///
    /// # Panics
    /// When the statement fails or gives NULL.
    pub async fn text(&self, sql: &str) -> String {
        self.sql
            .query_one(&format!("SELECT ({sql})::text"), &[])
            .await
            .expect("the statement is sound")
            .get(0)
    }

    /// Every row of every table, as text.
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

    /// The database's clock, in seconds.
    pub async fn now(&self) -> f64 {
        self.number("extract(epoch FROM clock_timestamp())").await
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

    /// Waits until somebody leads with a later term than `term`, which is returned; with the instant at which that began, in
    /// seconds.
    pub async fn wait_term_after(&self, term: i64) -> (i64, f64) {
        let next = format!("SELECT min(term) FROM leader_terms WHERE term > {term}");
        let next = self.wait_count("the next term", &next, term + 1).await;
        let began = format!("SELECT extract(epoch FROM started_at) FROM leader_terms WHERE term = {next}");
        (next, self.number(&began).await)
    }

    /// The latest term there has been.
    pub async fn term(&self) -> i64 {
        self.count("SELECT max(term) FROM leader_terms").await
    }

    /// What a scheduler says about itself, without asking the database.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn scheduler_status(&mut self, position: usize) -> Value {
        let health = self.schedulers[position].health_addr().await;
        let answer = http::get(health, "/status").await.expect("the scheduler answers");
        answer.json()["status"].clone()
    }

    /// The metrics of a scheduler.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn scheduler_metrics(&mut self, position: usize) -> String {
        let health = self.schedulers[position].health_addr().await;
        http::get(health, "/metrics").await.expect("the scheduler answers").body
    }

    /// Runs `schedctl` against the API.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn schedctl(&self, arguments: &[&str]) -> Finished {
        let api = format!("http://{}", self.api_addr());
        let schedctl = Process::program("schedctl").env("SCHED_API_URL", api);
        schedctl.env("SCHED_API_KEY", test_support::identity::api_key()).args(arguments).run(PATIENCE).await
    }

    /// Connects anew for plain SQL, after the database was away.
    pub async fn reconnect(&mut self) {
        self.sql = self.database.client().await;
    }

    /// Checks every invariant that can be read from the tables; see `PROTOCOL`, "Invariants".
    ///
    /// # Panics
    /// When one does not hold, naming it and its rows.
    pub async fn check_invariants(&self) {
        let broken = self.broken_invariants().await;
        assert!(broken.is_empty(), "broken invariants: {broken:#?}");
    }

    /// The invariants that do not hold, each by its name and with some of the rows that break it.
    pub async fn broken_invariants(&self) -> Vec<String> {
        checks::broken(&self.sql, checks::OF_HISTORY).await
    }

    /// Like [`Self::broken_invariants`], and what the effects of the jobs say besides.
    pub async fn broken_with_effects(&self, effects: &Effects, frozen: &[Frozen]) -> Vec<String> {
        let mut broken = self.broken_invariants().await;
        broken.extend(effects.broken(&self.sql, frozen).await);
        broken
    }

    /// Checks what is left after a fault, once all work is done: the invariants, the effects, and that no process of any job, no zombie
    /// and no more open files than `files` for each worker remain.
    ///
    /// # Panics
    /// When something does not hold.
    pub async fn check_what_is_left(&mut self, effects: &Effects, frozen: &[Frozen], files: usize) {
        self.check_machine(&effects.mark(), files).await;
        let broken = self.broken_with_effects(effects, frozen).await;
        assert!(broken.is_empty(), "broken: {broken:#?}");
    }

    /// Checks what is left on the machine, once all work is done: no process in whose environment or command line `mark` stands, no zombie
    /// and no more open files than `files` for each worker.
    ///
    /// # Panics
    /// When something is left.
    pub async fn check_machine(&mut self, mark: &str, files: usize) {
        wait_for("no process of any job", PATIENCE, async || match processes::marked(mark) {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        })
        .await;
        for worker in &mut self.workers {
            if worker.exited().is_some() {
                continue;
            }
            let worker = worker.id();
            wait_for("the worker to have let go of everything", PATIENCE, async || {
                let (zombies, open) = (processes::zombies_of(worker), processes::open_files(worker));
                if zombies.is_empty() && open <= files {
                    Ok(())
                } else {
                    Err(format!("{zombies:?}, {open} files"))
                }
            })
            .await;
        }
    }

    /// The same, of jobs whose private directories are made in `place` (`WORKER_TEMP_DIR`): the variables of each of their processes name one,
    /// and those of the workers name the place alone.
    ///
    /// # Panics
    /// When something is left.
    pub async fn check_machine_below(&mut self, place: &Path, files: usize) {
        self.check_machine(&format!("{}/sched-", place.display()), files).await;
    }

    /// How many files a worker may have open when all is done that was begun from here on: those it has, and connections that its pool makes
    /// meanwhile.
    ///
    /// # Panics
    /// When there is no worker that runs.
    #[must_use]
    pub fn files_of_workers(&self) -> usize {
        let open = self.workers.iter().map(|worker| processes::open_files(worker.id()));
        open.max().expect("a worker") + SPARE_FILES
    }

    /// The names of all invariants that are checked.
    #[must_use]
    pub fn invariants() -> Vec<&'static str> {
        checks::names().collect()
    }

    /// Makes the schema `run`, in which stands what is known of a run besides its database, and where nothing does yet.
    pub async fn prepare_run(&self) {
        finished::prepare(&self.sql).await;
    }

    /// The invariants of a whole run that do not hold by what stands in the schema `run`.
    pub async fn broken_of_run(&self) -> Vec<String> {
        checks::broken(&self.sql, OF_RUN.iter().chain(OF_STREAM)).await
    }

    /// The names of the invariants of a whole run.
    #[must_use]
    pub fn invariants_of_run() -> Vec<&'static str> {
        OF_RUN.iter().chain(OF_STREAM).map(|invariant| invariant.name).collect()
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

/// A manual job of which many runs go on at once, and which is retried at once, up to 20 attempts.
#[must_use]
pub fn retried(name: &str) -> Value {
    let policy = json!({"max_attempts": 20, "backoff_seconds": 0, "jitter_percent": 0});
    json!({"name": name, "job_type": "manual", "retry_policy": policy, "overlap_policy": "allow", "max_instances": 100})
}

/// A job that fires every `seconds`.
#[must_use]
pub fn every(name: &str, seconds: u32) -> Value {
    json!({"name": name, "job_type": "interval", "schedule_config": {"seconds": seconds}})
}

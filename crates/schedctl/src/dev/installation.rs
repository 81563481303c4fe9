//! The parts of an installation: PostgreSQL, its schema, the daemons. The module `dev` explains why
//! one future drives everything.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use devdb::StopMode;
use sched_model::domain::ids::DEFAULT_TENANT;
use sched_model::domain::job::check_name;
use sched_model::domain::secret::SecretKeys;
use sched_model::{Database, definitions::queues};
use sched_runtime::config::{ProcessEnvironment, Source as _};
use sched_runtime::exit::{self, ExitError, describe};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::private_file;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::args::DevArgs;
use super::daemon::{Health, Spec, describe_exit};
use super::daemons::{Daemons, Ended, Stage};
use super::log::Log;
use super::ports;
use super::postgres::Postgres;
use super::programs::Programs;
use super::queues::MOST;
use crate::commands::{DEV_ENVIRONMENT, ensure_dev_key, install, prepare, up, wait_for};
use crate::failure::{failure, listen};
use crate::local_install::{self, Description, Folder, ProcessEntry};
use crate::output::{count, with_notices};

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Maximum wait for a connection after the server reported that it is ready.
const DATABASE_LIMIT: Duration = Duration::from_secs(15);
const QUEUES: &str = "WORKER_QUEUES";
const LONGEST_NAME: usize = 100;
/// Maximum number of workers that are started for later queues.
const MOST_ADDED: u16 = 10;
const HEALTHY_LIMIT: Duration = Duration::from_secs(60);
/// Variables of this process for every daemon: generally needed ones, none that configure it.
const PASSED_ON: [&str; 9] =
    ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZDIR", "NO_COLOR", "RUST_BACKTRACE"];

#[derive(Debug)]
pub(super) struct Installation {
    folder: Folder,
    log: Log,
    postgres: Postgres,
    daemons: Daemons,
    api_port: u16,
    served: BTreeSet<String>,
    /// Set once the other daemons run.
    worker: Option<Spec>,
    /// Workers started for later queues.
    added: u16,
}

async fn served(database: &Database, named: BTreeSet<String>) -> Result<BTreeSet<String>, ExitError> {
    let mut conn = database.dedicated().await.map_err(failure)?;
    let kept = queues::settings(&mut conn, DEFAULT_TENANT, None, MOST.into()).await.map_err(failure)?;
    // The API rejects an invalid name; it must not prevent the start of a worker.
    let named = named.into_iter().filter(|name| check_name(name, LONGEST_NAME).is_ok());
    Ok(kept.into_iter().map(|queue| queue.name).chain(named).collect())
}

fn listed<'a>(queues: impl IntoIterator<Item = &'a String>) -> String {
    queues.into_iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

impl Installation {
    pub(super) fn prepare(folder: Folder, log: Log) -> Self {
        let postgres = Postgres::new(&folder.postgres());
        let daemons = Daemons::new(log);
        Self { folder, log, postgres, daemons, api_port: 0, served: BTreeSet::new(), worker: None, added: 0 }
    }

    /// Returns once everything is healthy.
    pub(super) async fn start(
        &mut self,
        args: &DevArgs,
        programs: &Programs,
        named_queues: BTreeSet<String>,
    ) -> Result<(), ExitError> {
        self.api_port = ports::for_api(args.api_port).map_err(listen)?;
        args.check_health_ports().map_err(listen)?;
        self.log.print("Starting PostgreSQL.");
        self.postgres.start().await?;
        let database = prepare(self.postgres.url())?;
        let log = self.log;
        let applied = with_notices(
            move |notice| log.print(notice),
            Box::pin(async {
                drop(wait_for(&database, DATABASE_LIMIT).await?);
                let applied = up(&database).await?;
                install(&database).await?;
                Ok::<_, ExitError>(applied)
            }),
        )
        .await?;
        self.ensure_owner(&database).await?;
        self.served = served(&database, named_queues).await?;
        database.close();
        if !applied.is_empty() {
            self.log.print(&format!("Applied {}.", count(applied.len(), "migration", "migrations")));
        }
        self.start_daemons(args, programs)?;
        self.describe()?;
        self.wait_until_healthy().await
    }

    /// The key is stored in a private file.
    async fn ensure_owner(&self, database: &Database) -> Result<(), ExitError> {
        let ring = private_file::read(&self.folder.secret_keys().map_err(failure)?).map_err(failure)?;
        let ring = SecretKeys::parse(ring.expose_secret()).map_err(failure)?;
        let path = self.folder.api_key();
        let kept = path.exists().then(|| private_file::read(&path)).transpose().map_err(failure)?;
        let keep = |key: &SecretString| {
            self.log.print(&format!("Created an API key in {}.", path.display()));
            self.folder.store_api_key(key).map_err(failure)
        };
        let mut conn = database.dedicated().await.map_err(failure)?;
        ensure_dev_key(&mut conn, &ring, kept.as_ref(), keep).await
    }

    fn start_daemons(&mut self, args: &DevArgs, programs: &Programs) -> Result<(), ExitError> {
        let mut common: Vec<(String, String)> = PASSED_ON
            .iter()
            .filter_map(|name| ProcessEnvironment.get(name).map(|value| ((*name).to_owned(), value)))
            .collect();
        let mut set = |name: &str, value: &str| common.push((name.to_owned(), value.to_owned()));
        set("DATABASE_URL", self.database_url());
        let quiet = if args.verbose { "info" } else { "warn" };
        let level = args.log_level.as_deref().map(str::trim).filter(|level| !level.is_empty());
        set("LOG_LEVEL", level.unwrap_or(quiet));
        set("LOG_FORMAT", "text");
        let with = |own: Vec<(String, String)>| common.iter().cloned().chain(own).collect::<Vec<_>>();
        let pair = |name: &str, value: String| (name.to_owned(), value);

        let keys = self.folder.secret_keys().map_err(failure)?.display().to_string();
        let api = vec![
            pair("API_HOST", "127.0.0.1".to_owned()),
            pair("API_PORT", self.api_port.to_string()),
            pair("API_KEY_ENVIRONMENT", DEV_ENVIRONMENT.to_owned()),
            pair("SECRETS_KEY_FILE", keys.clone()),
        ];
        let mut worker = vec![
            pair("WORKER_CONCURRENCY", args.concurrency.to_string()),
            pair(QUEUES, listed(&self.served)),
            pair("SECRETS_KEY_FILE", keys),
            // The test servers of the user are on loopback too.
            pair("WORKER_HTTP_ALLOW", "127.0.0.0/8,::1,localhost".to_owned()),
        ];
        worker.extend(self.postgres.client_variables());
        worker.push(pair("BACKUP_DIR", self.folder.backups().map_err(failure)?.display().to_string()));

        let spec = |name: &str, colour, program: &PathBuf, variables, health| Spec {
            name: name.to_owned(),
            colour,
            program: program.clone(),
            variables,
            health,
        };
        let health = |port: Option<u16>| port.map_or(Health::Chosen, Health::At);
        let mut plan = vec![
            (spec("api", 0, &programs.api, with(api), Health::Fixed(self.api_port)), Stage::Api),
            (
                spec(
                    "scheduler",
                    1,
                    &programs.scheduler,
                    with(Vec::new()),
                    health(args.scheduler_health_port),
                ),
                Stage::Scheduler,
            ),
        ];
        for number in 1..=args.workers {
            let name = if args.workers == 1 { "worker".to_owned() } else { format!("worker-{number}") };
            let colour = 1 + usize::from(number);
            let port = args.worker_health_port.map(|first| first.saturating_add(number - 1));
            let worker = spec(&name, colour, &programs.worker, with(worker.clone()), health(port));
            self.worker = Some(Spec { health: Health::Chosen, ..worker.clone() });
            plan.push((worker, Stage::Workers));
        }
        for (spec, stage) in plan {
            self.daemons.start(spec, stage).map_err(failure)?;
        }
        Ok(())
    }

    async fn wait_until_healthy(&mut self) -> Result<(), ExitError> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .timeout(Duration::from_secs(2))
            .build()
            .map_err(failure)?;
        let began = monotonic();
        let mut waiting = self.daemons.entries();
        loop {
            if let Some(ended) = self.daemons.notice_ends().await.into_iter().next() {
                return Err(ended_while_starting(&ended));
            }
            let mut reasons = Vec::new();
            let mut left = Vec::new();
            for entry in waiting {
                if let Err(reason) = ask_health(&client, &entry).await {
                    reasons.push(format!("{}: {reason}", entry.name));
                    left.push(entry);
                }
            }
            waiting = left;
            if waiting.is_empty() {
                return Ok(());
            }
            if began.elapsed() > HEALTHY_LIMIT {
                let limit = HEALTHY_LIMIT.as_secs();
                return Err(failure(anyhow!(
                    "not everything is healthy after {limit} s: {}",
                    reasons.join("; ")
                )));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Watches the processes, restarts ended ones, and serves all of `queues`. Returns only on a
    /// permanent failure.
    pub(super) async fn supervise(&mut self, queues: &mut watch::Receiver<BTreeSet<String>>) -> ExitError {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let wanted =
                queues.has_changed().is_ok_and(|is_so| is_so).then(|| queues.borrow_and_update().clone());
            let kept = match wanted.map(|wanted| self.serve(&wanted)) {
                Some(Err(error)) => Err(error),
                Some(Ok(())) | None => self.supervise_once().await,
            };
            if let Err(error) = kept {
                return error;
            }
        }
    }

    /// Starts a worker; running workers and their attempts are not touched.
    fn serve(&mut self, wanted: &BTreeSet<String>) -> Result<(), ExitError> {
        let new: Vec<String> = wanted.difference(&self.served).cloned().collect();
        let Some(worker) = self.worker.clone().filter(|_| !new.is_empty()) else { return Ok(()) };
        let names = listed(&new);
        self.served.extend(new);
        if self.added == MOST_ADDED {
            self.log.print(&format!("New queues are served from the next start on: {names}."));
            return Ok(());
        }
        self.added += 1;
        let mut variables = worker.variables;
        variables.retain(|(name, _)| name != QUEUES);
        variables.push((QUEUES.to_owned(), names.clone()));
        let number = usize::from(self.added);
        let added =
            Spec { name: format!("worker+{number}"), colour: worker.colour + number, variables, ..worker };
        self.log.print(&format!("Started the worker {} for new queues: {names}.", added.name));
        if let Err(error) = self.daemons.start(added, Stage::Workers) {
            self.log.print(&format!(
                "It could not be started, so they are served from the next start on: {}.",
                describe(&error)
            ));
        }
        self.describe()
    }

    async fn supervise_once(&mut self) -> Result<(), ExitError> {
        let log = self.log;
        if self.postgres.has_died() {
            log.print("PostgreSQL has ended unexpectedly; starting it again.");
            self.postgres.restart().await?;
            log.print("PostgreSQL runs again.");
        }
        let ended = self.daemons.notice_ends().await;
        for ended in &ended {
            let how = ended.status.map_or_else(|| "an unknown exit code".to_owned(), describe_exit);
            log.print(&format!("{} ended unexpectedly with {how}; it will be started again.", ended.name));
        }
        if self.daemons.restart_due() || !ended.is_empty() {
            self.describe()?;
        }
        Ok(())
    }

    /// Stops everything top-down; once `hard` is cancelled, by force.
    pub(super) async fn stop(mut self, hard: &CancellationToken) -> Result<(), ExitError> {
        self.daemons.stop(hard).await;
        if self.postgres.is_up() {
            self.log.print("Stopping PostgreSQL.");
        }
        let mode = if hard.is_cancelled() { StopMode::Immediate } else { StopMode::Fast };
        self.postgres.stop(mode).await?;
        self.folder.forget().map_err(failure)
    }

    fn describe(&self) -> Result<(), ExitError> {
        let own = i32::try_from(std::process::id()).map_err(failure)?;
        let mut processes = vec![ProcessEntry { name: "schedctl".to_owned(), pid: own, health_url: None }];
        processes.extend(self.daemons.entries());
        let description =
            Description { api_url: self.api_url(), database_url: self.database_url().to_owned(), processes };
        self.folder.describe(&description).map_err(failure)
    }

    pub(super) fn api_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.api_port)
    }

    /// Empty before the start of the server.
    pub(super) fn database_url(&self) -> &str {
        self.postgres.url()
    }

    pub(super) fn description(&self) -> PathBuf {
        local_install::description_of(self.folder.dir())
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(super) fn served(&self) -> &BTreeSet<String> {
        &self.served
    }

    pub(super) fn daemons(&self) -> Vec<ProcessEntry> {
        self.daemons.entries()
    }

    pub(super) fn log(&self) -> Log {
        self.log
    }
}

pub(super) async fn clear(folder: &Folder, log: Log) -> Result<(), ExitError> {
    log.print(&format!("Removing the data of earlier runs in {}.", folder.dir().display()));
    if folder.postgres().join("data").is_dir() {
        // A server that survived its owner and guard may still use the data; opening it ends it.
        let mut postgres = Postgres::new(&folder.postgres());
        if let Err(error) = postgres.start().await {
            log.print(&format!("The data could not be opened: {}.", error.describe()));
        }
        postgres.stop(StopMode::Immediate).await?;
    }
    folder.clear().map_err(failure)
}

async fn ask_health(client: &reqwest::Client, entry: &ProcessEntry) -> Result<(), String> {
    let Some(url) = &entry.health_url else { return Ok(()) };
    let answer = client.get(url).send().await.map_err(|_not_listening| "does not answer yet".to_owned())?;
    if answer.status().is_success() {
        return Ok(());
    }
    let body: serde_json::Value = answer.json().await.unwrap_or_default();
    Err(body.get("reason").and_then(|reason| reason.as_str()).unwrap_or("is not healthy").to_owned())
}

/// The daemons share the exit codes of `schedctl`, so a specific code is passed on.
fn ended_while_starting(ended: &Ended) -> ExitError {
    let Ended { name, status } = ended;
    let how = status.map_or_else(|| "an unknown exit code".to_owned(), describe_exit);
    let code = match status.and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()) {
        Some(code @ (exit::USAGE | exit::DATABASE | exit::SCHEMA | exit::LISTEN)) => code,
        _ => exit::FAILURE,
    };
    ExitError::new(code, anyhow!("{name} ended with {how} during its start; see its log lines above"))
}

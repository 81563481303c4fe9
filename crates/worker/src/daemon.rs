//! Putting the worker together: build, run, stop in order.
//!
//! Start: bind the health listener (so a taken port is told at once), prepare the handlers, wait for the database, check the
//! schema, register. Stop: see [`crate::session`]; the health listener answers until the end. A task that ends by itself ends
//! the process: it is never left silently without one of its parts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sched_model::connection::migrations::SchemaError;
use sched_model::connection::pool::{IDLE_IN_TRANSACTION, InvalidDatabaseSettings};
use sched_model::{
    Database, DatabaseSettings,
    connection::{notify, startup},
    recovery::lost_attempts,
};
use sched_runtime::daemon::Context;
use sched_runtime::exit::{self, ExitError, ExitStatus};
use sched_runtime::health_endpoint::{HealthServer, HealthState, ListenError};
use sched_runtime::tasks::{BoxError, TaskError, TaskGroup};
use sched_runtime::tracker::Tracker;
use secrecy::ExposeSecret;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::attempt::counters::Seen;
use crate::attempt::live::{self, Board};
use crate::attempt::secrets::{self, KeysError};
use crate::built_in::System;
use crate::claiming::prefetch::{MOST_AHEAD, Pace};
use crate::completion::{self, Completer};
use crate::config::Config;
use crate::handlers::Handlers;
use crate::handlers::http::{CertificateError, HttpHandler, HttpSettings};
use crate::handlers::native::{NativeHandler, RegisterError, Registry};
use crate::handlers::process::{PrepareError, ProcessSettings};
use crate::session::multi_worker;
use crate::session::{UnfinishedWork, Worker};
use crate::status::{Phase, WorkerStatus};

/// How long the listeners may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Results that may wait to be stored, and dispatches that may wait for a slot, besides those that run.
pub(crate) const KEPT_RESULTS: usize = 4 * MOST_AHEAD;

/// Time between two looks for what dropped attempts have left.
const TIDY_PERIOD: Duration = Duration::from_secs(2);

/// Shortest and longest time between two looks for what killed workers have left on the machine. A look reads a file of every process.
const LOOKS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Why the worker did not start or run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The health listener has no port.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The database settings cannot work.
    #[error(transparent)]
    Settings(#[from] InvalidDatabaseSettings),
    /// The schema does not fit.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Attempts could not be contained on this machine.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// Native handlers got no threads of their own.
    #[error("failed to start the threads of native handlers")]
    Threads(#[source] std::io::Error),
    /// A handler of the program has a name that is kept for built-in ones, which the builder would have refused.
    #[error(transparent)]
    Register(RegisterError),
    /// The worker ended otherwise than in order.
    #[error(transparent)]
    Unfinished(#[from] UnfinishedWork),
    /// The key file of the secrets cannot be used.
    #[error(transparent)]
    SecretKeys(#[from] KeysError),
    /// The authorities for calls cannot be read.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// A part of the daemon ended.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl ExitStatus for StartError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Listen(_) => exit::LISTEN,
            Self::Settings(_) | Self::SecretKeys(_) | Self::Certificates(_) => exit::USAGE,
            Self::Schema(SchemaError::Database(_) | SchemaError::SharedSessions) => exit::DATABASE,
            Self::Schema(_) => exit::SCHEMA,
            Self::Prepare(_) | Self::Threads(_) | Self::Register(_) | Self::Unfinished(_) | Self::Task(_) => {
                exit::FAILURE
            }
        }
    }
}

/// Native handlers, and how many threads they share.
#[derive(Debug, Clone)]
pub(crate) struct Native {
    pub(crate) registry: Registry,
    pub(crate) threads: usize,
}

/// Runs the worker until it is told to stop; if `count` is more than one, a crowd of them ([`crowd`]).
///
/// # Errors
/// When it cannot start, or a part of it ends by itself.
pub(crate) async fn run(
    native: Native,
    count: usize,
    config: Config,
    context: Context,
) -> Result<(), ExitError> {
    let config = Arc::new(config);
    let database =
        Database::new(&database_settings(&config, context.program.name)).map_err(StartError::from)?;
    let secret_keys = secrets::keys(&config.secrets).map_err(StartError::from)?.map(Arc::new);
    show_counters();
    let seen = Arc::new(Seen::new());
    let (phase, phase_seen) = watch::channel(Phase::WaitingForDatabase);
    let status = WorkerStatus { config: config.clone(), phase: phase_seen, seen: seen.clone() };
    let health = HealthState::new(&context.program, Arc::new(status), context.metrics.clone());
    let health = HealthServer::bind(&config.health, health).map_err(StartError::from)?;
    let settings = ProcessSettings {
        temp_root: config.temp_dir.clone(),
        inherited: std::env::vars_os().collect(),
        installation: installation(config.database.url.expose_secret()),
        cgroup_root: config.cgroup_root.clone(),
        programs: config.programs.clone(),
        run_as: config.run_as.clone(),
    };
    let http = HttpSettings {
        allow: config.http_allow.clone(),
        ports: config.http_ports.clone(),
        own_database: database.servers(),
        ca_file: config.http_ca_file.clone(),
        ..HttpSettings::default()
    };
    let http = Arc::new(HttpHandler::new(http).map_err(StartError::from)?);
    let mut registry = native.registry;
    let system = System {
        database: database.clone(),
        database_url: config.database.url.clone(),
        ca_file: config.database.ca_file.clone(),
        settings: config.system.clone(),
        http: http.clone(),
        secret_keys: secret_keys.clone(),
    };
    system.register(&mut registry).map_err(StartError::Register)?;
    let native = NativeHandler::new(registry, native.threads).map_err(StartError::Threads)?;
    let handlers = Handlers::new(settings, http).map_err(StartError::from)?.with_native(native);
    let handlers = Arc::new(handlers);

    let mut listeners = TaskGroup::new();
    let token = listeners.token();
    listeners.spawn("health", health.run(token));
    let stop = context.shutdown.soft.clone();
    let is_usable = tokio::select! {
        usable = startup::wait_until_usable(&database) => usable.map(|()| true).map_err(StartError::from),
        ended = listeners.run_until(&stop) => ended.map(|()| false).map_err(StartError::from),
    }?;

    if is_usable {
        phase.send_replace(Phase::Running);
        let wake = Arc::new(Notify::new());
        let count_of_slots = usize::try_from(config.concurrency).unwrap_or(1);
        let slots = Arc::new(Semaphore::new(count_of_slots));
        metrics::gauge!("sched_slots").set(f64::from(config.concurrency));
        metrics::gauge!("sched_slots_busy").set(0.0);
        let (completer, completer_handle) =
            Completer::new(database.clone(), seen.clone(), wake.clone(), slots.clone());
        let pace = Arc::new(Pace::new(config.concurrency));
        listeners.spawn("completer", completer.run(listeners.token()));
        listeners.spawn("tidy", tidy(handlers.clone(), listeners.token()));
        let period = look_period(config.lease.duration());
        listeners.spawn("look", look_for_dead(handlers.clone(), period, listeners.token()));
        let board = Arc::new(Board::default());
        listeners.spawn("live", live::run(board.clone(), database.clone(), seen.clone(), listeners.token()));
        let beat_now = Arc::new(Notify::new());
        let tracker = if config.report_failures { context.tracker } else { Tracker::default() };
        let worker = Worker {
            version: context.program.version,
            config,
            database: database.clone(),
            handlers,
            secret_keys,
            completer: completer_handle,
            slots,
            places: Arc::new(Semaphore::new(count_of_slots + KEPT_RESULTS)),
            pace,
            wake,
            beat_now,
            seen,
            board,
            traces: context.traces,
            tracker,
        };
        let mut workers = vec![worker];
        while let Some(first) = workers.first().filter(|_| workers.len() < count) {
            let (another, completer) = first.another();
            listeners.spawn("completer", completer.run(listeners.token()));
            workers.push(another);
        }
        let hints: Vec<Hints> = workers.iter().map(Hints::of).collect();
        if hints.iter().all(|hints| hints.config.listen) {
            listeners.spawn("hints", listen(database.clone(), hints, listeners.token()));
        } else {
            tracing::info!("Not listening for notifications, as told: work is found by polling.");
        }
        let drains = async {
            stop.cancelled().await;
            phase.send_replace(Phase::Draining);
            std::future::pending::<()>().await;
        };
        let ends = async {
            listeners.run_until(&context.shutdown.hard).await?;
            // Told to stop at once: the sessions kill their work by themselves, as long as nothing here ends before them.
            std::future::pending::<Result<(), TaskError>>().await
        };
        tokio::select! {
            ended = multi_worker::run(workers, context.shutdown.clone()) => ended.map_err(StartError::from)?,
            () = drains => {}
            ended = ends => ended.map_err(StartError::from)?,
        }
    }
    if let Err(error) = listeners.stop(STOP_WITHIN).await {
        tracing::debug!(error = &error as &dyn std::error::Error, "The listeners were cut off.");
    }
    database.close();
    Ok(())
}

/// Clears away, now and then, what attempts that were dropped have left.
async fn tidy(handlers: Arc<Handlers>, stop: CancellationToken) -> Result<(), BoxError> {
    while tokio::time::timeout(TIDY_PERIOD, stop.cancelled()).await.is_err() {
        handlers.tidy();
    }
    Ok(())
}

/// Time between two looks for what killed workers have left: a third of the lease, after which their work is given to others.
fn look_period(lease: Duration) -> Duration {
    let (shortest, longest) = LOOKS;
    if lease < shortest * 3 {
        tracing::warn!(
            ?lease,
            "WORKER_OFFLINE_THRESHOLD is so short that what a killed worker's programs had started may still run when others begin its \
             work; take 750ms or more where it matters."
        );
    }
    (lease / 3).clamp(shortest, longest)
}

/// Clears away what workers that were killed have left on this machine.
async fn look_for_dead(
    handlers: Arc<Handlers>,
    period: Duration,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    while tokio::time::timeout(period, stop.cancelled()).await.is_err() {
        handlers.clear_away_dead().await;
    }
    Ok(())
}

/// Whom hints are for.
struct Hints {
    config: Arc<Config>,
    wake: Arc<Notify>,
    beat_now: Arc<Notify>,
    seen: Arc<Seen>,
}

impl Hints {
    fn of(worker: &Worker) -> Self {
        Self {
            config: worker.config.clone(),
            wake: worker.wake.clone(),
            beat_now: worker.beat_now.clone(),
            seen: worker.seen.clone(),
        }
    }

    /// Wakes the poller when dispatches wait in one of our queues, the heartbeat when work of ours is to be stopped, and both
    /// whenever the listener has reconnected.
    fn take(&self, hint: &notify::Hint) {
        match hint {
            notify::Hint::Notified { channel, payload } if channel == notify::CANCEL_CHANNEL => {
                if self.seen.session.borrow().is_some_and(|id| id.to_string() == *payload) {
                    self.beat_now.notify_one();
                }
            }
            notify::Hint::Notified { payload, .. } => {
                if payload.is_empty() || self.config.queues.contains(payload) {
                    self.wake.notify_one();
                }
            }
            notify::Hint::Disconnected => self.seen.is_listening.store(false, Ordering::Relaxed),
            notify::Hint::Reconnected => {
                self.seen.is_listening.store(true, Ordering::Relaxed);
                self.wake.notify_one();
                self.beat_now.notify_one();
            }
        }
    }
}

async fn listen(database: Database, hints: Vec<Hints>, stop: CancellationToken) -> Result<(), BoxError> {
    let channels = [notify::DISPATCH_CHANNEL, notify::CANCEL_CHANNEL];
    let listening = notify::listen(&database, &channels, |hint| hints.iter().for_each(|one| one.take(&hint)));
    tokio::select! {
        () = listening => {}
        () = stop.cancelled() => {}
    }
    Ok(())
}

/// A word for the installation, from where its database is: workers of the same one clear up after each other on a machine. Made without
/// asking the database, which may be away when they start. It tells installations apart and keeps nothing secret: jobs see it.
fn installation(database_url: &str) -> String {
    let (_, place) =
        database_url.rsplit_once('@').or_else(|| database_url.split_once("://")).unwrap_or_default();
    let place = place.split('?').next().unwrap_or_default();
    // FNV-1a: the same in every release, which the standard library's hash does not promise.
    let hash = place.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn database_settings(config: &Config, application: &str) -> DatabaseSettings {
    let from = &config.database;
    DatabaseSettings {
        url: from.url.expose_secret().to_owned(),
        application: application.to_owned(),
        pool_size: usize::try_from(from.pool_size).unwrap_or(1),
        connect_timeout: from.connect_timeout,
        statement_timeout: from.statement_timeout,
        lock_timeout: from.lock_timeout,
        idle_in_transaction: IDLE_IN_TRANSACTION,
        ca_file: from.ca_file.clone(),
        generic_plans: true,
        role: None,
    }
}

/// Shows the counters before anything is counted, for alerts on their growth.
fn show_counters() {
    completion::show_counters();
    // Where nobody leads, workers count what they find lost.
    lost_attempts::show_counters();
    metrics::counter!("sched_claims_lost_total").increment(0);
    metrics::counter!("sched_completion_failures_total").increment(0);
    metrics::counter!("sched_worker_heartbeat_failures_total").increment(0);
    metrics::counter!("sched_worker_leases_lost_total").increment(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_worker_left_is_looked_for_within_the_lease() {
        let milliseconds = Duration::from_millis;
        for (lease, period) in [(200, 250), (750, 250), (3_000, 1_000), (30_000, 10_000), (600_000, 10_000)] {
            assert_eq!(look_period(milliseconds(lease)), milliseconds(period), "{lease}");
        }
    }

    #[test]
    fn an_installation_is_known_by_the_place_of_its_database_and_not_by_its_password() {
        let one = installation("postgresql://sched:one@db.example:5432/sched?sslmode=require");
        assert_eq!(one, installation("postgresql://other:two@db.example:5432/sched"));
        assert_ne!(one, installation("postgresql://sched:one@db.example:5432/staging"));
        assert_eq!(
            installation("postgresql://localhost/sched"),
            installation("postgres://localhost/sched?x=y")
        );
        assert!(one.len() == 16 && one.chars().all(|c| c.is_ascii_alphanumeric()), "{one}");
    }
}

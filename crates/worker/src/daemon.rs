//! The daemon: builds the worker, runs it, and stops it in order.
//!
//! Start: bind the health endpoint, so that a port in use is reported at once; prepare the
//! handlers; wait for the database; check the schema; register. Stop: see
//! [`crate::session::lifecycle`]; the health endpoint answers until the end. If a task ends
//! unexpectedly, the process ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sched_model::connection::migrations::SchemaError;
use sched_model::connection::pool::{IDLE_IN_TRANSACTION, InvalidDatabaseSettings};
use sched_model::domain::function::HandlerType;
use sched_model::{Database, DatabaseSettings};
use sched_runtime::daemon::Context;
use sched_runtime::exit::{self, ExitError, ExitStatus};
use sched_runtime::health_endpoint::{HealthServer, HealthState, ListenError};
use sched_runtime::tasks::{BoxError, TaskError, TaskGroup};
use sched_runtime::tracker::Tracker;
use secrecy::ExposeSecret;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::attempt::counters::Counters;
use crate::attempt::live::{self, LiveBuffer};
use crate::attempt::secrets::{self, KeysError};
use crate::backend::{self, Backend, Hint};
use crate::built_in::{System, enabling};
use crate::claiming::prefetch::Prefetch;
use crate::completion::{self, Completer};
use crate::config::Config;
use crate::handlers::http::{CertificateError, HttpHandler, HttpSettings};
use crate::handlers::native::{NativeHandler, RegisterError, Registry};
use crate::handlers::process::{PrepareError, ProcessHandler, ProcessSettings};
use crate::handlers::{Handler, Handlers};
use crate::meters::Meters;
use crate::session::{EXTRA_PLACES, UnfinishedWork, Worker, multi_worker};
use crate::status::{Phase, WorkerStatus};

const STOP_WITHIN: Duration = Duration::from_secs(10);

const TIDY_PERIOD: Duration = Duration::from_secs(2);

/// Minimum and maximum between two searches for leftovers of killed workers. A search reads a file
/// of every process.
const SEARCH_PERIODS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Why the worker did not start or run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The health endpoint cannot listen on its port.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The database settings are invalid.
    #[error(transparent)]
    Settings(#[from] InvalidDatabaseSettings),
    /// The schema of the database does not fit this program.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The operating system refused a way to contain attempts.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The threads of native handlers did not start.
    #[error("failed to start the threads of native handlers")]
    Threads(#[source] std::io::Error),
    /// A handler of the program has a name that is reserved for built-in handlers.
    #[error(transparent)]
    Register(RegisterError),
    /// The worker ended with unfinished runs.
    #[error(transparent)]
    Unfinished(#[from] UnfinishedWork),
    /// The key file of secrets is invalid.
    #[error(transparent)]
    SecretKeys(#[from] KeysError),
    /// The certificates of `worker-http-ca-file` cannot be read.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// A task of the daemon ended.
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

#[derive(Debug, Clone)]
pub(crate) struct Native {
    pub(crate) registry: Registry,
    pub(crate) threads: usize,
}

/// See [`multi_worker`] for more than one.
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
    let counters = Arc::new(Counters::new());
    let (phase, phase_seen) = watch::channel(Phase::WaitingForDatabase);
    let status = WorkerStatus { config: config.clone(), phase: phase_seen, counters: counters.clone() };
    let health = HealthState::new(&context.program, Arc::new(status), context.metrics.clone());
    let health = HealthServer::bind(&config.health, health).map_err(StartError::from)?;
    let health_addr = health.addr();
    let settings = ProcessSettings {
        temp_root: config.temp_dir.clone(),
        inherited: std::env::vars_os().collect(),
        installation: installation(config.database.url.expose_secret()),
        cgroup_root: config.cgroup_root.clone(),
        programs: config.programs.clone(),
        env_allow: config.env_allow.clone(),
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
    let native = Arc::new(NativeHandler::new(registry, native.threads).map_err(StartError::Threads)?);
    let process = ProcessHandler::new(settings).map_err(StartError::from)?;
    let handlers = Handlers::default()
        .with(HandlerType::Process, Arc::new(process) as Arc<dyn Handler>)
        .with(HandlerType::Http, http as Arc<dyn Handler>)
        .with(HandlerType::Native, native.clone() as Arc<dyn Handler>);
    let handlers = Arc::new(handlers);
    let backend = Backend::new(database.clone());

    let mut listeners = TaskGroup::new();
    let token = listeners.token();
    listeners.spawn("health", health.run(token));
    context.service.ready(format_args!("waiting for the database; health on {health_addr}"));
    let stop = context.shutdown.soft.clone();
    let is_usable = tokio::select! {
        usable = backend.wait_until_usable() => usable.map(|()| true).map_err(StartError::from),
        ended = listeners.run_until(&stop) => ended.map(|()| false).map_err(StartError::from),
    }?;

    if is_usable {
        phase.send_replace(Phase::Running);
        let queues = config.queues.join(", ");
        context.service.status(format_args!("serves {queues}; health on {health_addr}"));
        let wake = Arc::new(Notify::new());
        let count_of_slots = usize::try_from(config.concurrency).unwrap_or(1);
        let slots = Arc::new(Semaphore::new(count_of_slots));
        metrics::gauge!("sched_slots").set(f64::from(config.concurrency));
        metrics::gauge!("sched_slots_busy").set(0.0);
        let (completer, completer_handle) =
            Completer::new(backend.clone(), counters.clone(), wake.clone(), slots.clone());
        let prefetch = Arc::new(Prefetch::new(config.concurrency));
        listeners.spawn("completer", completer.run(listeners.token()));
        listeners.spawn("tidy", clean_up(handlers.clone(), listeners.token()));
        let period = search_period(config.lease.duration());
        listeners.spawn("dead_workers", clean_up_dead_workers(handlers.clone(), period, listeners.token()));
        let configured = enabling::configured(&config.system, &config.queues);
        if !configured.is_empty() {
            let enabling = enabling::run(database.clone(), configured, listeners.token());
            listeners.spawn("built_in_jobs", enabling);
        }
        let live_buffer = Arc::new(LiveBuffer::default());
        listeners.spawn(
            "live",
            live::run(live_buffer.clone(), backend.clone(), counters.clone(), listeners.token()),
        );
        let beat_now = Arc::new(Notify::new());
        let tracker = if config.report_failures { context.tracker } else { Tracker::default() };
        let worker = Worker {
            version: context.program.version,
            config,
            backend: backend.clone(),
            handlers,
            native,
            secret_keys,
            completer: completer_handle,
            slots,
            places: Arc::new(Semaphore::new(count_of_slots + EXTRA_PLACES)),
            prefetch,
            wake,
            beat_now,
            counters,
            live_buffer,
            meters: Meters::new(),
            traces: context.traces,
            tracker,
            service: context.service.clone(),
        };
        let mut workers = vec![worker];
        while let Some(first) = workers.first().filter(|_| workers.len() < count) {
            let (another, completer) = first.another();
            listeners.spawn("completer", completer.run(listeners.token()));
            workers.push(another);
        }
        let hints: Vec<Hints> = workers.iter().map(Hints::of).collect();
        if hints.iter().all(|hints| hints.config.listen) {
            listeners.spawn("hints", listen(backend, hints, listeners.token()));
        } else {
            tracing::info!(
                "not listening for notifications (worker-listen is false); finding runs by polling"
            );
        }
        let drains = async {
            stop.cancelled().await;
            phase.send_replace(Phase::Draining);
            std::future::pending::<()>().await;
        };
        let ends = async {
            listeners.run_until(&context.shutdown.hard).await?;
            // On a hard stop the sessions kill their attempts, so this must not end before them.
            std::future::pending::<Result<(), TaskError>>().await
        };
        tokio::select! {
            ended = multi_worker::run(workers, context.shutdown.clone()) => ended.map_err(StartError::from)?,
            () = drains => {}
            ended = ends => ended.map_err(StartError::from)?,
        }
    }
    if let Err(error) = listeners.stop(STOP_WITHIN).await {
        tracing::debug!(error = &error as &dyn std::error::Error, "background tasks did not stop in time");
    }
    database.close();
    Ok(())
}

/// Removes leftovers of dropped attempts.
async fn clean_up(handlers: Arc<Handlers>, stop: CancellationToken) -> Result<(), BoxError> {
    while tokio::time::timeout(TIDY_PERIOD, stop.cancelled()).await.is_err() {
        handlers.clean_up();
    }
    Ok(())
}

/// A third of the lease, because runs of killed workers may start elsewhere after the lease.
fn search_period(lease: Duration) -> Duration {
    let (shortest, longest) = SEARCH_PERIODS;
    if lease < shortest * 3 {
        tracing::warn!(
            ?lease,
            "WORKER_OFFLINE_THRESHOLD is very short: processes of a killed worker may still run when another worker repeats its runs; set \
             750ms or more to avoid this"
        );
    }
    (lease / 3).clamp(shortest, longest)
}

/// Removes leftovers of killed workers on this machine.
async fn clean_up_dead_workers(
    handlers: Arc<Handlers>,
    period: Duration,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    while tokio::time::timeout(period, stop.cancelled()).await.is_err() {
        handlers.clean_up_dead_workers().await;
    }
    Ok(())
}

struct Hints {
    config: Arc<Config>,
    wake: Arc<Notify>,
    beat_now: Arc<Notify>,
    counters: Arc<Counters>,
}

impl Hints {
    fn of(worker: &Worker) -> Self {
        Self {
            config: worker.config.clone(),
            wake: worker.wake.clone(),
            beat_now: worker.beat_now.clone(),
            counters: worker.counters.clone(),
        }
    }

    /// Wakes the poller for runs in its queues, the heartbeat for cancelled runs and drain requests,
    /// and both after a reconnection of the listener.
    fn take(&self, hint: &Hint) {
        match hint {
            Hint::Notified { channel, payload } if channel == backend::CANCEL_CHANNEL => {
                if self.counters.session.borrow().is_some_and(|id| id.to_string() == *payload) {
                    self.beat_now.notify_one();
                }
            }
            Hint::Notified { payload, .. } => {
                if payload.is_empty() || self.config.queues.contains(payload) {
                    self.wake.notify_one();
                }
            }
            Hint::Disconnected => self.counters.is_listening.store(false, Ordering::Relaxed),
            Hint::Reconnected => {
                self.counters.is_listening.store(true, Ordering::Relaxed);
                self.wake.notify_one();
                self.beat_now.notify_one();
            }
        }
    }
}

async fn listen(backend: Backend, hints: Vec<Hints>, stop: CancellationToken) -> Result<(), BoxError> {
    let listening = backend.listen(|hint| hints.iter().for_each(|one| one.take(&hint)));
    tokio::select! {
        () = listening => {}
        () = stop.cancelled() => {}
    }
    Ok(())
}

/// Identifies the installation by the location of its database. Workers of one installation remove
/// each other's leftovers. No query, because the database may be unavailable at the start. Not
/// secret: jobs see it.
fn installation(database_url: &str) -> String {
    let (_, location) =
        database_url.rsplit_once('@').or_else(|| database_url.split_once("://")).unwrap_or_default();
    let location = location.split('?').next().unwrap_or_default();
    // FNV-1a: stable across releases, unlike the hash of the standard library.
    let hash = location.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
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

fn show_counters() {
    completion::show_counters();
    // Without a leader, workers recover and count lost attempts.
    backend::show_counters();
    metrics::counter!("sched_claims_lost_total").increment(0);
    metrics::counter!("sched_completion_failures_total").increment(0);
    metrics::counter!("sched_worker_heartbeat_failures_total").increment(0);
    metrics::counter!("sched_worker_leases_lost_total").increment(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_killed_workers_are_searched_within_the_lease() {
        let milliseconds = Duration::from_millis;
        for (lease, period) in [(200, 250), (750, 250), (3_000, 1_000), (30_000, 10_000), (600_000, 10_000)] {
            assert_eq!(search_period(milliseconds(lease)), milliseconds(period), "{lease}");
        }
    }

    #[test]
    fn installation_id_depends_on_database_location_only() {
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

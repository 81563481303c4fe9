//! The process: build, run, clean shutdown.
//!
//! Start: bind the health listener first, so that a used port is reported at once; wait for the
//! database, check the schema, register. Stop: first the leader's tasks, then leadership, then the
//! rest. A task that ends unexpectedly ends the process, so it never runs without one of its parts.

use std::sync::Arc;
use std::time::Duration;

use sched_model::cluster::housekeeping::Housekeeping;
use sched_model::cluster::leadership::NewInstance;
use sched_model::connection::migrations::SchemaError;
use sched_model::connection::pool::{IDLE_IN_TRANSACTION, InvalidDatabaseSettings};
use sched_model::dispatching::tick::Outlook;
use sched_model::domain::ids::{InstanceId, Term};
use sched_model::domain::lease::Lease;
use sched_model::{Database, DatabaseSettings, connection::startup};
use sched_runtime::daemon::Context;
use sched_runtime::exit::{self, ExitError, ExitStatus};
use sched_runtime::health_endpoint::{HealthServer, HealthState, ListenError};
use sched_runtime::http_targets::CallError;
use sched_runtime::service_manager::ServiceManager;
use sched_runtime::tasks::{BoxError, TaskError, TaskGroup, spawn_owned};
use sched_runtime::traces::Traces;
use secrecy::ExposeSecret;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::hints::{Flags, listen};
use crate::leader_scope::{self, Board, Starting};
use crate::leadership::{Leadership, Role, Timing};
use crate::status::{Phase, SchedulerStatus};
use crate::tasks::ahead::Plans;
use crate::tasks::batch::Batches;
use crate::tasks::counters::{self, Counters};
use crate::tasks::cursors::{self, Cursors};
use crate::tasks::dependents::{self, Dependents};
use crate::tasks::dispatch::Dispatch;
use crate::tasks::expiry::{self, Waiting};
use crate::tasks::heartbeat::{self, Heartbeat, Receiver};
use crate::tasks::installation_metrics::{self, InstallationMetrics, JobsSeen};
use crate::tasks::maintain::{self, Maintain};
use crate::tasks::overdue::{self, Overdue};
use crate::tasks::overlap_queue::{self, Lines};
use crate::tasks::recover::Recover;
use crate::tasks::retain::{self, Retain};
use crate::tasks::rezone::{self, Rezone};
use crate::tasks::strays::{self, Strays};
use crate::tasks::{self, Scope};

/// A leader that has not dispatched successfully for this many leases resigns.
const STALLED_LEASES: u32 = 6;
/// Longest time between two checks for lost workers; one sixth of their lease if that is shorter.
const RECOVER_PERIOD: Duration = Duration::from_secs(5);
/// Rows that retention reads in one transaction.
const RETENTION_PAGE: i64 = 1000;
/// Lower bound of the server's idle-in-transaction timeout.
const SHORTEST_IDLE: Duration = Duration::from_millis(500);
/// Time limit for the parts of the process to stop.
const STOP_WITHIN: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Settings(#[from] InvalidDatabaseSettings),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("the heartbeat URL cannot be called")]
    Heartbeat(#[from] CallError),
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error("a part of the scheduler failed")]
    Part(#[source] BoxError),
}

impl ExitStatus for StartError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Listen(_) => exit::LISTEN,
            Self::Settings(_) => exit::USAGE,
            Self::Schema(SchemaError::Database(_) | SchemaError::SharedSessions) => exit::DATABASE,
            Self::Schema(_) => exit::SCHEMA,
            Self::Heartbeat(_) | Self::Task(_) | Self::Part(_) => exit::FAILURE,
        }
    }
}

/// Returns an error if the scheduler cannot start or one of its parts ends.
pub async fn run(config: Config, context: Context) -> Result<(), ExitError> {
    let instance = NewInstance {
        id: InstanceId(uuid::Uuid::new_v4()),
        hostname: hostname(),
        pid: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
        version: crate::PROGRAM.version.to_owned(),
    };
    let database = Database::new(&database_settings(&config)).map_err(StartError::from)?;
    let (phase, phase_seen) = watch::channel(Phase::WaitingForDatabase);
    let timing = Timing {
        heartbeat: config.heartbeat_interval,
        lease: config.lease,
        stalled_after: config.lease.duration() * STALLED_LEASES,
    };
    let board = Arc::new(Board::new(Vec::new()));
    let leadership = Leadership::new(database.clone(), instance, timing, board.subscribe());
    tasks::show_counters();
    let seen = Arc::new(watch::Sender::new(None));
    let jobs = Arc::new(watch::Sender::new(None));
    let status = SchedulerStatus {
        instance: leadership.id(),
        phase: phase_seen,
        role: leadership.role(),
        vitals: leadership.vitals(),
        board: board.clone(),
        outlook: seen.subscribe(),
        jobs: jobs.subscribe(),
    };
    let health = HealthState::new(&context.program, Arc::new(status), context.metrics.clone());
    let health = HealthServer::bind(&config.health, health).map_err(StartError::from)?;
    let mut listeners = TaskGroup::new();
    let token = listeners.token();
    listeners.spawn("health", health.run(token));
    context.service.ready("waiting for the database");

    let stop = context.shutdown.soft.clone();
    let ready = tokio::select! {
        usable = startup::wait_until_usable_as_owner(&database) => usable.map(|()| true).map_err(StartError::from),
        ended = listeners.run_until(&stop) => ended.map(|()| false).map_err(StartError::from),
    };
    let result = match ready {
        Ok(true) => {
            phase.send_replace(Phase::Running);
            let (traces, service) = (context.traces, context.service);
            Parts { config, database: database.clone(), board, seen, jobs, traces, service, stop }
                .run(leadership, &mut listeners, &phase)
                .await
        }
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = listeners.stop(STOP_WITHIN).await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "The health listener did not stop in order."
        );
    }
    database.close();
    Ok(result?)
}

struct Parts {
    config: Config,
    database: Database,
    board: Arc<Board>,
    seen: Arc<watch::Sender<Option<Outlook>>>,
    jobs: Arc<watch::Sender<Option<JobsSeen>>>,
    traces: Traces,
    service: ServiceManager,
    /// Cancelled when the scheduler is to stop.
    stop: CancellationToken,
}

impl Parts {
    async fn run(
        self,
        leadership: Leadership,
        listeners: &mut TaskGroup,
        phase: &watch::Sender<Phase>,
    ) -> Result<(), StartError> {
        let election_wake = Arc::new(Notify::new());
        let role = leadership.role();
        let id = leadership.id();
        let flags = Flags::default();

        let mut hints = TaskGroup::new();
        hints.spawn(
            "hints",
            listen(self.database.clone(), self.board.clone(), election_wake.clone(), flags.clone()),
        );
        hints.spawn("status", report_role(role.clone(), self.service.clone()));
        let mut work = TaskGroup::new();
        let work_token = work.token();
        let start = self.starter(id, flags, self.heartbeat_receiver()?);
        work.spawn("leader_scope", leader_scope::run(role, self.board.clone(), start, work_token));

        let election_stop = CancellationToken::new();
        let turns = self.service.supervise("election", leadership.longest_turn());
        let election = leadership.supervised(turns).run(election_wake, election_stop.clone());
        let mut election = spawn_owned("election", election);

        let ended = tokio::select! {
            ended = listeners.run_until(&self.stop) => ended.map_err(StartError::from),
            ended = work.run_until(&self.stop) => ended.map_err(StartError::from),
            ended = hints.run_until(&self.stop) => ended.map_err(StartError::from),
            _ = &mut election => Err(StartError::Part("the election ended unexpectedly".into())),
        };
        phase.send_replace(Phase::Stopping);
        let stopped = work.stop(STOP_WITHIN).await;
        if ended.is_ok() || !election.is_finished() {
            election_stop.cancel();
            match election.await {
                Ok(leadership) => leadership.leave().await,
                Err(error) => return Err(StartError::Part(error.into())),
            }
        }
        if let Err(error) = hints.stop(Duration::ZERO).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "The listener for hints was cut off.");
        }
        ended?;
        stopped.map_err(|error| StartError::Part(error.into()))
    }

    fn heartbeat_receiver(&self) -> Result<Option<(Receiver, Duration)>, CallError> {
        let Some(config) = self.config.heartbeat.clone() else { return Ok(None) };
        let receiver = Receiver::new(config.url, config.style, config.allow)?;
        Ok(Some((receiver, config.overdue_after)))
    }

    fn starter(
        &self,
        instance: InstanceId,
        flags: Flags,
        heartbeat: Option<(Receiver, Duration)>,
    ) -> impl Fn(Term, &mut Starting) + Send + 'static {
        let (config, database, seen) = (self.config.clone(), self.database.clone(), self.seen.clone());
        let (traces, jobs, board) = (self.traces.clone(), self.jobs.clone(), self.board.clone());
        move |term, starting| {
            let (database, traces) = (database.clone(), traces.clone());
            let scope = Scope { database, instance, term, stop: starting.token(), traces };
            let poll_interval = config.poll_interval;
            starting.start(
                Dispatch {
                    batches: Batches { scope: scope.clone(), calendars: Arc::default() },
                    batch_size: config.batch_size,
                    poll_interval,
                    lanes: lanes(&config),
                    seen: seen.clone(),
                    ahead: None,
                    plans: Plans::default(),
                },
                poll_interval,
            );
            starting.start(
                Recover {
                    scope: scope.clone(),
                    worker_lease: config.worker_offline_threshold,
                    max_attempts: config.max_retry_attempts,
                },
                RECOVER_PERIOD.min(config.worker_offline_threshold / 6),
            );
            starting.start(
                Overdue {
                    scope: scope.clone(),
                    unknown_limit: config.job_timeout_threshold,
                    max_attempts: config.max_retry_attempts,
                },
                overdue::PERIOD,
            );
            starting.start(
                Strays {
                    scope: scope.clone(),
                    worker_lease: config.worker_offline_threshold,
                    unknown_limit: config.job_timeout_threshold,
                    max_attempts: config.max_retry_attempts,
                    requested: flags.recovery_requested.clone(),
                    seen: None,
                },
                strays::PERIOD,
            );
            starting.start(Counters::new(scope.clone(), flags.counters_idle.clone()), counters::PERIOD);
            starting.start(Cursors { scope: scope.clone() }, cursors::PERIOD);
            starting.start(Dependents { scope: scope.clone() }, dependents::PERIOD);
            let notify = tasks::notify::Notify::new(scope.clone()).with_public_url(config.public_url.clone());
            starting.start(notify, tasks::notify::PERIOD);
            starting.start(Lines { scope: scope.clone() }, overlap_queue::PERIOD);
            starting.start(Rezone { scope: scope.clone() }, rezone::PERIOD);
            starting.start(Waiting { scope: scope.clone(), patience: expiry::PATIENCE }, expiry::PERIOD);
            let metrics = InstallationMetrics { scope: scope.clone(), jobs: jobs.clone() };
            starting.start(metrics, installation_metrics::PERIOD);
            starting.start(Retain::new(scope.clone(), config.retention.ages, RETENTION_PAGE), retain::PERIOD);
            if let Some((receiver, overdue_after)) = heartbeat.clone() {
                let task = Heartbeat::new(scope.clone(), board.clone(), receiver, overdue_after);
                starting.start(task, heartbeat::PERIOD);
            }
            starting.start(
                Maintain {
                    scope,
                    settings: Housekeeping {
                        retention: config.retention.ages.retention,
                        idempotency_keys: config.retention.ages.idempotency_keys,
                        expiry: config.retention.expiry,
                        stale_scheduler: config.retention.stale_scheduler,
                        stale_worker: config.retention.stale_worker,
                    },
                },
                maintain::PERIOD,
            );
        }
    }
}

/// Shows operators of the service manager what this scheduler does.
async fn report_role(mut role: watch::Receiver<Role>, service: ServiceManager) -> Result<(), BoxError> {
    loop {
        match role.borrow_and_update().term() {
            Some(term) => service.status(format_args!("leads term {}", term.0)),
            None => service.status("standby"),
        }
        if role.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// Concurrent transactions of the tick. One connection of the pool stays free for the other tasks.
fn lanes(config: &Config) -> u32 {
    let spare = config.database.pool_size.saturating_sub(1);
    config.lanes.min(spare).max(1)
}

fn database_settings(config: &Config) -> DatabaseSettings {
    let from = &config.database;
    DatabaseSettings {
        url: from.url.expose_secret().to_owned(),
        application: crate::PROGRAM.name.to_owned(),
        pool_size: usize::try_from(from.pool_size).unwrap_or(1),
        connect_timeout: from.connect_timeout,
        statement_timeout: from.statement_timeout,
        lock_timeout: from.lock_timeout,
        idle_in_transaction: idle_in_transaction(config.lease),
        ca_file: from.ca_file.clone(),
        generic_plans: true,
        role: None,
    }
}

/// The server's timeout for an idle transaction. A leader that freezes inside its tick delays the
/// take-over until this timeout, so it is half a lease. The lower bound lets a slow machine compute
/// a batch.
fn idle_in_transaction(lease: Lease) -> Duration {
    (lease.duration() / 2).clamp(SHORTEST_IDLE, IDLE_IN_TRANSACTION)
}

fn hostname() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "unknown".to_owned())
}

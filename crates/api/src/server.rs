//! The life cycle of the API: bind, serve, find the database, stop.
//!
//! Binding comes first, so that a taken port is reported at once. Serving begins before the
//! database is found, so that the health pages can report the wait. An unsuitable schema ends the
//! start. Stopping: no new connections; running requests finish, then the background tasks, then
//! the pools close. A part that ends unexpectedly ends the daemon.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpServer, web};
use sched_model::connection::migrations::SchemaError;
use sched_model::connection::pool::{IDLE_IN_TRANSACTION, InvalidDatabaseSettings};
use sched_model::domain::secret::{KeyFileError, SecretKeys};
use sched_model::{DatabaseSettings, DbError, identity::tenants};
use sched_runtime::daemon::Context;
use sched_runtime::driver::Driver;
use sched_runtime::exit::{self, BoxError, ExitError, ExitStatus};
use sched_runtime::health_endpoint::{HealthServer, HealthState, ListenError};
use sched_runtime::private_file::{self, PrivateFileError};
use sched_runtime::service_manager::ServiceManager;
use sched_runtime::shutdown::Shutdown;
use sched_runtime::tasks::{StopError, TaskError, TaskGroup};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use crate::app;
use crate::config::Config;
use crate::database::access::Sessions;
use crate::database::trigger_batcher::BatchWriter;
use crate::database::worker_notifier;
use crate::events::hub::Reader;
use crate::identity::{Identities, Tokens};
use crate::self_check;
use crate::state::{ApiState, DatabaseProbe, SessionTimes, Setup};

/// Time limit of running requests when the daemon stops, in seconds.
const STOP_SECONDS: u64 = 10;
const STOP_TASKS_WITHIN: Duration = Duration::from_secs(2);
/// Longest time in which a client may send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Longest time that a connection may stay open without a request.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Interval of histogram maintenance.
const UPKEEP: Duration = Duration::from_secs(5);
/// Pause before the next lookup of the tenant.
const TENANT_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or the address is not local.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The database settings are invalid.
    #[error(transparent)]
    Settings(#[from] InvalidDatabaseSettings),
    #[error("cannot use the file of secrets-key-file (SECRETS_KEY_FILE)")]
    SecretsFile(#[source] PrivateFileError),
    #[error("{path} of secrets-key-file (SECRETS_KEY_FILE) contains no valid keys", path = path.display())]
    SecretKeys {
        path: PathBuf,
        #[source]
        source: KeyFileError,
    },
    #[error("cannot use the keys of tokens (jwt-secret-file, jwt-jwks-url)")]
    Tokens(#[source] BoxError),
    /// The schema, or the role in the database, is unsuitable.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The schema fits, but the default tenant is missing.
    #[error("the database has no tenant {:?}; create it with `schedctl migrate up`", tenants::DEFAULT_TENANT)]
    NoTenant,
    #[error("the HTTP server failed")]
    Serve(#[source] io::Error),
    #[error("the HTTP server ended unexpectedly")]
    Ended,
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Stop(#[from] StopError),
}

impl ExitStatus for StartError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Listen(_) => exit::LISTEN,
            Self::Settings(_) | Self::SecretsFile(_) | Self::SecretKeys { .. } | Self::Tokens(_) => {
                exit::USAGE
            }
            Self::Schema(SchemaError::Database(_) | SchemaError::SharedSessions) => exit::DATABASE,
            Self::Schema(_) | Self::NoTenant => exit::SCHEMA,
            Self::Serve(_) | Self::Ended | Self::Task(_) | Self::Stop(_) => exit::FAILURE,
        }
    }
}

#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
    state: web::Data<ApiState>,
    probe: Driver<DatabaseProbe>,
    batch_writer: BatchWriter,
    health: HealthState,
    service: ServiceManager,
    health_server: Option<HealthServer>,
}

/// Runs the API until `context` stops it, or fails when a part of it ends unexpectedly.
pub async fn run(config: Config, context: Context) -> Result<(), ExitError> {
    Ok(build(config, &context)?.run(&context.shutdown).await?)
}

/// Binds the address and checks the settings; does not connect yet.
pub fn build(config: Config, context: &Context) -> Result<Server, StartError> {
    let address = config.socket_addr();
    let sessions = Sessions::new(database_settings(&config))?;
    let tokens = config.jwt.map(Tokens::new).transpose().map_err(StartError::Tokens)?;
    let secret_keys = config.secrets.key_file.as_deref().map(secret_keys).transpose()?;
    let fault = |source| ListenError { address, setting: "api-port", source };
    let listener = TcpListener::bind(address).map_err(fault)?;
    let addr = listener.local_addr().map_err(fault)?;
    let (state, probe, batch_writer) = ApiState::new(Setup {
        sessions,
        default_timezone: config.default_timezone,
        public_url: config.public_url,
        leader_lease: config.leader_lease,
        stuck: config.stuck,
        secret_keys,
        identities: Identities::new(config.key_environment, config.request_rate, tokens),
        allowed_hosts: config.allowed_hosts,
        stream_patience: config.stream_patience,
        session_times: SessionTimes { idle: config.session_idle, lifetime: config.session_lifetime },
        trusted_proxies: config.trusted_proxies,
        traces: context.traces.clone(),
    });
    let state = Arc::new(state);
    let health = HealthState::new(&context.program, state.clone(), context.metrics.clone());
    let service = context.service.clone();
    let health_server =
        config.health.map(|settings| HealthServer::bind(&settings, health.clone())).transpose()?;
    let state = state.into();
    Ok(Server { listener, addr, state, probe, batch_writer, health, service, health_server })
}

impl Server {
    /// Has the actual port for port 0.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `shutdown`, and until the running requests have ended.
    ///
    /// Fails if the schema is unsuitable or a part of the API ends unexpectedly.
    pub async fn run(self, shutdown: &Shutdown) -> Result<(), StartError> {
        let Self { listener, addr, state, probe, batch_writer, health, service, health_server } = self;
        let shared = (state.clone(), health.clone());
        // Runs once on each serving thread.
        let on_a_thread = move || {
            shared.0.sessions.serve_here();
            app::build(shared.0.clone(), shared.1.clone())
        };
        let server = HttpServer::new(on_a_thread)
            .workers(state.sessions.threads())
            .disable_signals()
            .client_request_timeout(HEAD_WITHIN)
            .keep_alive(KEEP_ALIVE)
            // Otherwise the second packet of an answer waits for the acknowledgement of the first.
            .tcp_nodelay(true)
            .shutdown_timeout(STOP_SECONDS)
            .listen(listener)
            .map_err(StartError::Serve)?
            .run();
        let handle = server.handle();
        tracing::info!(api.address = %addr, health.address = %addr, "listening");
        let mut server = pin!(server);
        let mut background = TaskGroup::new();
        background.spawn("upkeep", upkeep(health, background.token()));
        if service.has_watchdog() {
            background.spawn("watchdog", self_check::run(addr, service.clone(), shutdown.soft.clone()));
        }
        service.ready(format_args!("listens on {addr}"));
        if let Some(server) = health_server {
            background.spawn("health", server.run(background.token()));
        }
        // They end after the last request.
        background.spawn("write_triggers", batch_writer.run(background.token()));
        background.spawn(
            "tell_workers",
            worker_notifier::notify_workers(state.hints.clone(), state.sessions.clone(), background.token()),
        );

        let result = tokio::select! {
            ended = &mut server => {
                state.sessions.close();
                return Err(ended.map_or_else(StartError::Serve, |()| StartError::Ended));
            }
            result = serve(&state, probe, &mut background, &shutdown.soft) => result,
        };
        state.stopping();
        let stop = async {
            tokio::select! {
                () = handle.stop(true) => {}
                () = shutdown.hard.cancelled() => handle.stop(false).await,
            }
        };
        // The server stops only while its future is polled.
        let (ended, ()) = tokio::join!(server, stop);
        let stopped = background.stop(STOP_TASKS_WITHIN).await;
        state.sessions.close();
        result?;
        ended.map_err(StartError::Serve)?;
        Ok(stopped?)
    }
}

async fn serve(
    state: &ApiState,
    probe: Driver<DatabaseProbe>,
    background: &mut TaskGroup,
    stop: &CancellationToken,
) -> Result<(), StartError> {
    tokio::select! {
        found = find_tenant(&state.sessions) => found?,
        ended = background.run_until(stop) => return Ok(ended?),
    };
    state.open();
    tracing::info!("database is usable; serving requests");
    background.spawn("look_for_database", probe.run(background.token()));
    let reader = Reader::new(state.hub.clone(), state.sessions.clone());
    background.spawn("read_events", reader.run(background.token()));
    Ok(background.run_until(stop).await?)
}

async fn find_tenant(sessions: &Sessions) -> Result<(), StartError> {
    loop {
        sessions.wait_until_usable().await?;
        match sessions.default_tenant().await {
            Ok(_) => return Ok(()),
            Err(DbError::NotFound) => return Err(StartError::NoTenant),
            Err(error) => {
                let cause = error.with_causes();
                tracing::warn!(error = cause, "cannot read the tenant yet; retrying");
                tokio::time::sleep(TENANT_PAUSE).await;
            }
        }
    }
}

fn secret_keys(path: &Path) -> Result<SecretKeys, StartError> {
    let text = private_file::read(path).map_err(StartError::SecretsFile)?;
    SecretKeys::parse(text.expose_secret())
        .map_err(|source| StartError::SecretKeys { path: path.to_owned(), source })
}

async fn upkeep(health: HealthState, stop: CancellationToken) -> Result<(), BoxError> {
    let mut tick = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = tick.tick() => health.upkeep(),
        }
    }
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
        idle_in_transaction: IDLE_IN_TRANSACTION,
        ca_file: from.ca_file.clone(),
        // The filters of lists differ per request. Reads whose plan is always the same opt in.
        generic_plans: false,
        role: None,
    }
}

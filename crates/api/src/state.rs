//! State that requests share, and the readiness of the daemon.
//!
//! Requests are admitted once the database was reached; until then they get `starting`. Afterwards
//! a small task checks the database periodically, so readiness is answered from memory. Requests do
//! not check first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sched_model::domain::secret::SecretKeys;
use sched_model::recovery::stuck_attempts::Thresholds;
use sched_runtime::driver::{Activation, Backoff, Driver, Report, TaskStatus};
use sched_runtime::exit::BoxError;
use sched_runtime::health_endpoint::{Readiness, StatusSource};
use sched_runtime::traces::Traces;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::convert::effective::InstallationDefaults;
use crate::database::access::Sessions;
use crate::database::trigger_batcher::{BatchWriter, TriggerBatcher};
use crate::database::worker_notifier::WorkerNotifier;
use crate::error::ApiError;
use crate::events::Hub;
use crate::events::reads::Reads;
use crate::http::client_address::Network;
use crate::http::stream_limits::{Limits, StreamSlots};
use crate::identity::registry::Identities;

const LOOK_PERIOD: Duration = Duration::from_secs(5);
const LOOK_BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), cap: LOOK_PERIOD };

/// Clients that read or follow the output of runs. Each holds one page of it, and polls the
/// database twice a second.
const FOLLOWERS: Limits = Limits { all: 100, tenant: 60, key: 30 };
/// Clients that follow events. One reader serves them all; a client that is behind holds one page.
const LISTENERS: Limits = Limits { all: 1000, tenant: 600, key: 200 };
/// Each hash takes one core and 19 MiB for some tens of milliseconds.
const HASHINGS: usize = 2;
/// Longest wait for a hash. It is shorter than the request limit, so a request that gave up has not
/// begun to hash.
const HASHING_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) sessions: Sessions,
    pub(crate) default_timezone: String,
    /// URL under which people reach this API.
    pub(crate) public_url: Option<String>,
    pub(crate) leader_lease: Duration,
    pub(crate) stuck: Thresholds,
    pub(crate) secret_keys: Option<SecretKeys>,
    pub(crate) identities: Identities,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) stream_patience: Duration,
    pub(crate) session_times: SessionTimes,
    pub(crate) trusted_proxies: Vec<Network>,
    pub(crate) traces: Traces,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionTimes {
    /// Longest time without use.
    pub(crate) idle: Duration,
    /// Longest total time.
    pub(crate) lifetime: Duration,
}

#[derive(Debug)]
pub(crate) struct ApiState {
    pub(crate) sessions: Sessions,
    pub(crate) default_timezone: String,
    /// URL under which people reach this API.
    pub(crate) public_url: Option<String>,
    /// A leader whose last heartbeat is older counts as gone.
    pub(crate) leader_lease: Duration,
    /// The thresholds by which a dry run finds an attempt stuck.
    pub(crate) stuck: Thresholds,
    secret_keys: Option<SecretKeys>,
    pub(crate) followers: StreamSlots,
    pub(crate) listeners: StreamSlots,
    pub(crate) hub: Arc<Hub>,
    pub(crate) event_reads: Reads,
    pub(crate) total_reads: Reads,
    /// Longest time that a client of a stream may take to accept a message.
    pub(crate) stream_patience: Duration,
    pub(crate) identities: Identities,
    pub(crate) triggers: TriggerBatcher,
    pub(crate) hints: Arc<WorkerNotifier>,
    hashing: Semaphore,
    pub(crate) session_times: SessionTimes,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub(crate) trusted_proxies: Vec<Network>,
    /// Hosts that requests without a key may name, besides loopback names.
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) traces: Traces,
    is_open: AtomicBool,
    is_stopping: AtomicBool,
    probe: watch::Receiver<TaskStatus>,
}

impl ApiState {
    pub(crate) fn new(setup: Setup) -> (Self, Driver<DatabaseProbe>, BatchWriter) {
        let Setup {
            sessions,
            default_timezone,
            public_url,
            leader_lease,
            stuck,
            secret_keys,
            identities,
            allowed_hosts,
            stream_patience,
            session_times,
            trusted_proxies,
            traces,
        } = setup;
        let probe =
            Driver::new(DatabaseProbe { sessions: sessions.clone() }, LOOK_PERIOD).backoff(LOOK_BACKOFF);
        let hints = Arc::<WorkerNotifier>::default();
        let (triggers, batch_writer) = TriggerBatcher::new(sessions.clone(), hints.clone());
        let state = Self {
            sessions,
            default_timezone,
            public_url,
            leader_lease,
            stuck,
            secret_keys,
            followers: StreamSlots::new(FOLLOWERS),
            listeners: StreamSlots::new(LISTENERS),
            hub: Arc::default(),
            event_reads: Reads::default(),
            total_reads: Reads::default(),
            stream_patience,
            identities,
            triggers,
            hints,
            hashing: Semaphore::new(HASHINGS),
            session_times,
            trusted_proxies,
            allowed_hosts,
            traces,
            is_open: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            probe: probe.status(),
        };
        (state, probe, batch_writer)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Waits for a permit to hash a password. Dropping it returns it. Fails if too many requests
    /// wait.
    pub(crate) async fn hashing_turn(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        match tokio::time::timeout(HASHING_WAIT, self.hashing.acquire()).await {
            Ok(turn) => turn.map_err(|_closed| ApiError::Broken),
            Err(_elapsed) => Err(ApiError::TooManyPasswords),
        }
    }

    /// The defaults of the installation that answers show.
    pub(crate) fn defaults(&self) -> InstallationDefaults {
        InstallationDefaults { max_attempts: self.stuck.max_attempts }
    }

    pub(crate) fn ring(&self) -> Option<&SecretKeys> {
        self.secret_keys.as_ref()
    }

    pub(crate) fn secret_keys(&self) -> Result<&SecretKeys, ApiError> {
        self.secret_keys.as_ref().ok_or(ApiError::NoSecretKeys)
    }

    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Whether the daemon stops. Streams must end then; their clients continue at another process.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Marks the daemon as stopping. Requests that have arrived are still served.
    pub(crate) fn stopping(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }
}

impl StatusSource for ApiState {
    fn ready(&self) -> Readiness {
        if self.is_stopping() {
            return Readiness::NotReady("the API is stopping".to_owned());
        }
        if !self.is_open() {
            return Readiness::NotReady("the database is not usable yet".to_owned());
        }
        let probe = self.probe.borrow();
        match &probe.last_error {
            // The cause may name hosts and roles, so it is only in the log.
            Some(_) if probe.consecutive_failures > 0 => {
                Readiness::NotReady("the database cannot be reached".to_owned())
            }
            _ => Readiness::Ready,
        }
    }

    fn status(&self) -> Value {
        let probe = self.probe.borrow();
        json!({
            "database_found": self.is_open(),
            "stopping": self.is_stopping.load(Ordering::Relaxed),
            "database_latency_ms": probe.last_duration_ms.filter(|_| probe.consecutive_failures == 0),
            "event_streams": self.hub.listeners(),
            "default_timezone": self.default_timezone,
            "secret_keys": self.secret_keys.as_ref().map(|keys| keys.ids().collect::<Vec<_>>()),
        })
    }
}

#[derive(Debug)]
pub(crate) struct DatabaseProbe {
    sessions: Sessions,
}

impl Activation for DatabaseProbe {
    fn name(&self) -> &'static str {
        "look_for_database"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        self.sessions.ping().await?;
        Ok(Report::idle())
    }
}

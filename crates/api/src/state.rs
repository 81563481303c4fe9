//! What the requests share, and what the daemon says about itself.
//!
//! Requests are let in once the database has been reached; until then they are answered with "starting". Afterwards a
//! small task looks for the database now and then, so that readiness is told from memory. Requests do not ask it first:
//! each tries for itself.

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

use crate::database::access::Sessions;
use crate::database::trigger_batcher::{Gatherer, Gathering};
use crate::database::worker_notifier::Hints;
use crate::error::ApiError;
use crate::events::Hub;
use crate::events::reads::Reads;
use crate::http::client_address::Network;
use crate::http::stream_limits::{Limits, Places};
use crate::identity::Identities;

/// Time between two looks for the database.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// Waits between looks that fail.
const LOOK_BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), cap: LOOK_PERIOD };

/// Clients that read or follow the output of runs at once: each holds a page of it, and who follows looks at the database
/// twice a second.
const FOLLOWERS: Limits = Limits { all: 100, tenant: 60, key: 30 };
/// Clients that follow events at once: one reader serves them all, and who has fallen behind holds a page.
const LISTENERS: Limits = Limits { all: 1000, tenant: 600, key: 200 };
/// Most passwords that are hashed at once: each takes a core and 19 MiB for some tens of milliseconds.
const HASHINGS: usize = 2;
/// How long one waits for its turn: less than a request may take, so that what was given up has not been begun.
const HASHING_WAIT: Duration = Duration::from_secs(10);

/// What the state is made of.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) sessions: Sessions,
    pub(crate) default_timezone: String,
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

/// How long people stay signed in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionTimes {
    /// Without using it.
    pub(crate) idle: Duration,
    /// At most.
    pub(crate) lifetime: Duration,
}

/// What the requests share.
#[derive(Debug)]
pub(crate) struct ApiState {
    pub(crate) sessions: Sessions,
    pub(crate) default_timezone: String,
    /// Silence after which a leader is none.
    pub(crate) leader_lease: Duration,
    /// From when on a dry run takes an attempt for stuck.
    pub(crate) stuck: Thresholds,
    secret_keys: Option<SecretKeys>,
    /// Places of clients that follow output.
    pub(crate) followers: Places,
    /// Places of clients that follow events.
    pub(crate) listeners: Places,
    /// What feeds those.
    pub(crate) hub: Arc<Hub>,
    /// Who reads what lies behind in the stream of events.
    pub(crate) event_reads: Reads,
    /// Who counts what may be much.
    pub(crate) total_reads: Reads,
    /// How long a client of a stream may take over a piece of it.
    pub(crate) stream_patience: Duration,
    pub(crate) identities: Identities,
    /// Where triggers go together.
    pub(crate) gathering: Gathering,
    /// What the workers are still to be told.
    pub(crate) hints: Hints,
    /// One permit for each password that may be hashed at the same time.
    hashing: Semaphore,
    /// How long people stay signed in.
    pub(crate) session_times: SessionTimes,
    /// Who is believed about for whom they ask.
    pub(crate) trusted_proxies: Vec<Network>,
    /// Hosts that requests without a key may be for, besides loopback ones.
    pub(crate) allowed_hosts: Vec<String>,
    /// Where spans go.
    pub(crate) traces: Traces,
    is_open: AtomicBool,
    is_stopping: AtomicBool,
    look: watch::Receiver<TaskStatus>,
}

impl ApiState {
    /// The state of a daemon that starts, the task that will look for its database, and the one that will write triggers.
    pub(crate) fn new(setup: Setup) -> (Self, Driver<Look>, Gatherer) {
        let Setup {
            sessions,
            default_timezone,
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
        let look = Driver::new(Look { sessions: sessions.clone() }, LOOK_PERIOD).backoff(LOOK_BACKOFF);
        let (gathering, gatherer) = Gathering::new(sessions.clone());
        let state = Self {
            sessions,
            default_timezone,
            leader_lease,
            stuck,
            secret_keys,
            followers: Places::new(FOLLOWERS),
            listeners: Places::new(LISTENERS),
            hub: Arc::default(),
            event_reads: Reads::default(),
            total_reads: Reads::default(),
            stream_patience,
            identities,
            gathering,
            hints: Hints::default(),
            hashing: Semaphore::new(HASHINGS),
            session_times,
            trusted_proxies,
            allowed_hosts,
            traces,
            is_open: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            look: look.status(),
        };
        (state, look, gatherer)
    }

    /// Whether requests are let in.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Waits for the turn to hash a password, which ends when it is dropped.
    ///
    /// # Errors
    /// Too many wait.
    pub(crate) async fn hashing_turn(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        match tokio::time::timeout(HASHING_WAIT, self.hashing.acquire()).await {
            Ok(turn) => turn.map_err(|_closed| ApiError::Broken),
            Err(_elapsed) => Err(ApiError::TooManyPasswords),
        }
    }

    /// The key ring, if there is one.
    pub(crate) fn ring(&self) -> Option<&SecretKeys> {
        self.secret_keys.as_ref()
    }

    /// The keys that seal secrets.
    pub(crate) fn secret_keys(&self) -> Result<&SecretKeys, ApiError> {
        self.secret_keys.as_ref().ok_or(ApiError::NoSecretKeys)
    }

    /// Lets requests in.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Whether the daemon stops, so that streams must end; their clients go on elsewhere.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Says that the daemon stops. Requests that are here already are served.
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
            return Readiness::NotReady("the database cannot be used yet".to_owned());
        }
        let look = self.look.borrow();
        match &look.last_error {
            // The cause may name hosts and roles; it stands in the log.
            Some(_) if look.consecutive_failures > 0 => {
                Readiness::NotReady("the database cannot be reached".to_owned())
            }
            _ => Readiness::Ready,
        }
    }

    fn status(&self) -> Value {
        let look = self.look.borrow();
        json!({
            "database_found": self.is_open(),
            "stopping": self.is_stopping.load(Ordering::Relaxed),
            "database_latency_ms": look.last_duration_ms.filter(|_| look.consecutive_failures == 0),
            "event_streams": self.hub.listeners(),
            "default_timezone": self.default_timezone,
            "secret_keys": self.secret_keys.as_ref().map(|keys| keys.ids().collect::<Vec<_>>()),
        })
    }
}

/// Looks whether the database answers.
#[derive(Debug)]
pub(crate) struct Look {
    sessions: Sessions,
}

impl Activation for Look {
    fn name(&self) -> &'static str {
        "look_for_database"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        self.sessions.look().await?;
        Ok(Report::idle())
    }
}

//! A session: one identity of the worker, with its lease and everything that depends on it.
//!
//! This module has the state that a session shares with its tasks. [`lifecycle`] runs it.

pub(crate) mod heartbeat;
pub(crate) mod lifecycle;
pub(crate) mod multi_worker;
pub(crate) mod recovery;
pub(crate) mod trust;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sched_model::domain::ids::WorkerId;
use sched_model::domain::secret::SecretKeys;
use sched_runtime::service_manager::ServiceManager;
use sched_runtime::traces::Traces;
use sched_runtime::tracker::Tracker;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempt::counters::Counters;
use crate::attempt::live::LiveBuffer;
use crate::backend::Backend;
use crate::claiming::prefetch::{MAX_AHEAD, Prefetch};
use crate::completion::CompleterHandle;
use crate::config::Config;
use crate::handlers::Handlers;
use crate::handlers::native::NativeHandler;
use crate::meters::Meters;
use crate::session::trust::LeaseTrust;

/// Places besides one per slot: results that wait to be stored, and runs that wait for a slot.
pub(crate) const EXTRA_PLACES: usize = 4 * MAX_AHEAD;

#[derive(Debug, Clone)]
pub(crate) struct Worker {
    /// Version of the program.
    pub(crate) version: &'static str,
    pub(crate) config: Arc<Config>,
    pub(crate) backend: Backend,
    pub(crate) handlers: Arc<Handlers>,
    /// One of `handlers`, for attempts that run in place.
    pub(crate) native: Arc<NativeHandler>,
    pub(crate) secret_keys: Option<Arc<SecretKeys>>,
    pub(crate) completer: CompleterHandle,
    /// One permit per slot, held while a handler runs.
    pub(crate) slots: Arc<Semaphore>,
    /// One permit per run that this worker may hold, from before its claim until its result is
    /// stored.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) prefetch: Arc<Prefetch>,
    pub(crate) wake: Arc<Notify>,
    /// Requests a heartbeat now, because a run of this worker was cancelled.
    pub(crate) beat_now: Arc<Notify>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) live_buffer: Arc<LiveBuffer>,
    pub(crate) meters: Meters,
    pub(crate) traces: Traces,
    /// Receives failed runs, if the operator enables it.
    pub(crate) tracker: Tracker,
    pub(crate) service: ServiceManager,
}

#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) worker: Worker,
    pub(crate) id: WorkerId,
    pub(crate) attempts: TaskTracker,
    pub(crate) stop_claiming: CancellationToken,
    /// Whether an operator wants the worker to drain, according to the latest heartbeat.
    pub(crate) draining: Arc<watch::Sender<bool>>,
    /// Stops running attempts softly, to release them.
    pub(crate) release: CancellationToken,
    /// Kills running attempts without a report.
    pub(crate) kill: CancellationToken,
    /// No attempt starts after the end of the trust, even before the heartbeat task detects the
    /// loss.
    pub(crate) trust: Arc<watch::Sender<LeaseTrust>>,
    /// Notified while no scheduler has led for long.
    pub(crate) no_leader: Arc<Notify>,
    /// Attempts that ended without a report. Their runs are left to recovery.
    pub(crate) left: Arc<AtomicUsize>,
}

impl Session {
    pub(crate) fn count_left(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

/// The worker ended with unfinished runs, which other workers must repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnfinishedWork {
    /// Another worker may start the runs soon.
    #[error(
        "native handlers still run after the lease was lost, because they neither check their cancellation nor reach an await; the \
         process ends so that no run executes twice at once"
    )]
    LeaseLost,
    /// The runs could not be released.
    #[error(
        "native handlers still run after the stop of the worker, because they neither check their cancellation nor reach an \
         await; the process ends with them, and other workers repeat the runs when the lease has expired"
    )]
    Stopped,
    /// The worker had to stop at once, or could not store the results.
    #[error("{attempts} attempts were killed or could not be stored; their runs are left to recovery")]
    Left {
        /// Number of attempts.
        attempts: usize,
    },
}

//! Several workers in one process, to see what a large fleet asks of the database without a machine for each.
//!
//! Each has an identity, a registration, a lease and a heartbeat on a connection of its own, its own slots, poller and completer, as
//! if it were alone; what one claims no other touches. They share the pool of connections, the listener, the handlers and
//! the health listener, which tells of the first. If the process dies, all their leases run out at once. It is nothing for
//! production: one worker with more slots does the same for less.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use sched_runtime::shutdown::Shutdown;
use tokio::sync::{Notify, Semaphore};

use crate::attempt::counters::Seen;
use crate::claiming::prefetch::Pace;
use crate::completion::Completer;
use crate::daemon::KEPT_RESULTS;
use crate::session::{UnfinishedWork, Worker};

/// Between the starts of two workers, so that not all connect at once.
const STAGGER: Duration = Duration::from_millis(5);

impl Worker {
    /// Another worker that shares with this one what can be shared, and its completer, which is to be run.
    pub(crate) fn another(&self) -> (Self, Completer) {
        let seen = Arc::new(Seen::new());
        let wake = Arc::new(Notify::new());
        let count_of_slots = usize::try_from(self.config.concurrency).unwrap_or(1);
        let slots = Arc::new(Semaphore::new(count_of_slots));
        let (completer, handle) =
            Completer::new(self.database.clone(), seen.clone(), wake.clone(), slots.clone());
        let another = Self {
            completer: handle,
            slots,
            places: Arc::new(Semaphore::new(count_of_slots + KEPT_RESULTS)),
            pace: Arc::new(Pace::new(self.config.concurrency)),
            wake,
            beat_now: Arc::new(Notify::new()),
            seen,
            ..self.clone()
        };
        (another, completer)
    }
}

/// Runs workers, one after the other begun, until they are told to stop.
///
/// # Errors
/// The first of any of them.
pub(crate) async fn run(workers: Vec<Worker>, shutdown: Shutdown) -> Result<(), UnfinishedWork> {
    let (mut pause, mut begun) = (Duration::ZERO, Vec::new());
    for worker in workers {
        let (shutdown, wait) = (shutdown.clone(), pause);
        begun.push(async move {
            tokio::select! {
                () = shutdown.soft.cancelled() => Ok(()),
                () = tokio::time::sleep(wait) => worker.run(shutdown.clone()).await,
            }
        });
        pause += STAGGER;
    }
    try_join_all(begun).await.map(drop)
}

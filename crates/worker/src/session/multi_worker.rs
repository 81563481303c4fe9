//! Several workers in one process, to measure how a large fleet loads the database.
//!
//! They share the connection pool, the listener, the handlers and the health endpoint, which
//! reports the first worker. Everything else is separate. If the process dies, all leases expire at
//! once. Not for production: one worker with more slots does the same with less.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use sched_runtime::shutdown::Shutdown;
use tokio::sync::{Notify, Semaphore};

use crate::attempt::counters::Counters;
use crate::claiming::prefetch::Prefetch;
use crate::completion::Completer;
use crate::session::{EXTRA_PLACES, UnfinishedWork, Worker};

/// Not all workers connect at once.
const STAGGER: Duration = Duration::from_millis(5);

impl Worker {
    /// The caller has to run the completer.
    pub(crate) fn another(&self) -> (Self, Completer) {
        let counters = Arc::new(Counters::new());
        let wake = Arc::new(Notify::new());
        let count_of_slots = usize::try_from(self.config.concurrency).unwrap_or(1);
        let slots = Arc::new(Semaphore::new(count_of_slots));
        let (completer, handle) =
            Completer::new(self.backend.clone(), counters.clone(), wake.clone(), slots.clone());
        let another = Self {
            completer: handle,
            slots,
            places: Arc::new(Semaphore::new(count_of_slots + EXTRA_PLACES)),
            prefetch: Arc::new(Prefetch::new(self.config.concurrency)),
            wake,
            beat_now: Arc::new(Notify::new()),
            counters,
            ..self.clone()
        };
        (another, completer)
    }
}

/// Starts one after another. The error is the first of any of them.
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

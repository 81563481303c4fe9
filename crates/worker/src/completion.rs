//! Storing the ends of attempts: gathered for a few milliseconds, many per commit.
//!
//! The completer outlives sessions. A result is worth storing even if the lease was lost since: its
//! claim token decides. The number of connections depends on the fleet
//! ([`crate::claiming::fleet`]).
//!
//! - While the database is unavailable, the completer keeps results and retries. Their places stay
//!   taken, so the worker then claims nothing more.
//! - A result that the database rejects permanently is stored as a failure that names the reason,
//!   without the content of its handler. Permanent means a violated constraint, or a rejection that
//!   lasts half a minute: a full disk or a missing permission may pass.
//! - No result is dropped, except by a worker that stops and has waited long enough.
//! - Results are bounded by number and by size. PostgreSQL rejects a transaction of more than a
//!   gigabyte, and may time out with less. At the bound of all kept results, attempts that have
//!   ended keep their slots.
//! - A batch that fails repeatedly without an answer is halved.
//!
//! After a connection broke during a commit, the outcome is unknown. Storing the same result again
//! is harmless. If its claim no longer holds then, history shows whether the result was stored.

#[cfg(test)]
mod bounds;
mod counted;
mod counting;
mod open_claims;
mod retry_budget;
mod size;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::{BoxError, OwnedTask, TaskError, spawn_owned};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::attempt::counters::Counters;
use crate::backend::{Backend, Ended};
use crate::claiming::fleet::MAX_WRITERS;
use crate::completion::open_claims::OpenClaims;
use writer::Writer;

pub(crate) use counted::show as show_counters;
pub(crate) use size::bytes_of;

/// The first result of a batch waits this long for more.
const GATHER: Duration = Duration::from_millis(3);
/// Time between the starts of two transactions while all slots are taken. Then handlers need the
/// processor time.
const SPACING: Duration = Duration::from_millis(40);
/// Also the number of results that wait to be gathered.
pub(crate) const MAX_RESULTS: usize = 500;
/// No result is added to a transaction of this size.
const MAX_BYTES: usize = 16 << 20;
/// Maximum bytes of results that wait to be stored.
const KEPT_BYTES: usize = 256 << 20;
/// Granularity of [`KEPT_BYTES`].
const UNIT_BYTES: usize = 1 << 10;
/// A batch is halved after this many failures without an answer in a row.
const HALVED_AFTER: u32 = 3;
/// A writer that takes longer repeats a failure, or the database is slow.
const SLOW_WRITE: Duration = Duration::from_millis(250);
/// First and longest pause between two attempts to store the same results.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// An error of an unknown kind counts as a rejection only after this.
const REFUSED_AFTER: Duration = Duration::from_secs(30);
/// Time limit for storing the last results of a stopping worker.
pub(crate) const FLUSH_WITHIN: Duration = Duration::from_secs(60);

const COMPLETER_ENDED: &str = "the completer has ended";
const DATABASE_UNAVAILABLE: &str = "the worker stops, and the database was unavailable for too long";

/// A result with the claim and the place of its run.
#[derive(Debug)]
pub(crate) struct EndedAttempt {
    pub(crate) claim: i64,
    pub(crate) ended: Ended,
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

struct Message {
    claim: Option<i64>,
    ended: Ended,
    bytes: usize,
    at: Instant,
    /// Place and room, freed when the result is stored.
    held: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
}

#[derive(Debug, Clone)]
pub struct CompleterHandle {
    sender: mpsc::Sender<Message>,
    open_claims: Arc<OpenClaims>,
    unwritten: watch::Sender<usize>,
    /// Notified when ends are stored.
    stored: Arc<Notify>,
    /// The free part of [`KEPT_BYTES`].
    budget: Arc<Semaphore>,
    /// No result waits for room any more.
    gave_up: CancellationToken,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("run", &self.ended.dispatch_id).finish_non_exhaustive()
    }
}

impl CompleterHandle {
    /// Announces a claim of `runs` runs. The result of each run is sent once, or never.
    pub(crate) fn expect(&self, claim: i64, runs: usize) {
        self.open_claims.expect(claim, runs);
    }

    /// Waits for room for a result of this size. The waiting attempt keeps its slot, so the worker
    /// runs no more than it can keep. Returns `None` after [`CompleterHandle::give_up`].
    pub(crate) async fn room_for(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = (bytes / UNIT_BYTES + 1).min(KEPT_BYTES / UNIT_BYTES);
        let room = self.budget.clone().acquire_many_owned(u32::try_from(units).unwrap_or(u32::MAX));
        tokio::select! {
            biased;
            // The semaphore is never closed.
            room = room => room.ok(),
            () = self.gave_up.cancelled() => None,
        }
    }

    /// For an attempt that has almost no result; waits while the completer is behind.
    pub(crate) async fn send(&self, claim: Option<i64>, ended: Ended, place: Option<OwnedSemaphorePermit>) {
        self.send_holding(claim, ended, (place, None)).await;
    }

    /// The attempt holds its permits until it is stored. Waits while the completer is behind.
    pub(crate) async fn send_holding(
        &self,
        claim: Option<i64>,
        ended: Ended,
        held: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
    ) {
        self.unwritten.send_modify(|count| *count += 1);
        let (bytes, run, at) = (bytes_of(&ended), ended.dispatch_id, monotonic());
        let why = tokio::select! {
            biased;
            sent = self.sender.send(Message { claim, ended, bytes, at, held }) => match sent {
                Ok(()) => return,
                // The completer only ends with the process.
                Err(_) => COMPLETER_ENDED,
            },
            () = self.gave_up.cancelled() => DATABASE_UNAVAILABLE,
        };
        tracing::error!(run.id = %run, why, "result lost; its run is left to recovery");
    }

    /// [`CompleterHandle::room_for`] and [`CompleterHandle::send_holding`] for a few results at
    /// once: less than [`MAX_RESULTS`], which together fit in [`KEPT_BYTES`].
    pub(crate) async fn send_all(&self, results: Vec<EndedAttempt>) {
        if results.is_empty() {
            return;
        }
        let count = results.len();
        let sizes: Vec<usize> = results.iter().map(|one| bytes_of(&one.ended)).collect();
        let bytes = sizes.iter().map(|bytes| bytes + UNIT_BYTES).sum();
        let mut room = self.room_for(bytes).await;
        self.unwritten.send_modify(|unwritten| *unwritten += count);
        let at = monotonic();
        let why = tokio::select! {
            biased;
            permits = self.sender.reserve_many(count) => match permits {
                Ok(permits) => {
                    for ((permit, result), bytes) in permits.zip(results).zip(sizes) {
                        let EndedAttempt { claim, ended, place } = result;
                        let room = room.as_mut().and_then(|room| room.split(bytes / UNIT_BYTES + 1));
                        permit.send(Message { claim: Some(claim), ended, bytes, at, held: (place, room) });
                    }
                    return;
                }
                Err(_) => COMPLETER_ENDED,
            },
            () = self.gave_up.cancelled() => DATABASE_UNAVAILABLE,
        };
        for one in &results {
            tracing::error!(run.id = %one.ended.dispatch_id, why, "result lost; its run is left to recovery");
        }
    }

    /// Ends all waits, because the process ends. The runs of unstored results are recovered.
    pub(crate) fn give_up(&self) {
        self.gave_up.cancel();
    }

    fn count_written(&self, results: usize) -> bool {
        let mut left = 0;
        self.unwritten.send_modify(|count| {
            *count = count.saturating_sub(results);
            left = *count;
        });
        left == 0
    }

    /// Waits until every sent result is stored, for at most [`FLUSH_WITHIN`], or until
    /// [`CompleterHandle::give_up`]. Returns the number of unstored results.
    pub(crate) async fn flushed(&self) -> usize {
        let mut unwritten = self.unwritten.subscribe();
        tokio::select! {
            biased;
            _ = unwritten.wait_for(|count| *count == 0) => return 0,
            () = self.gave_up.cancelled() => {}
            () = tokio::time::sleep(FLUSH_WITHIN) => {}
        }
        let left = *self.unwritten.borrow();
        tracing::error!(results = left, "results not stored in time; their runs are left to recovery");
        left
    }
}

#[derive(Debug)]
pub(crate) struct Completer {
    writer: Writer,
    receiver: mpsc::Receiver<Message>,
    /// Not a variable of the waiting future, which may be dropped at any time.
    batch: Vec<Message>,
    slots: Arc<Semaphore>,
    handed_over: Option<Instant>,
}

impl Completer {
    pub(crate) fn new(
        backend: Backend,
        counters: Arc<Counters>,
        wake: Arc<Notify>,
        slots: Arc<Semaphore>,
    ) -> (Self, CompleterHandle) {
        let (sender, receiver) = mpsc::channel(MAX_RESULTS);
        let budget = Arc::new(Semaphore::new(KEPT_BYTES / UNIT_BYTES));
        let handle = CompleterHandle {
            sender,
            open_claims: Arc::default(),
            unwritten: watch::Sender::new(0),
            stored: Arc::default(),
            budget,
            gave_up: CancellationToken::new(),
        };
        (
            Self {
                writer: Writer { backend, counters, wake, handle: handle.clone() },
                receiver,
                batch: Vec::new(),
                slots,
                handed_over: None,
            },
            handle,
        )
    }

    /// `stop` is cancelled after the last session. The error is a panic of a writer.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), BoxError> {
        let (backend, stored) = (self.writer.backend.clone(), self.writer.handle.stored.clone());
        let mut counting = spawn_owned("counting", counting::run(backend, stored, stop.clone()));
        let mut writers: Vec<OwnedTask<()>> = Vec::new();
        loop {
            self.wait_for_writer(&mut writers).await?;
            let is_open = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                is_open = self.gather() => is_open,
                ended = &mut counting => return ended?,
                // Reported at once, not with the next batch.
                ended = one_of(&mut writers) => {
                    ended?;
                    continue;
                }
            };
            if !is_open {
                return Ok(());
            }
            let (writer, batch) = (self.writer.clone(), std::mem::take(&mut self.batch));
            self.handed_over = Some(monotonic());
            writers.push(spawn_owned("completer", async move { writer.write(batch).await }));
        }
    }

    /// Waits until another writer may start. With many workers one is enough, but while it repeats a
    /// failure, a second one stores the other results.
    async fn wait_for_writer(&self, writers: &mut Vec<OwnedTask<()>>) -> Result<(), TaskError> {
        while writers.len() >= MAX_WRITERS {
            one_of(writers).await?;
        }
        if writers.len() < self.writer.counters.fleet.writers() {
            return Ok(());
        }
        tokio::time::timeout(SLOW_WRITE, one_of(writers)).await.unwrap_or(Ok(()))
    }

    /// The next result, in place of a writer.
    #[cfg(test)]
    pub(crate) async fn next_end(&mut self) -> Ended {
        self.receiver.recv().await.unwrap().ended
    }

    /// Returns `false` when all senders are gone.
    async fn gather(&mut self) -> bool {
        if self.batch.is_empty() {
            let Some(first) = self.receiver.recv().await else { return false };
            self.batch.push(first);
        }
        let until = tokio::time::sleep(gather_time(
            self.handed_over.map(|at| at.elapsed()),
            self.slots.available_permits() > 0,
        ));
        tokio::pin!(until);
        let mut bytes: usize = self.batch.iter().map(|message| message.bytes).sum();
        while self.batch.len() < MAX_RESULTS && bytes < MAX_BYTES {
            tokio::select! {
                biased;
                message = self.receiver.recv() => match message {
                    Some(message) => {
                        bytes = bytes.saturating_add(message.bytes);
                        self.batch.push(message);
                    }
                    None => break,
                },
                () = &mut until => break,
            }
        }
        true
    }
}

fn gather_time(since_last: Option<Duration>, has_free_slot: bool) -> Duration {
    match since_last {
        Some(since) if !has_free_slot => SPACING.saturating_sub(since).max(GATHER),
        _ => GATHER,
    }
}

/// Never returns without a writer.
async fn one_of(writers: &mut Vec<OwnedTask<()>>) -> Result<(), TaskError> {
    if writers.is_empty() {
        return std::future::pending().await;
    }
    let (ended, position, _) = select_all(writers.iter_mut()).await;
    drop(writers.swap_remove(position));
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_worker_stores_results_less_often() {
        let ms = Duration::from_millis;
        for (since_last, has_free_slot, expected) in [
            (None, false, GATHER),
            (None, true, GATHER),
            (Some(ms(1)), true, GATHER),
            (Some(ms(1)), false, ms(39)),
            (Some(ms(39)), false, GATHER),
            (Some(ms(500)), false, GATHER),
        ] {
            assert_eq!(gather_time(since_last, has_free_slot), expected, "{since_last:?} {has_free_slot}");
        }
    }
}

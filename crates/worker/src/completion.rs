//! Writing how attempts ended: gathered for a few milliseconds, one commit for many.
//!
//! There is one completer for the whole process; it outlives sessions, because an attempt that has ended is worth storing
//! even if the lease was lost since: its claim token decides. It writes over [`WRITERS`] connections at once, since one waits for the
//! disk half of its time. While the database is away, results are kept and offered again until it returns; their places stay taken
//! meanwhile, so they cannot pile up without bound: then nothing more is claimed. A result that
//! the database refuses for good (nothing we write should be, but a handler's bytes are its own) is stored without what the
//! handler gave, as a failure that says so. Only what a constraint refuses, or what has been refused for half a minute, counts as
//! refused for good: a full disk, a missing permission or a message in another language passes. No result is ever dropped, but by a worker that
//! was told to stop and has waited long enough. Results are
//! bounded by their size as well as by their number: of one transaction, which the database refuses beyond a gigabyte and may not manage in
//! time before that, and of all that are kept, beyond which attempts that have ended keep their slots. A transaction that fails again and
//! again without an answer is tried in halves.
//!
//! After a connection broke in the commit, the outcome is unknown: offering the same result again is harmless, and if its
//! claim then no longer holds, history tells whether it was stored or the claim was lost.

#[cfg(test)]
mod bounds;
mod counted;
mod open_claims;
mod retry_budget;
mod size;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use sched_model::Database;
use sched_model::running::attempts::Ended;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::{BoxError, OwnedTask, TaskError, spawn_owned};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::attempt::counters::Seen;

use crate::completion::open_claims::ClaimBook;
use writer::Writer;

pub(crate) use counted::show as show_counters;
pub(crate) use size::bytes_of;

/// How long the first result waits for others.
const GATHER: Duration = Duration::from_millis(3);
/// Between the beginnings of two transactions of a worker whose slots are all taken and wanted. There the work that a transaction takes
/// from handlers counts for more than the milliseconds by which a result is stored sooner.
const SPACING: Duration = Duration::from_millis(40);
/// Most results in one transaction.
const MOST_AT_ONCE: usize = 500;
/// No more is added to a transaction that holds this many bytes.
const MOST_BYTES: usize = 16 << 20;
/// Bytes of results that are kept until they are stored.
const KEPT_BYTES: usize = 256 << 20;
/// What a result counts in [`KEPT_BYTES`] is a multiple of this.
const UNIT_BYTES: usize = 1 << 10;
/// A transaction of several results that failed without an answer so often in a row is halved.
const HALVED_AFTER: u32 = 3;
/// Transactions at once.
const WRITERS: usize = 2;
/// Pauses between two offers of the same results grow from the first to the second of these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// An error of no known kind counts as a refusal only after this.
const REFUSED_AFTER: Duration = Duration::from_secs(30);
/// How long a stopping worker waits for its last results to be stored.
pub(crate) const FLUSH_WITHIN: Duration = Duration::from_secs(60);

struct Message {
    claim: Option<i64>,
    ended: Ended,
    /// How large it is.
    bytes: usize,
    /// When it was handed over.
    at: Instant,
    /// Freed when the result is stored.
    held: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
}

/// Where results are sent.
#[derive(Debug, Clone)]
pub struct CompleterHandle {
    sender: mpsc::Sender<Message>,
    book: Arc<ClaimBook>,
    unwritten: watch::Sender<usize>,
    /// What is left of [`KEPT_BYTES`].
    kept: Arc<Semaphore>,
    /// Nobody waits for room any more.
    given_up: CancellationToken,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("dispatch", &self.ended.dispatch_id).finish_non_exhaustive()
    }
}

impl CompleterHandle {
    /// Announces a claim of `dispatches` dispatches, each of which will be sent or never end.
    pub(crate) fn expect(&self, claim: i64, dispatches: usize) {
        self.book.expect(claim, dispatches);
    }

    /// Waits until so many bytes of a result may be kept. Who waits keeps its slot, so that no more is run than can be kept. `None` if it is
    /// given up.
    pub(crate) async fn room_for(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = (bytes / UNIT_BYTES + 1).min(KEPT_BYTES / UNIT_BYTES);
        let room = self.kept.clone().acquire_many_owned(u32::try_from(units).unwrap_or(u32::MAX));
        tokio::select! {
            biased;
            // The semaphore is never closed.
            room = room => room.ok(),
            () = self.given_up.cancelled() => None,
        }
    }

    /// Hands over an attempt that was ended without work, and has next to no result; waits while the completer is behind.
    pub(crate) async fn send(&self, claim: Option<i64>, ended: Ended, place: Option<OwnedSemaphorePermit>) {
        self.send_holding(claim, ended, (place, None)).await;
    }

    /// Hands over an ended attempt with what it holds until it is stored; waits while the completer is behind.
    pub(crate) async fn send_holding(
        &self,
        claim: Option<i64>,
        ended: Ended,
        held: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
    ) {
        self.unwritten.send_modify(|count| *count += 1);
        let (bytes, dispatch, at) = (bytes_of(&ended), ended.dispatch_id, monotonic());
        let why = tokio::select! {
            biased;
            sent = self.sender.send(Message { claim, ended, bytes, at, held }) => match sent {
                Ok(()) => return,
                // The completer only ends with the process.
                Err(_) => "the completer is gone",
            },
            () = self.given_up.cancelled() => "the worker stops, and could not store it for long",
        };
        tracing::error!(dispatch.id = %dispatch, why, "A result is lost; its dispatch is left to be recovered.");
    }

    /// Has nobody wait for room any more, and nobody for what is not stored: the process ends, and what is not stored then is recovered.
    pub(crate) fn give_up(&self) {
        self.given_up.cancel();
    }

    /// Counts results as written; returns whether no other is on its way.
    fn count_written(&self, results: usize) -> bool {
        let mut left = 0;
        self.unwritten.send_modify(|count| {
            *count = count.saturating_sub(results);
            left = *count;
        });
        left == 0
    }

    /// Waits until everything sent so far is stored, or for a minute, or until it is given up; how many results are not.
    pub(crate) async fn flushed(&self) -> usize {
        let mut unwritten = self.unwritten.subscribe();
        tokio::select! {
            biased;
            _ = unwritten.wait_for(|count| *count == 0) => return 0,
            () = self.given_up.cancelled() => {}
            () = tokio::time::sleep(FLUSH_WITHIN) => {}
        }
        let left = *self.unwritten.borrow();
        tracing::error!(
            results = left,
            "The last results could not be stored in time; their dispatches will be recovered."
        );
        left
    }
}

/// Gathers results and hands them to its writers.
#[derive(Debug)]
pub(crate) struct Completer {
    writer: Writer,
    receiver: mpsc::Receiver<Message>,
    /// Gathered so far. Not a variable of the waiting future, which may be dropped at any time.
    batch: Vec<Message>,
    /// Those of the worker.
    slots: Arc<Semaphore>,
    /// When the last batch was handed to its writer.
    handed_over: Option<Instant>,
}

impl Completer {
    pub(crate) fn new(
        database: Database,
        seen: Arc<Seen>,
        wake: Arc<Notify>,
        slots: Arc<Semaphore>,
    ) -> (Self, CompleterHandle) {
        let (sender, receiver) = mpsc::channel(MOST_AT_ONCE);
        let kept = Arc::new(Semaphore::new(KEPT_BYTES / UNIT_BYTES));
        let handle = CompleterHandle {
            sender,
            book: Arc::default(),
            unwritten: watch::Sender::new(0),
            kept,
            given_up: CancellationToken::new(),
        };
        (
            Self {
                writer: Writer { database, seen, wake, handle: handle.clone() },
                receiver,
                batch: Vec::new(),
                slots,
                handed_over: None,
            },
            handle,
        )
    }

    /// Writes results until `stop`, which comes after the last session.
    ///
    /// # Errors
    /// A writer panicked.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), BoxError> {
        let mut writers: Vec<OwnedTask<()>> = Vec::new();
        loop {
            while writers.len() >= WRITERS {
                one_of(&mut writers).await?;
            }
            let is_open = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                is_open = self.gather() => is_open,
                // A panic is told at once and not with the next results.
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

    /// Gathers a batch; `false` once nobody can send any more.
    async fn gather(&mut self) -> bool {
        if self.batch.is_empty() {
            let Some(first) = self.receiver.recv().await else { return false };
            self.batch.push(first);
        }
        let until = tokio::time::sleep(patience(
            self.handed_over.map(|at| at.elapsed()),
            self.slots.available_permits() > 0,
        ));
        tokio::pin!(until);
        let mut bytes: usize = self.batch.iter().map(|message| message.bytes).sum();
        while self.batch.len() < MOST_AT_ONCE && bytes < MOST_BYTES {
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

/// How long a first result waits for others, given how long ago the last batch went and whether slots are free.
fn patience(since_last: Option<Duration>, has_free_slot: bool) -> Duration {
    match since_last {
        Some(since) if !has_free_slot => SPACING.saturating_sub(since).max(GATHER),
        _ => GATHER,
    }
}

/// Waits until one of the writers has ended, and takes it out; for ever while there is none.
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
    fn a_busy_worker_writes_less_often_and_an_idle_one_at_once() {
        let ms = Duration::from_millis;
        for (since_last, has_free_slot, expected) in [
            (None, false, GATHER),
            (None, true, GATHER),
            (Some(ms(1)), true, GATHER),
            (Some(ms(1)), false, ms(39)),
            (Some(ms(39)), false, GATHER),
            (Some(ms(500)), false, GATHER),
        ] {
            assert_eq!(patience(since_last, has_free_slot), expected, "{since_last:?} {has_free_slot}");
        }
    }
}

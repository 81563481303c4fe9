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

mod book;
#[cfg(test)]
mod bounds;
mod counted;
mod patience;
mod size;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use sched_model::db::attempts::{self, Ended, Record};
use sched_model::db::{Database, DbError, notify};
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::dispatch::DispatchEvent;
use sched_model::domain::ids::{ClaimToken, DispatchId};
use sched_runtime::clock::monotonic;
use sched_runtime::tasks::{BoxError, OwnedTask, TaskError, spawn_owned};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::seen::Seen;

use book::{ClaimBook, by_claim};
use patience::Patience;

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

/// Writes results.
#[derive(Debug, Clone)]
struct Writer {
    database: Database,
    seen: Arc<Seen>,
    /// Wakes our own poller.
    wake: Arc<Notify>,
    handle: CompleterHandle,
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

impl Writer {
    async fn write(self, batch: Vec<Message>) {
        let ends = by_claim(&batch);
        let finished = self.handle.book.finished_by(&ends);
        let tokens: Vec<ClaimToken> = batch.iter().map(|message| message.ended.token).collect();
        let handed_over: Vec<Instant> = batch.iter().map(|message| message.at).collect();
        let (ended, held): (Vec<Ended>, Vec<_>) =
            batch.into_iter().map(|message| (message.ended, message.held)).unzip();
        let started = ended.iter().filter(|one| one.has_started()).count();
        let waits_again: Vec<Duration> = ended.iter().filter_map(|one| one.verdict.wait).collect();
        self.store(ended, &finished).await;
        let seconds = metrics::histogram!("sched_completion_seconds");
        for at in handed_over {
            seconds.record(at.elapsed().as_secs_f64());
        }
        for token in &tokens {
            self.seen.running.remove(*token);
        }
        self.seen.count_processed(started);
        let is_last = self.handle.count_written(tokens.len());
        if self.handle.book.stored(&ends, &finished) && is_last {
            self.release_claims().await;
        }
        self.tell(&waits_again).await;
        self.tell_of_room(&self.seen.limited.take(&tokens)).await;
        drop(held);
    }

    /// Nothing follows that would do it.
    async fn release_claims(&self) {
        let claims = self.handle.book.finished_by(&HashMap::new());
        let released = async { attempts::release_claims(&mut *self.database.conn().await?, &claims).await };
        if let Err(error) = released.await {
            tracing::debug!(
                error = error.with_causes(),
                "Forgetting finished claims failed; the leader does it."
            );
        }
    }

    /// Dispatches that wait again are found by our own poller when they are due; those due at once (handed back by a worker
    /// that stops) are told to the others too.
    async fn tell(&self, waits_again: &[Duration]) {
        if waits_again.is_empty() {
            return;
        }
        self.wake.notify_one();
        if waits_again.contains(&Duration::ZERO) {
            let told = async { notify::dispatches_wait_again(&mut *self.database.conn().await?).await };
            if let Err(error) = told.await {
                tracing::debug!(
                    error = error.with_causes(),
                    "Notifying the workers failed; they find the work when they poll."
                );
            }
        }
    }

    /// Queues with limits have room again: for ourselves, and for workers that wait for it.
    async fn tell_of_room(&self, queues: &[String]) {
        if queues.is_empty() {
            return;
        }
        self.wake.notify_one();
        let told = async { notify::dispatches_waiting(&mut *self.database.conn().await?, queues).await };
        if let Err(error) = told.await {
            tracing::debug!(
                error = error.with_causes(),
                "Notifying the workers failed; they find the room when they poll."
            );
        }
    }

    /// Stores results, however long that takes.
    async fn store(&self, mut ended: Vec<Ended>, finished_claims: &[i64]) {
        let mut patience = Patience::new();
        let mut is_unknown = false;
        while !ended.is_empty() {
            let error = match self.offer(&ended, finished_claims).await {
                Ok(held) => {
                    let held: HashSet<DispatchId> = held.into_iter().collect();
                    let (stored, refused): (Vec<Ended>, Vec<Ended>) =
                        ended.into_iter().partition(|one| held.contains(&one.dispatch_id));
                    counted::count(&stored);
                    return self.account_for_refused(&refused, is_unknown).await;
                }
                Err(error) => error,
            };
            // Whatever went wrong, the commit may have been on its way.
            is_unknown = true;
            metrics::counter!("sched_completion_failures_total").increment(1);
            if patience.is_unanswered(&error) && ended.len() > 1 {
                // Together they may be more than the database manages; if it is away, each half waits for it.
                let rest = ended.split_off(ended.len() / 2);
                for half in [ended, rest] {
                    Box::pin(self.store(half, finished_claims)).await;
                }
                return;
            }
            if !patience.is_over(&error) {
                tracing::warn!(
                    error = error.with_causes(),
                    results = ended.len(),
                    "Storing results failed; they are kept."
                );
                patience.pause().await;
            } else if ended.len() > 1 {
                // One of them is refused: offer each alone.
                for one in std::mem::take(&mut ended) {
                    Box::pin(self.store(vec![one], finished_claims)).await;
                }
            } else {
                tracing::error!(
                    error = error.with_causes(),
                    "The database refuses a result; it is stored without its content."
                );
                ended = ended.into_iter().map(|one| bare(one, &error)).collect();
                patience.pause().await;
            }
        }
    }

    async fn offer(&self, ended: &[Ended], finished_claims: &[i64]) -> Result<Vec<DispatchId>, DbError> {
        let mut conn = self.database.conn().await?;
        attempts::end(&mut conn, ended, finished_claims).await
    }

    /// Tells apart results that an earlier, unanswered offer had stored, and claims that were lost.
    async fn account_for_refused(&self, refused: &[Ended], is_unknown: bool) {
        let mut lost = refused.len();
        if is_unknown && let Some(since) = refused.iter().map(|one| one.record.started_at).min() {
            let executions: Vec<_> = refused.iter().map(|one| one.record.execution_id).collect();
            match self.stored_before(&executions, since).await {
                Ok(stored) => {
                    lost = lost.saturating_sub(stored.len());
                    counted::count(refused.iter().filter(|one| stored.contains(&one.record.execution_id)));
                }
                Err(error) => {
                    tracing::warn!(error = error.with_causes(), "Reading back stored results failed.")
                }
            }
        }
        if lost > 0 {
            tracing::warn!(
                results = lost,
                "Results were refused: their claims had been taken away. Nothing of them was stored."
            );
            metrics::counter!("sched_claims_lost_total").increment(u64::try_from(lost).unwrap_or(0));
        }
    }

    async fn stored_before(
        &self,
        executions: &[sched_model::domain::ids::ExecutionId],
        since: chrono::DateTime<chrono::Utc>,
    ) -> Result<Vec<sched_model::domain::ids::ExecutionId>, DbError> {
        let mut conn = self.database.conn().await?;
        attempts::was_ended(&mut conn, executions, since).await
    }
}

/// The result without what the handler gave, as a failure that says why. It is not retried: the program has run.
fn bare(ended: Ended, error: &DbError) -> Ended {
    let verdict = sched_model::domain::attempt::Verdict { event: DispatchEvent::GiveUp, wait: None };
    let message =
        format!("the attempt ended as {}, but its result could not be stored: {error}", ended.outcome);
    Ended {
        outcome: AttemptOutcome::Failed,
        verdict,
        record: Record {
            result: None,
            error_class: Some("result_not_storable".into()),
            error_message: Some(message),
            traceback: None,
            metrics: None,
            output: Vec::new(),
            ..ended.record
        },
        ..ended
    }
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

    #[test]
    fn a_claim_is_released_with_the_last_of_its_dispatches() {
        let book = ClaimBook::default();
        book.expect(1, 3);
        book.expect(2, 1);
        let first = HashMap::from([(1, 2), (2, 1)]);
        assert_eq!(book.finished_by(&first), [2]);
        assert!(!book.stored(&first, &[2]));
        let second = HashMap::from([(1, 1), (7, 1)]);
        assert_eq!(book.finished_by(&second), [1]);
        assert!(!book.stored(&second, &[1]));
        assert!(book.finished_by(&HashMap::new()).is_empty());
    }

    #[test]
    fn a_claim_that_two_writers_finish_at_once_is_released_afterwards() {
        let book = ClaimBook::default();
        book.expect(1, 5);
        let (one, other) = (HashMap::from([(1, 2)]), HashMap::from([(1, 3)]));
        assert!(book.finished_by(&one).is_empty());
        assert!(book.finished_by(&other).is_empty(), "the first is not stored yet");
        assert!(!book.stored(&one, &[]));
        assert!(book.stored(&other, &[]), "nobody has released it");
        assert_eq!(book.finished_by(&HashMap::new()), [1]);
        assert!(book.finished_by(&HashMap::new()).is_empty());
    }
}

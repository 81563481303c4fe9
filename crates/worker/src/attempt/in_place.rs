//! Short native attempts without a task for each.
//!
//! One task on the handlers' threads (a turn) takes attempts of a claim one after the other, and
//! polls each handler once in place. Most short handlers have ended then. A pending handler
//! continues in its own task with a supervisor, as any other attempt.
//!
//! A turn holds one slot, because it runs one handler at a time. It never waits. A driver on the
//! worker's runtime waits for the slot, starts the turn, hands the results of the turn over, and
//! frees the slot. So handlers that block threads delay no result, no slot and no stop.
//!
//! A turn starts and ends with a wake-up of another thread. So it takes as many attempts as it can
//! poll within [`PACE`], at most [`TURN`]. The limits bound the delay of other handlers on the same
//! thread, and of the results of the turn.
//!
//! A handler that blocks would delay the handlers behind it, and nothing would stop it. So the
//! driver checks the progress of the turn at each tick. If no attempt began since the last tick,
//! the driver starts the remaining attempts in the ordinary way and supervises the attempt in its
//! first poll. Without such an attempt, all threads are busy: the turn has not begun, and never does.
//!
//! # Limits
//!
//! - Until the driver takes an attempt over, at most two ticks after its start, neither its time-out
//!   nor a cancellation reaches its handler. Attempts with a time-out below [`eligible::SHORTEST_TIMEOUT`]
//!   never run in place. A handler that ends in its first poll has ended, as in a task.
//! - A lost lease or claim discards the result of a handler that ended in place. No first poll
//!   begins after the lease was lost: a handler counts as alive before the last check.
//! - Only while attempts are tiny ([`Prefetch::are_tiny`](crate::claiming::prefetch::Prefetch)):
//!   handlers that use the processor for long should use all threads.
//! - Functions with secrets read the database first and never run in place.
//!
//! # Races
//!
//! The turn takes an attempt, the slot and the mark [`Current::Busy`] under one lock. The driver
//! takes the rest under the same lock, unless the turn is busy between a mark and its result. No
//! code of users runs then, so the turn soon continues. A result reaches [`State::ended`] before
//! the mark goes, so the last hand-over misses none.

mod eligible;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::{OwnedTask, spawn_owned_on};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::attempt::executor::{self, Attempt, AttemptEnd, BusySlot, KillReason, until_killed};
use crate::attempt::redaction::Redaction;
use crate::attempt::slot::{Bounds, SlotOutcome, may_start, wait_for_slot};
use crate::attempt::trace;
use crate::completion::{EndedAttempt, MAX_RESULTS, bytes_of};
use crate::handlers::Report;
use crate::handlers::native::{Begun, Call, HandlerTask, Polled};
use crate::session::Session;

/// Most polls in a turn.
const TURN: usize = 128;
// The completer takes the results of a turn at once.
const _: () = assert!(TURN < MAX_RESULTS);
/// A turn also ends with this many bytes of results.
const TURN_BYTES: usize = 1 << 20;
const PACE: Pace = Pace { turn: Duration::from_millis(2), tick: Duration::from_millis(5) };
/// A completer that accepts no results for this long is behind. It usually waits for one commit.
const BEHIND: Duration = Duration::from_millis(100);

/// Starts the attempts of one claim on the worker's runtime.
pub(crate) fn start(attempts: Vec<Attempt>) {
    start_at(PACE, attempts);
}

fn start_at(pace: Pace, attempts: Vec<Attempt>) {
    let runtime = Handle::current();
    let Some(session) = attempts.first().map(|first| first.session.clone()) else { return };
    let threads = session.worker.native.own_threads().filter(|_| session.worker.prefetch.are_tiny());
    let Some(threads) = threads.cloned() else { return start_each(attempts, &runtime) };
    let (short, other): (Vec<Attempt>, Vec<Attempt>) =
        attempts.into_iter().partition(eligible::may_run_in_place);
    start_each(other, &runtime);
    if short.is_empty() {
        return;
    }
    let current = Current::Nothing;
    let state =
        Mutex::new(State { waiting: short.into(), current, slot: None, ended: Vec::new(), started: 0 });
    let batch = Batch { session: session.clone(), runtime: runtime.clone(), threads, pace, state };
    session.attempts.spawn_on(drive(Arc::new(batch)), &runtime);
}

fn start_each(attempts: impl IntoIterator<Item = Attempt>, runtime: &Handle) {
    attempts.into_iter().for_each(|attempt| executor::start(attempt, runtime));
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    /// A turn ends after the first attempt that ends later.
    turn: Duration,
    /// Between two checks of the progress.
    tick: Duration,
}

/// Attempts that turns poll.
struct Batch {
    session: Arc<Session>,
    /// The runtime of the worker, for everything except handlers.
    runtime: Handle,
    threads: Handle,
    pace: Pace,
    state: Mutex<State>,
}

struct State {
    waiting: VecDeque<Attempt>,
    current: Current,
    /// The slot of the turn, while no attempt has it.
    slot: Option<BusySlot>,
    /// Results of this turn.
    ended: Vec<EndedAttempt>,
    /// Attempts that started in this turn and are not recorded.
    started: usize,
}

/// The attempt that a turn has taken.
enum Current {
    Nothing,
    /// It is before or after its first poll.
    Busy,
    /// Its handler is in its first poll.
    Polled(InPlace),
    /// As before. The driver supervises it and waits for the end of the poll.
    TakenOver(oneshot::Sender<Polled>),
}

struct InPlace {
    attempt: Attempt,
    begun: Begun,
    slot: BusySlot,
    span: tracing::Span,
}

/// The attempts of a turn without progress.
struct Stall {
    rest: VecDeque<Attempt>,
    /// The attempt in its first poll; `None` if the turn has not begun.
    current: Option<(InPlace, HandlerTask)>,
}

/// Runs on the worker's runtime. Ends with the last turn, or with the attempt that it took over.
async fn drive(batch: Arc<Batch>) {
    let worker = &batch.session.worker;
    while !batch.state().waiting.is_empty() {
        let outcome = wait_for_slot(&worker.slots, &Bounds::of(&batch.session)).await;
        // The remaining attempts end in the same way below.
        let SlotOutcome::Slot(slot) = outcome else { break };
        batch.state().slot = Some(BusySlot::new(worker, slot));
        // Its drop aborts a turn that has not begun.
        let mut turn = batch.start_turn();
        let stall = tokio::select! {
            biased;
            ended = &mut turn => match ended {
                Ok(()) => None,
                Err(_died) => break,
            },
            stall = batch.stall() => Some(stall),
        };
        let Some(Stall { rest, current }) = stall else {
            batch.hand_over_in_time().await;
            batch.free_slot();
            continue;
        };
        start_each(rest, &batch.runtime);
        let Some((attempt, task)) = current else { break };
        let span = attempt.span.clone();
        tokio::join!(supervise(attempt, task).instrument(span), batch.hand_over());
        return;
    }
    start_each(batch.rest(), &batch.runtime);
    // Only if a turn died during a poll.
    let current = std::mem::replace(&mut batch.state().current, Current::Nothing);
    if let Current::Polled(InPlace { attempt, begun, slot, .. }) = current {
        attempt.end(Ok(begun.report(None)), slot).await;
    }
    batch.hand_over().await;
    batch.free_slot();
}

async fn supervise(attempt: InPlace, task: HandlerTask) {
    let InPlace { attempt, begun, slot, .. } = attempt;
    let (session, stops) = (attempt.session.clone(), attempt.stops.clone());
    let report = async {
        let report = begun.supervise(task, stops.cancellation()).await;
        begun.complete(report)
    };
    let report = until_killed(&session, &stops, report).await;
    attempt.end(report, slot).await;
}

impl Batch {
    fn state(&self) -> MutexGuard<'_, State> {
        // No panic is possible under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rest(&self) -> VecDeque<Attempt> {
        std::mem::take(&mut self.state().waiting)
    }

    fn free_slot(&self) {
        let slot = self.state().slot.take();
        if let Some(slot) = slot {
            slot.free(&self.session.worker);
        }
    }

    fn start_turn(self: &Arc<Self>) -> OwnedTask<()> {
        let batch = self.clone();
        let turn = poll_fn(move |context| {
            batch.turn(context);
            Poll::Ready(())
        });
        spawn_owned_on(&self.threads, "native attempts", turn)
    }

    fn turn(&self, context: &mut Context<'_>) {
        let (began, mut bytes) = (monotonic(), 0);
        for _ in 0..TURN {
            let Some(of_result) = self.step(context) else { return };
            bytes += of_result;
            if bytes > TURN_BYTES || began.elapsed() > self.pace.turn {
                return;
            }
        }
    }

    /// Returns the bytes of a result, or `None` if the turn is over: the attempt keeps the slot, or
    /// no attempt is left that may start.
    fn step(&self, context: &mut Context<'_>) -> Option<usize> {
        let session = &self.session;
        if !may_start(&Bounds::of(session)) {
            return None;
        }
        let (mut attempt, mut slot) = self.next()?;
        slot.since = monotonic();
        let (begun, call) = match begin(&mut attempt, slot.since) {
            Ok(begun) => begun,
            Err(report) => return Some(self.ended(attempt, Ok(*report), slot)),
        };
        // The handler counts as alive: either the end of the session waits for it, or this check
        // finds that end.
        if session.kill.is_cancelled() {
            drop(call);
            return Some(self.ended(attempt, Err(KillReason::LeaseLost), slot));
        }
        let span = trace::log_span(&attempt.claimed);
        self.state().current = Current::Polled(InPlace { attempt, begun, slot, span: span.clone() });
        let _entered = span.enter();
        let polled = call.poll_once(context);
        let current = std::mem::replace(&mut self.state().current, Current::Busy);
        match (current, polled) {
            (Current::Polled(InPlace { attempt, begun, slot, .. }), Polled::Ended(ending)) => {
                let report = begun.report(Some(ending));
                Some(self.ended(attempt, Ok(report), slot))
            }
            (Current::Polled(attempt), Polled::Pending(run)) => {
                let (threads, span) = (self.threads.clone(), attempt.span.clone());
                // Spawned by the supervisor: no other thread could take a task that this thread
                // spawns, until this thread is free.
                let supervised = async move {
                    let task = HandlerTask::spawn(run, &threads);
                    supervise(attempt, task).await;
                };
                session.attempts.spawn_on(supervised.instrument(span), &self.runtime);
                self.state().current = Current::Nothing;
                None
            }
            (Current::TakenOver(sender), polled) => {
                // A supervisor that is gone has aborted the handler.
                drop(sender.send(polled));
                None
            }
            (Current::Nothing | Current::Busy, _) => None,
        }
    }

    /// The next attempt and the slot, unless the driver has taken the rest.
    fn next(&self) -> Option<(Attempt, BusySlot)> {
        let mut state = self.state();
        if state.waiting.is_empty() {
            return None;
        }
        let slot = state.slot.take()?;
        let attempt = state.waiting.pop_front()?;
        state.current = Current::Busy;
        state.started += 1;
        Some((attempt, slot))
    }

    /// An attempt that ended in place, or did not begin. Returns the bytes of its result.
    fn ended(&self, attempt: Attempt, report: Result<Report, KillReason>, slot: BusySlot) -> usize {
        let report = match report {
            Ok(_) if self.session.kill.is_cancelled() => Err(KillReason::LeaseLost),
            Ok(_) if attempt.stops.is_lost() => Err(KillReason::ClaimLost),
            report => report,
        };
        let result = match attempt.conclude(report, slot.since) {
            AttemptEnd::Killed(reason) => {
                let killed = attempt.killed(reason, slot.since.elapsed());
                self.session.attempts.spawn_on(killed, &self.runtime);
                None
            }
            AttemptEnd::NotStarted(ended) | AttemptEnd::Ended(ended) => {
                Some(EndedAttempt { claim: attempt.claimed.claim_id, ended, place: attempt.place })
            }
        };
        let bytes = result.as_ref().map_or(0, |result| bytes_of(&result.ended));
        let mut state = self.state();
        state.ended.extend(result);
        state.slot = Some(slot);
        state.current = Current::Nothing;
        bytes
    }

    /// Waits until the turn makes no progress. It has begun no attempt between two ticks.
    async fn stall(&self) -> Stall {
        let mut left = None;
        loop {
            tokio::time::sleep(self.pace.tick).await;
            if let Some(stall) = self.check(&mut left) {
                return stall;
            }
        }
    }

    /// `left` is the number of waiting attempts at the last tick.
    fn check(&self, left: &mut Option<usize>) -> Option<Stall> {
        let mut state = self.state();
        let waiting = state.waiting.len();
        if left.replace(waiting) != Some(waiting) {
            return None;
        }
        let current = match std::mem::replace(&mut state.current, Current::Nothing) {
            Current::Nothing => None,
            Current::Polled(attempt) => {
                let (sender, polled) = oneshot::channel();
                state.current = Current::TakenOver(sender);
                Some((attempt, HandlerTask::in_place(polled, self.threads.clone())))
            }
            other => {
                state.current = other;
                return None;
            }
        };
        Some(Stall { rest: std::mem::take(&mut state.waiting), current })
    }

    /// While the completer is behind, the remaining attempts start in the ordinary way: each runs, or
    /// is released in time.
    async fn hand_over_in_time(&self) {
        let mut handed_over = std::pin::pin!(self.hand_over());
        if tokio::time::timeout(BEHIND, &mut handed_over).await.is_err() {
            start_each(self.rest(), &self.runtime);
            self.free_slot();
            handed_over.await;
        }
    }

    /// Hands the results of a turn over.
    async fn hand_over(&self) {
        let (ended, started) = {
            let mut state = self.state();
            (std::mem::take(&mut state.ended), std::mem::take(&mut state.started))
        };
        let worker = &self.session.worker;
        if started > 0 {
            worker.prefetch.record_starts(started);
        }
        worker.completer.send_all(ended).await;
    }
}

fn begin(attempt: &mut Attempt, called: Instant) -> Result<(Begun, Call), Box<Report>> {
    let (attempt_id, worker) = (attempt.id(), &attempt.session.worker);
    let redaction = Redaction::without_secrets();
    let live = redaction.live(worker.live_buffer.clone(), &attempt.claimed);
    let execution = executor::execution(&mut attempt.claimed, attempt_id, (redaction.secrets(), live));
    let begun = worker.native.begin(execution, attempt.stops.is_cancelled(), called);
    begun.map_err(|mut report| {
        report.elapsed = called.elapsed();
        report
    })
}

#[cfg(test)]
mod tests;

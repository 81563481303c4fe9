//! One attempt: from the claim to the result that the completer stores.
//!
//! The slot is free when the handler has ended, the place when the result is stored. This bounds
//! the number of waiting results.
//!
//! - If the lease is lost, the executor drops the attempt, which kills it, and reports nothing.
//! - If only the claim was taken away, it kills the attempt and releases it under its token. The
//!   database rejects that token and counts the rejection.
//! - If a stopped attempt still runs, the executor reports nothing. No other worker may start the
//!   run while this process lives.
//! - A handler that panics is a failed attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sched_model::domain::function::HandlerType;
use sched_model::domain::ids::{ExecutionId, execution_id};
use sched_runtime::monotonic_clock::monotonic;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use crate::attempt::failures;
use crate::attempt::redaction::Redaction;
use crate::attempt::result::{Circumstances, ReleaseReason, ended, released};
use crate::attempt::slot::{self, Bounds, SlotOutcome, wait_for_slot};
use crate::attempt::stops::Stops;
use crate::attempt::trace::{self, AttemptTrace, TraceOutcome};
use crate::attempt::upstream;
use crate::backend::{Claimed, Ended};
use crate::claiming::prefetch::SLOT_WAIT;
use crate::completion;
use crate::handlers::{ErrorClass, Execution, Live, Outcome, Report, Secrets};
use crate::session::{Session, Worker};

const CLAIM_LOST: ReleaseReason = ReleaseReason {
    class: "claim_lost",
    message: "the claim was taken away while the attempt ran, so the worker killed it",
};

/// The place stays taken until the result is stored.
pub(crate) fn start(attempt: Attempt, runtime: &Handle) {
    let (span, session) = (trace::log_span(&attempt.claimed), attempt.session.clone());
    // The tracker owns the task, and `kill` ends it.
    if span.is_disabled() {
        session.attempts.spawn_on(attempt.run(), runtime);
    } else {
        session.attempts.spawn_on(attempt.run().instrument(span), runtime);
    }
}

/// An attempt from its claim to the hand-over of its result.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// All attempts of a claim share it.
    pub(crate) session: Arc<Session>,
    pub(crate) claimed: Box<Claimed>,
    pub(crate) stops: Arc<Stops>,
    /// The place of the run, taken until the result is stored.
    pub(crate) place: Option<OwnedSemaphorePermit>,
    /// When the worker received the claim.
    pub(crate) received: Instant,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum KillReason {
    /// The worker may count as dead, with all of its attempts.
    LeaseLost,
    ClaimLost,
    /// The attempt was stopped for release but still runs: a thread cannot be killed.
    StillRuns,
}

impl KillReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::LeaseLost => "the lease was lost",
            Self::ClaimLost => "the claim was taken away",
            Self::StillRuns => "it still runs after it was stopped",
        }
    }
}

pub(super) enum AttemptEnd {
    Killed(KillReason),
    /// The handler started nothing, because the circuit is open or the worker lacks a resource. The
    /// attempt does not count. Its row in history shows operators a run that no worker can start.
    NotStarted(Ended),
    Ended(Ended),
}

impl Attempt {
    async fn run(self) {
        let worker = &self.session.worker;
        let outcome = wait_for_slot(&worker.slots, &Bounds::of(&self.session)).await;
        if matches!(outcome, SlotOutcome::Release(slot::NO_SLOT)) {
            // The attempts in the slots take longer than all that have ended.
            worker.prefetch.ended(SLOT_WAIT);
        }
        worker.prefetch.record_starts(1);
        match outcome {
            SlotOutcome::Slot(slot) => self.run_in_slot(slot).await,
            SlotOutcome::Release(reason) => {
                self.stops.finish();
                let ended = released(&self.claimed, reason);
                Box::pin(worker.completer.send(Some(self.claimed.claim_id), ended, self.place)).await;
            }
            SlotOutcome::Killed => Box::pin(self.killed(KillReason::LeaseLost, Duration::ZERO)).await,
        }
    }

    async fn run_in_slot(mut self, slot: OwnedSemaphorePermit) {
        let slot = BusySlot::new(&self.session.worker, slot);
        let (session, stops) = (self.session.clone(), self.stops.clone());
        let report = until_killed(&session, &stops, Box::pin(run_handler(&mut self))).await;
        Box::pin(self.end(report, slot)).await;
    }

    /// Hands the end of an attempt over, and frees its slot when there is room for the result.
    pub(super) async fn end(self, report: Result<Report, KillReason>, slot: BusySlot) {
        let end = self.conclude(report, slot.since);
        match end {
            AttemptEnd::Killed(reason) => {
                let ran = slot.since.elapsed();
                slot.free(&self.session.worker);
                Box::pin(self.killed(reason, ran)).await;
            }
            AttemptEnd::NotStarted(ended) | AttemptEnd::Ended(ended) => {
                let completer = &self.session.worker.completer;
                let room = completer.room_for(completion::bytes_of(&ended)).await;
                slot.free(&self.session.worker);
                completer.send_holding(Some(self.claimed.claim_id), ended, (self.place, room)).await;
            }
        }
    }

    /// The end of an attempt that took its slot at `since`, with its span and its report to the
    /// error tracker.
    pub(super) fn conclude(&self, report: Result<Report, KillReason>, since: Instant) -> AttemptEnd {
        let end = conclude(self, report);
        let (worker, claimed) = (&self.session.worker, &self.claimed);
        let outcome = match &end {
            AttemptEnd::Killed(reason) => TraceOutcome::Killed(reason.as_str()),
            AttemptEnd::NotStarted(_) => TraceOutcome::NotStarted,
            AttemptEnd::Ended(ended) => TraceOutcome::Ended(ended),
        };
        AttemptTrace::of(&worker.traces, self.session.id, since).close(claimed, outcome);
        if let AttemptEnd::NotStarted(ended) | AttemptEnd::Ended(ended) = &end {
            failures::report(&worker.tracker, claimed, ended);
        }
        end
    }

    pub(super) fn id(&self) -> ExecutionId {
        execution_id(self.claimed.claimed_at, self.claimed.dispatch_id, self.claimed.token)
    }

    /// Ends a killed attempt, which ran for `ran`.
    pub(super) async fn killed(self, reason: KillReason, ran: Duration) {
        let Self { session, claimed, place, .. } = self;
        let (run, job) = (claimed.dispatch_id, claimed.job.name.as_str());
        match reason {
            KillReason::StillRuns => {
                tracing::error!(
                    run.id = %run,
                    job.name = job,
                    "attempt still runs after it was stopped; its run is recovered after this process has ended"
                );
                // The attempt counts as running, because it still runs.
                session.count_left();
            }
            KillReason::LeaseLost => {
                tracing::warn!(run.id = %run, job.name = job, ?reason, "killed attempt");
                session.count_left();
                session.worker.counters.running.remove(&[claimed.token]);
                // No notification: the leader sends one when it has recovered the run.
                drop(session.worker.counters.limited.take(&[claimed.token]));
            }
            // The database rejects its token, unless the claim holds again. Then the run needs an
            // attempt.
            KillReason::ClaimLost => {
                tracing::warn!(run.id = %run, job.name = job, ?reason, "killed attempt");
                let mut ended = released(&claimed, CLAIM_LOST);
                ended.record.duration = ran;
                session.worker.completer.send(Some(claimed.claim_id), ended, place).await;
            }
        }
    }
}

/// Ends the report of a handler early when its lease or its claim is lost.
pub(super) async fn until_killed(
    session: &Session,
    stops: &Stops,
    report: impl Future<Output = Report>,
) -> Result<Report, KillReason> {
    tokio::select! {
        biased;
        () = session.kill.cancelled() => Err(KillReason::LeaseLost),
        () = stops.lost() => Err(KillReason::ClaimLost),
        report = report => Ok(report),
    }
}

fn conclude(attempt: &Attempt, report: Result<Report, KillReason>) -> AttemptEnd {
    let Attempt { session, claimed, stops, received, .. } = attempt;
    let worker = &session.worker;
    stops.finish();
    let _had_output = worker.live_buffer.close(claimed.token);
    let mut report = match report {
        Ok(report) => report,
        Err(reason) => return AttemptEnd::Killed(reason),
    };
    worker.prefetch.ended(report.elapsed);
    if report.untried {
        report.elapsed = Duration::ZERO;
    }
    let was_stopped = report.outcome == Outcome::Cancelled && session.release.is_cancelled();
    if was_stopped && report.still_runs {
        return AttemptEnd::Killed(KillReason::StillRuns);
    }
    if was_stopped {
        let cause = report.error_message.take().unwrap_or_default();
        report.error_message = Some(format!("released because the worker was stopping: {cause}"));
    }
    worker.meters.execution.record(report.elapsed.as_secs_f64());
    log(claimed, &report);
    let not_started = report.untried;
    let circumstances = Circumstances {
        received: *received,
        is_released: not_started || was_stopped,
        max_attempts: worker.config.max_retry_attempts,
    };
    let ended = ended(claimed, attempt.id(), report, &circumstances);
    if not_started { AttemptEnd::NotStarted(ended) } else { AttemptEnd::Ended(ended) }
}

/// A slot that an attempt holds, or several in turn.
#[derive(Debug)]
pub(super) struct BusySlot {
    slot: OwnedSemaphorePermit,
    /// When the attempt took it.
    pub(super) since: Instant,
}

impl BusySlot {
    pub(super) fn new(worker: &Worker, slot: OwnedSemaphorePermit) -> Self {
        worker.meters.slots_busy.increment(1.0);
        Self { slot, since: monotonic() }
    }

    pub(super) fn free(self, worker: &Worker) {
        drop(self.slot);
        worker.meters.slots_busy.decrement(1.0);
        worker.prefetch.moved.notify_one();
    }
}

/// The report contains no secrets.
async fn run_handler(attempt: &mut Attempt) -> Report {
    let (attempt_id, claimed) = (attempt.id(), &mut attempt.claimed);
    let handler_type: HandlerType = match claimed.handler_type.parse() {
        Ok(handler_type) => handler_type,
        Err(error) => {
            let message = format!("this worker is too old for the function: {error}; upgrade it");
            return Report::failed(ErrorClass::UnsupportedHandler, &message);
        }
    };
    let worker = &attempt.session.worker;
    let redaction = match Redaction::load(&worker.backend, worker.secret_keys.as_deref(), claimed).await {
        Ok(redaction) => redaction,
        Err(report) => return *report,
    };
    let upstream = match upstream::load(&worker.backend, claimed).await {
        Ok(upstream) => upstream,
        Err(report) => return *report,
    };
    let live = redaction.live(worker.live_buffer.clone(), claimed);
    let execution = Execution { upstream, ..execution(claimed, attempt_id, (redaction.secrets(), live)) };
    let cancel = attempt.stops.cancellation().clone();
    let report = worker.handlers.run(handler_type, execution, cancel).await;
    redaction.redact(report).await
}

pub(super) fn execution(
    claimed: &mut Claimed,
    attempt_id: ExecutionId,
    (secrets, live): (Secrets, Live),
) -> Execution {
    Execution {
        run_id: claimed.dispatch_id.0,
        tenant_id: claimed.tenant_id.0,
        project_id: claimed.job.project_id.map(|id| id.0),
        job_id: claimed.job_id.0,
        attempt_id: attempt_id.0,
        job_name: claimed.job.name.clone(),
        attempt: claimed.attempt,
        fire_time: claimed.scheduled_for,
        lateness_ms: (claimed.claimed_at - claimed.scheduled_for).num_milliseconds().max(0),
        catch_up: claimed.is_catch_up,
        trigger: claimed.triggered_by.as_str(),
        details: claimed.details.take(),
        idempotency_key: claimed.dispatch_id.to_string(),
        args: claimed.args.take(),
        timeout: claimed.timeout,
        traceparent: Some(trace::trace(claimed).to_string()),
        handler_config: claimed.handler_config.take(),
        live,
        secrets,
        upstream: None,
    }
}

fn log(claimed: &Claimed, report: &Report) {
    let (job, run, attempt) = (claimed.job.name.as_str(), claimed.dispatch_id, claimed.attempt);
    for note in &report.notes {
        tracing::warn!(job.name = job, run.id = %run, attempt, note, "note about the attempt");
    }
    let elapsed_ms = u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX);
    match &report.error_message {
        None => tracing::debug!(job.name = job, run.id = %run, attempt, elapsed_ms, "attempt succeeded"),
        Some(error) => {
            tracing::warn!(job.name = job, run.id = %run, attempt, elapsed_ms, error, "attempt did not succeed");
        }
    }
}

#[cfg(test)]
mod tests {
    use sched_model::domain::trace::TraceContext;

    use super::*;
    use crate::attempt::fixture::claimed;

    /// The memory of a future is copied when its task starts.
    #[test]
    fn future_of_an_attempt_is_small() {
        fn size<F: Future>(_of: impl Fn(Attempt) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = size(Attempt::run);
        assert!(bytes <= 2048, "{bytes} bytes");
    }

    #[test]
    fn handler_receives_the_trace_context_of_its_attempt() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let mut claimed = Claimed { traceparent: Some(given.into()), ..claimed() };
        let id = execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token);
        let nothing = (Secrets::default(), Live::detached());
        let passed = execution(&mut claimed, id, nothing).traceparent.unwrap();
        let expected = TraceContext::parse(given).unwrap().attempt(id).to_string();
        assert_eq!(passed, expected);
        assert!(
            passed.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && passed.ends_with("-00"),
            "{passed}"
        );
        assert!(!passed.contains("b7ad6b7169203331"), "{passed}");
    }
}

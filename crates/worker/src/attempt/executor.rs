//! One attempt: from the claim to what is stored of it.
//!
//! Waits for a slot, runs the handler and turns its report, together with the retry policy, into an ended attempt for the completer. The
//! slot is free again when the handler has ended; the place of the dispatch only when its result is stored, so that results cannot pile up
//! without bound. When the lease is lost the attempt is killed by dropping it, and nothing is reported. When only its claim was taken away,
//! it is killed too, and handed back under its token, which the database refuses and counts. One that was to be handed back and runs on all
//! the same is not reported either: nobody else may begin it while this process lives. A handler that panics is a failed attempt.
//! Secrets that the configuration names are read before the handler runs, and nothing of them is in what is stored or logged afterwards.
//! The attempt is a span of the trace of its dispatch ([`crate::attempt::trace`]): what is logged while it lasts names it, what the handler calls is
//! told of it, and a collector is told when it has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::attempt::{AttemptOutcome, Verdict, decide};
use sched_model::domain::dispatch::DispatchEvent;
use sched_model::domain::function::HandlerType;
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId, execution_id};
use sched_model::domain::retry::RetryPolicy;
use sched_model::recovery::dead_workers::OpenAttempt;
use sched_model::running::attempts::{Ended, OutputChunk, Record};
use sched_model::running::claims::Claimed;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::spawn_owned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::attempt::trace::{self, How};
use crate::attempt::{failures, redaction, secrets};
use crate::claiming::prefetch::PATIENCE;
use crate::completion;
use crate::handlers::{Again, Captured, ErrorClass, Execution, Live, Outcome, Report, Secrets};
use crate::session::{Session, Worker};

/// Starts an attempt, as soon as a slot is free. Its place is taken until its result is stored.
pub(crate) fn start(session: &Session, claimed: Claimed, place: Option<OwnedSemaphorePermit>) {
    let span = trace::log_span(&claimed);
    // The tracker owns the task, and `kill` ends it.
    session.attempts.spawn(run(session.clone(), claimed, place, monotonic()).instrument(span));
}

/// Why a dispatch is handed back, for programs and for people.
type Why = (&'static str, &'static str);

const STOPPED: Why = ("worker_stopped", "the worker was stopping, so the attempt was never started");
const NO_SLOT: Why = (
    "worker_busy",
    "the worker had claimed ahead and found no slot in time, so the attempt was never started",
);
const LEASE_IN_DOUBT: Why = (
    "lease_in_doubt",
    "the worker had not renewed its lease for so long that others may have its work, so the attempt was never started",
);
const CLAIM_LOST: Why =
    ("claim_lost", "the claim was taken away while the attempt ran, so its work was killed");

/// What ends waiting for a slot.
struct Bounds<'a> {
    kill: &'a CancellationToken,
    stop_claiming: &'a CancellationToken,
    trusted_until: &'a watch::Sender<Instant>,
}

impl<'a> Bounds<'a> {
    fn of(session: &'a Session) -> Self {
        Self {
            kill: &session.kill,
            stop_claiming: &session.stop_claiming,
            trusted_until: &session.trusted_until,
        }
    }
}

/// What came of waiting for a slot.
#[derive(Debug)]
enum Begin {
    Slot(OwnedSemaphorePermit),
    HandBack(Why),
    Killed,
}

/// Why an attempt was killed without a report.
#[derive(Debug, Clone, Copy)]
enum Killed {
    /// The worker may have been given up, and everything it ran with it.
    LeaseLost,
    /// This attempt was taken away.
    ClaimLost,
    /// It was to be handed back, and does not end: a thread cannot be killed.
    RunsOn,
}

impl Killed {
    const fn in_words(self) -> &'static str {
        match self {
            Self::LeaseLost => "the lease was lost",
            Self::ClaimLost => "the claim was taken away",
            Self::RunsOn => "it does not end",
        }
    }
}

async fn run(session: Session, mut claimed: Claimed, place: Option<OwnedSemaphorePermit>, started: Instant) {
    let worker = &session.worker;
    let begin = begin(&worker.slots, &Bounds::of(&session)).await;
    if matches!(begin, Begin::HandBack(NO_SLOT)) {
        // What holds the slots takes longer than all that has ended, and tells only when it ends itself.
        worker.pace.ended(PATIENCE);
    }
    worker.pace.begun();
    let slot = match begin {
        Begin::Slot(slot) => slot,
        Begin::HandBack(why) => {
            worker.seen.running.over(claimed.token);
            let ended = handed_back(&claimed, why);
            return worker.completer.send(Some(claimed.claim_id), ended, place).await;
        }
        Begin::Killed => return killed(&session, claimed, Killed::LeaseLost, Duration::ZERO, place).await,
    };
    let began = monotonic();
    metrics::gauge!("sched_slots_busy").increment(1.0);
    let execution_id = execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token);
    let loss = session.worker.seen.running.loss(claimed.token);
    let report = tokio::select! {
        biased;
        () = session.kill.cancelled() => Err(Killed::LeaseLost),
        () = loss.cancelled() => Err(Killed::ClaimLost),
        report = report(&session, &mut claimed, execution_id) => Ok(report),
    };
    worker.seen.running.over(claimed.token);
    // Whether it told anything is of no matter here.
    let _has_told = worker.board.close(claimed.token);
    let report = match report {
        Ok(report) => report,
        Err(why) => {
            free(worker, slot);
            trace::ended(&worker.traces, session.id, &claimed, began.elapsed(), &How::Killed(why.in_words()));
            return killed(&session, claimed, why, began.elapsed(), place).await;
        }
    };
    worker.pace.ended(report.elapsed);
    let (mut report, was_untried) = unless_untried(report);
    let was_stopped = session.hand_back.is_cancelled() && report.outcome == Outcome::Cancelled;
    if was_stopped && report.still_runs {
        free(worker, slot);
        let why = Killed::RunsOn;
        trace::ended(&worker.traces, session.id, &claimed, report.elapsed, &How::Killed(why.in_words()));
        return killed(&session, claimed, why, report.elapsed, place).await;
    }
    if was_stopped {
        // Nobody has cancelled the work.
        let how = report.error_message.take().unwrap_or_default();
        report.error_message = Some(format!("handed back because the worker was stopping: {how}"));
    }
    let was_handed_back = was_untried || was_stopped;
    tell(&claimed, &report);
    let max_attempts = worker.config.max_retry_attempts;
    let ended = ended(&claimed, execution_id, report, started, was_handed_back, max_attempts);
    if !was_untried {
        trace::ended(&worker.traces, session.id, &claimed, ended.record.duration, &How::Ended(&ended));
    }
    failures::report(&worker.tracker, &claimed, &ended);
    let kept = worker.completer.room_for(completion::bytes_of(&ended)).await;
    free(worker, slot);
    worker.completer.send_holding(Some(claimed.claim_id), ended, (place, kept)).await;
}

/// Whether the handler began nothing at all, because the endpoint is left alone or the worker cannot: nothing has been tried that could
/// count. It has its row in history all the same, so a dispatch that no worker can begin is seen.
fn unless_untried(report: Report) -> (Report, bool) {
    let elapsed = if report.untried { Duration::ZERO } else { report.elapsed };
    let was_untried = report.untried;
    (Report { elapsed, ..report }, was_untried)
}

fn free(worker: &Worker, slot: OwnedSemaphorePermit) {
    drop(slot);
    metrics::gauge!("sched_slots_busy").decrement(1.0);
    worker.pace.moved.notify_one();
}

/// Waits for a slot, as long as it is worth while.
async fn begin(slots: &Arc<Semaphore>, bounds: &Bounds<'_>) -> Begin {
    let Bounds { kill, stop_claiming, trusted_until } = bounds;
    if kill.is_cancelled() {
        return Begin::Killed;
    }
    if stop_claiming.is_cancelled() {
        return Begin::HandBack(STOPPED);
    }
    let begin = match slots.clone().try_acquire_owned() {
        Ok(slot) => Begin::Slot(slot),
        Err(_) => tokio::select! {
            biased;
            () = kill.cancelled() => Begin::Killed,
            () = stop_claiming.cancelled() => Begin::HandBack(STOPPED),
            () = tokio::time::sleep(PATIENCE) => Begin::HandBack(NO_SLOT),
            slot = slots.clone().acquire_owned() => slot.map_or(Begin::HandBack(NO_SLOT), Begin::Slot),
        },
    };
    // A process that was stopped and goes on may come here before its heartbeat has noticed how late it is.
    match begin {
        Begin::Slot(_) if monotonic() >= *trusted_until.borrow() => Begin::HandBack(LEASE_IN_DOUBT),
        begin => begin,
    }
}

async fn killed(
    session: &Session,
    claimed: Claimed,
    why: Killed,
    ran: Duration,
    place: Option<OwnedSemaphorePermit>,
) {
    let (dispatch, job) = (claimed.dispatch_id, claimed.job_name.as_str());
    match why {
        Killed::RunsOn => tracing::error!(
            dispatch.id = %dispatch,
            job.name = job,
            "The attempt does not end, so it is not handed back: it is recovered when this process has ended."
        ),
        Killed::LeaseLost | Killed::ClaimLost => {
            tracing::warn!(dispatch.id = %dispatch, job.name = job, ?why, "The attempt was killed.");
        }
    }
    match why {
        // It counts as running, which it is.
        Killed::RunsOn => session.count_left(),
        Killed::LeaseLost => {
            session.count_left();
            session.worker.seen.running.remove(claimed.token);
            // Nobody is told: its room is free when the leader has recovered it, which tells everybody.
            drop(session.worker.seen.limited.take(&[claimed.token]));
        }
        // Its token is refused, unless the database has come to say otherwise; then the dispatch must not be left without an attempt.
        Killed::ClaimLost => {
            let mut ended = handed_back(&claimed, CLAIM_LOST);
            ended.record.duration = ran;
            session.worker.completer.send(Some(claimed.claim_id), ended, place).await;
        }
    }
}

/// Runs the handler so that its panic is a report: in a task of its own, which native handlers have anyway.
async fn report(session: &Session, claimed: &mut Claimed, execution_id: ExecutionId) -> Report {
    let kind: HandlerType = match claimed.handler_type.parse() {
        Ok(kind) => kind,
        Err(error) => {
            return Report::failed(ErrorClass::UnsupportedHandler, &format!("the worker is older: {error}"));
        }
    };
    let worker = &session.worker;
    let secrets = match secrets::load(&worker.database, worker.secret_keys.as_deref(), claimed).await {
        Ok(secrets) => secrets,
        Err(report) => return *report,
    };
    let scrubber = match redaction::scrubber(&secrets).await {
        Ok(scrubber) => scrubber,
        Err(report) => return *report,
    };
    let live = Live::on(session.worker.board.clone(), claimed.dispatch_id, claimed.token, scrubber.clone());
    let execution = Execution { live, ..execution(claimed, execution_id, secrets) };
    let handlers = session.worker.handlers.clone();
    // Stopped with the session's hand-back, or alone when somebody cancels it.
    let cancel = session.worker.seen.running.cancellation(claimed.token);
    let running = async move { handlers.run(kind, execution, cancel).await }.in_current_span();
    let ended = match kind {
        HandlerType::Native => Ok(running.await),
        _ => spawn_owned("handler", running).await,
    };
    let report = ended.unwrap_or_else(|error| {
        Report::failed(
            ErrorClass::Worker,
            &format!("the handler failed: {}", sched_runtime::exit::describe(&error)),
        )
    });
    redaction::report(scrubber, report).await
}

/// What the handler is told. The large parts are taken out of the claim, which needs them no more.
fn execution(claimed: &mut Claimed, execution_id: ExecutionId, secrets: Secrets) -> Execution {
    Execution {
        dispatch_id: claimed.dispatch_id.0,
        tenant_id: claimed.tenant_id.0,
        job_id: claimed.job_id.0,
        execution_id: execution_id.0,
        job_name: claimed.job_name.clone(),
        attempt: claimed.attempt,
        fire_time: claimed.scheduled_for,
        lateness_ms: (claimed.claimed_at - claimed.scheduled_for).num_milliseconds().max(0),
        catch_up: claimed.is_catch_up,
        idempotency_key: claimed.dispatch_id.to_string(),
        args: claimed.args.take(),
        timeout: claimed.timeout,
        traceparent: Some(trace::trace(claimed).to_string()),
        handler_config: claimed.handler_config.take(),
        live: Live::detached(),
        secrets,
    }
}

fn ended(
    claimed: &Claimed,
    execution_id: ExecutionId,
    report: Report,
    started: Instant,
    was_handed_back: bool,
    max_attempts: u32,
) -> Ended {
    let outcome = if was_handed_back { AttemptOutcome::Released } else { report.outcome.into() };
    let error_class = report.error_class.map(ErrorClass::as_str);
    let standard = RetryPolicy::standard(max_attempts);
    let policy = claimed.retry_policy.as_ref().unwrap_or(&standard);
    let stricter = match (report.again, error_class) {
        (Again::Never, Some(class)) => Some(policy.refusing(class)),
        _ => None,
    };
    let policy = stricter.as_ref().unwrap_or(policy);
    let before_work = started.elapsed().saturating_sub(report.elapsed);
    let output_bytes =
        [&report.stdout, &report.stderr, &report.log].iter().map(|stream| stream.total_bytes).sum::<u64>();
    Ended {
        dispatch_id: claimed.dispatch_id,
        tenant_id: claimed.tenant_id,
        job_id: claimed.job_id,
        token: claimed.token,
        outcome,
        verdict: decide(outcome, error_class, claimed.failures, policy, rand::random())
            .no_retry_before(report.retry_after.unwrap_or_default()),
        record: Record {
            execution_id,
            // By the database's clock, of which nothing later is known than the claim: what passed since its answer is by our own. So this is
            // early by the time that the answer took, and so is the end; how long it ran is exact.
            started_at: claimed.claimed_at + TimeDelta::from_std(before_work).unwrap_or_default(),
            duration: report.elapsed,
            exit_code: report.exit_code,
            result: report.result,
            error_class: error_class.map(str::to_owned),
            error_message: report.error_message,
            traceback: report.traceback,
            metrics: report.metrics,
            output: chunks([("stdout", report.stdout), ("stderr", report.stderr), ("log", report.log)]),
            output_bytes: i64::try_from(output_bytes).unwrap_or(i64::MAX),
        },
    }
}

/// The kept parts of the streams: of each its head, and its tail where something between them was dropped.
fn chunks(streams: [(&'static str, Captured); 3]) -> Vec<OutputChunk> {
    let both = streams.into_iter().flat_map(|(stream, captured)| {
        let dropped_bytes = i64::try_from(captured.dropped_bytes).unwrap_or(i64::MAX);
        let head = OutputChunk { stream, chunk: 0, content: captured.head, dropped_bytes: 0 };
        let tail = OutputChunk { stream, chunk: 1, content: captured.tail, dropped_bytes };
        [head, tail]
    });
    both.filter(|chunk| !chunk.content.is_empty() || chunk.dropped_bytes > 0).collect()
}

/// A dispatch that was claimed, as far as handing it back needs it.
struct Unstarted {
    dispatch_id: DispatchId,
    tenant_id: TenantId,
    job_id: JobId,
    token: ClaimToken,
    claimed_at: DateTime<Utc>,
}

/// A claim that is not run here, as an attempt that is handed back without having started: why, for programs and for people.
pub(crate) fn handed_back(claimed: &Claimed, why: (&str, &str)) -> Ended {
    let &Claimed { dispatch_id, tenant_id, job_id, token, claimed_at, .. } = claimed;
    released(&Unstarted { dispatch_id, tenant_id, job_id, token, claimed_at }, why)
}

/// A claim nobody knew of, as an attempt that is handed back without having started.
pub(crate) fn never_started(attempt: &OpenAttempt) -> Ended {
    let &OpenAttempt { dispatch_id, tenant_id, job_id, token, claimed_at, .. } = attempt;
    released(
        &Unstarted { dispatch_id, tenant_id, job_id, token, claimed_at },
        ("claim_unanswered", "the answer to the claim was lost, so the attempt was never started"),
    )
}

fn released(unstarted: &Unstarted, (class, message): (&str, &str)) -> Ended {
    let &Unstarted { dispatch_id, tenant_id, job_id, token, claimed_at } = unstarted;
    Ended {
        dispatch_id,
        tenant_id,
        job_id,
        token,
        outcome: AttemptOutcome::Released,
        verdict: Verdict { event: DispatchEvent::Release, wait: Some(Duration::ZERO) },
        record: Record {
            execution_id: execution_id(claimed_at, dispatch_id, token),
            started_at: claimed_at,
            duration: Duration::ZERO,
            exit_code: None,
            result: None,
            error_class: Some(class.into()),
            error_message: Some(message.into()),
            traceback: None,
            metrics: None,
            output: Vec::new(),
            output_bytes: 0,
        },
    }
}

fn tell(claimed: &Claimed, report: &Report) {
    metrics::histogram!("sched_execution_seconds").record(report.elapsed.as_secs_f64());
    let (job, dispatch, attempt) = (claimed.job_name.as_str(), claimed.dispatch_id, claimed.attempt);
    for note in &report.notes {
        tracing::warn!(job.name = job, dispatch.id = %dispatch, attempt, note, "The attempt left a note.");
    }
    let elapsed_ms = u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX);
    match &report.error_message {
        None => tracing::debug!(job.name = job, dispatch.id = %dispatch, attempt, elapsed_ms, "Executed."),
        Some(error) => {
            tracing::warn!(job.name = job, dispatch.id = %dispatch, attempt, elapsed_ms, error, "The attempt did not succeed.");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use sched_model::domain::trace::TraceContext;

    use super::*;

    #[tokio::test]
    async fn nothing_is_begun_by_a_worker_that_may_have_lost_its_lease_without_noticing() {
        let slots = Arc::new(Semaphore::new(1));
        let now = monotonic();
        let (kill, stop_claiming, trusted_until) =
            (CancellationToken::new(), CancellationToken::new(), watch::Sender::new(now));
        let late = Bounds { kill: &kill, stop_claiming: &stop_claiming, trusted_until: &trusted_until };
        assert!(matches!(begin(&slots, &late).await, Begin::HandBack(LEASE_IN_DOUBT)));
        assert_eq!(slots.available_permits(), 1, "the slot is free again");
        trusted_until.send_replace(now + Duration::from_secs(60));
        let held = begin(&slots, &late).await;
        assert!(matches!(held, Begin::Slot(_)), "{held:?}");
        // The slot is freed after the lease has run out.
        let waiting = begin(&slots, &late);
        let freeing = async {
            trusted_until.send_replace(now);
            drop(held);
        };
        let (begun, ()) = tokio::join!(waiting, freeing);
        assert!(matches!(begun, Begin::HandBack(LEASE_IN_DOUBT)), "{begun:?}");
    }

    pub(crate) fn claimed() -> Claimed {
        Claimed {
            claim_id: 1,
            dispatch_id: DispatchId(uuid::Uuid::nil()),
            tenant_id: TenantId(uuid::Uuid::nil()),
            job_id: JobId(uuid::Uuid::nil()),
            job_name: "calls".into(),
            token: ClaimToken(1),
            attempt: 3,
            failures: sched_model::domain::attempt::Failures { retried: 2, lost: 0 },
            scheduled_for: DateTime::UNIX_EPOCH,
            created_at: DateTime::UNIX_EPOCH,
            available_at: DateTime::UNIX_EPOCH,
            claimed_at: DateTime::UNIX_EPOCH,
            triggered_by: sched_model::domain::dispatch::Trigger::Api,
            is_catch_up: false,
            args: serde_json::Value::Null,
            traceparent: None,
            handler_type: "http".into(),
            handler_config: serde_json::Value::Null,
            timeout: Duration::from_secs(60),
            retry_policy: None,
            limited_queue: None,
        }
    }

    /// An attempt that ended with exit code 7.
    pub(crate) fn failed(claimed: &Claimed) -> Ended {
        let report = Report::failed(ErrorClass::ExitCode, "exit code 7");
        ended(claimed, ExecutionId(uuid::Uuid::nil()), report, monotonic(), false, 3)
    }

    #[test]
    fn what_was_not_begun_uses_up_no_retry() {
        let after = |report: Report, max_attempts| {
            let (report, was_untried) =
                unless_untried(Report { elapsed: Duration::from_millis(1), ..report });
            ended(&claimed(), ExecutionId(uuid::Uuid::nil()), report, monotonic(), was_untried, max_attempts)
        };
        for max_attempts in [1, 3] {
            let untried = Report::untried("no space left on device");
            let rest = untried.retry_after.unwrap();
            let ended = after(untried, max_attempts);
            assert_eq!(ended.outcome, AttemptOutcome::Released);
            assert_eq!(ended.verdict, Verdict { event: DispatchEvent::Release, wait: Some(rest) });
            assert!(rest >= Duration::from_secs(5) && !ended.has_started(), "{rest:?}");
            assert_eq!(ended.record.error_class.as_deref(), Some("worker"));
        }
        let begun = after(Report::failed(ErrorClass::Worker, "it panicked"), 3);
        assert_eq!(begun.verdict.event, DispatchEvent::GiveUp, "it was the last of three");
        assert_eq!(
            after(Report::failed(ErrorClass::Worker, "it panicked"), 1).verdict.event,
            DispatchEvent::Fail
        );
    }

    #[test]
    fn what_an_attempt_calls_is_told_that_it_is_part_of_the_attempt() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let mut claimed = Claimed { traceparent: Some(given.into()), ..claimed() };
        let id = execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token);
        let told = execution(&mut claimed, id, Secrets::default()).traceparent.unwrap();
        let expected = TraceContext::parse(given).unwrap().attempt(id).to_string();
        assert_eq!(told, expected);
        assert!(told.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && told.ends_with("-00"), "{told}");
        assert!(!told.contains("b7ad6b7169203331"), "{told}");
    }

    #[test]
    fn kept_output_is_one_chunk_or_two_around_a_gap() {
        let whole = Captured { head: "all".into(), tail: String::new(), total_bytes: 3, dropped_bytes: 0 };
        let cut = Captured { head: "a".into(), tail: "z".into(), total_bytes: 26, dropped_bytes: 24 };
        let kept = chunks([("stdout", whole), ("stderr", Captured::default()), ("log", cut)]);
        let kept: Vec<_> = kept.iter().map(|c| (c.stream, c.chunk, c.dropped_bytes)).collect();
        assert_eq!(kept, [("stdout", 0, 0), ("log", 0, 0), ("log", 1, 24)]);
    }
}

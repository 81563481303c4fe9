//! One attempt: from the claim to what is stored of it.
//!
//! Runs the handler and turns its report, together with the retry policy, into an ended attempt for the completer. The slot
//! travels along and is free again once the result is stored, so that results cannot pile up without bound. When the lease is
//! lost the attempt is killed by dropping it, and nothing is reported. A handler that panics is a failed attempt.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::db::attempts::{Ended, OutputChunk, Record};
use sched_model::db::claims::Claimed;
use sched_model::db::recovery::OpenAttempt;
use sched_model::domain::attempt::{AttemptOutcome, Verdict, decide};
use sched_model::domain::dispatch::DispatchEvent;
use sched_model::domain::function::HandlerType;
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId, execution_id};
use sched_model::domain::retry::RetryPolicy;
use sched_runtime::clock::monotonic;
use sched_runtime::tasks::spawn_owned;
use tokio::sync::OwnedSemaphorePermit;

use crate::handlers::{Captured, ErrorClass, Execution, Live, Outcome, Report, Secrets};
use crate::session::Session;

/// Starts an attempt.
pub(crate) fn start(session: &Session, claimed: Claimed, permit: Option<OwnedSemaphorePermit>) {
    // The tracker owns the task, and `kill` ends it.
    session.attempts.spawn(run(session.clone(), claimed, permit, monotonic()));
}

async fn run(session: Session, claimed: Claimed, permit: Option<OwnedSemaphorePermit>, started: Instant) {
    let execution_id = execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token);
    let report = tokio::select! {
        biased;
        () = session.kill.cancelled() => None,
        report = report(&session, &claimed, execution_id) => Some(report),
    };
    let Some(report) = report else {
        tracing::warn!(dispatch.id = %claimed.dispatch_id, job.name = claimed.job_name, "The attempt was killed.");
        session.worker.seen.running.remove(claimed.token);
        return;
    };
    let was_handed_back = session.hand_back.is_cancelled() && report.outcome == Outcome::Cancelled;
    tell(&claimed, &report);
    let max_attempts = session.worker.config.max_retry_attempts;
    let ended = ended(&claimed, execution_id, report, started, was_handed_back, max_attempts);
    session.worker.completer.send(Some(claimed.claim_id), ended, permit).await;
}

/// Runs the handler in a task of its own, so that its panic is a report.
async fn report(session: &Session, claimed: &Claimed, execution_id: ExecutionId) -> Report {
    let kind: HandlerType = match claimed.handler_type.parse() {
        Ok(kind) => kind,
        Err(error) => {
            return Report::failed(ErrorClass::UnsupportedHandler, &format!("the worker is older: {error}"));
        }
    };
    let execution = execution(claimed, execution_id);
    let handlers = session.worker.handlers.clone();
    // Stopped with the session's hand-back, or alone when somebody cancels it.
    let cancel = session.worker.seen.running.cancellation(claimed.token);
    let running = spawn_owned("handler", async move { handlers.run(kind, execution, cancel).await });
    running.await.unwrap_or_else(|error| {
        Report::failed(
            ErrorClass::Worker,
            &format!("the handler failed: {}", sched_runtime::exit::describe(&error)),
        )
    })
}

fn execution(claimed: &Claimed, execution_id: ExecutionId) -> Execution {
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
        args: claimed.args.clone(),
        timeout: claimed.timeout,
        traceparent: claimed.traceparent.clone(),
        handler_config: claimed.handler_config.clone(),
        live: Live::detached(),
        secrets: Secrets::default(),
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
    let before_work = started.elapsed().saturating_sub(report.elapsed);
    let output_bytes = report.stdout.total_bytes.saturating_add(report.stderr.total_bytes);
    Ended {
        dispatch_id: claimed.dispatch_id,
        token: claimed.token,
        outcome,
        verdict: decide(outcome, error_class, claimed.failures, policy, rand::random())
            .no_retry_before(report.retry_after.unwrap_or_default()),
        record: Record {
            execution_id,
            started_at: claimed.claimed_at + TimeDelta::from_std(before_work).unwrap_or_default(),
            duration: report.elapsed,
            exit_code: report.exit_code,
            result: report.result,
            error_class: error_class.map(str::to_owned),
            error_message: report.error_message,
            output: [chunks("stdout", report.stdout), chunks("stderr", report.stderr)].concat(),
            output_bytes: i64::try_from(output_bytes).unwrap_or(i64::MAX),
        },
    }
}

/// The kept parts of a stream: its head, and its tail where something between them was dropped.
fn chunks(stream: &'static str, captured: Captured) -> Vec<OutputChunk> {
    let dropped_bytes = i64::try_from(captured.dropped_bytes).unwrap_or(i64::MAX);
    let head = OutputChunk { stream, chunk: 0, content: captured.head, dropped_bytes: 0 };
    let tail = OutputChunk { stream, chunk: 1, content: captured.tail, dropped_bytes };
    [head, tail].into_iter().filter(|chunk| !chunk.content.is_empty() || chunk.dropped_bytes > 0).collect()
}

/// A claim that came while the worker stopped, as an attempt that is handed back without having started.
pub(crate) fn handed_back(claimed: &Claimed) -> Ended {
    released(
        claimed.dispatch_id,
        claimed.token,
        claimed.claimed_at,
        ("worker_stopped", "the worker was stopping, so the attempt was never started"),
    )
}

/// A claim nobody knew of, as an attempt that is handed back without having started.
pub(crate) fn never_started(attempt: &OpenAttempt) -> Ended {
    released(
        attempt.dispatch_id,
        attempt.token,
        attempt.claimed_at,
        ("claim_unanswered", "the answer to the claim was lost, so the attempt was never started"),
    )
}

fn released(
    dispatch_id: DispatchId,
    token: ClaimToken,
    claimed_at: DateTime<Utc>,
    (class, message): (&str, &str),
) -> Ended {
    Ended {
        dispatch_id,
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
        None => tracing::info!(job.name = job, dispatch.id = %dispatch, attempt, elapsed_ms, "Executed."),
        Some(error) => {
            tracing::warn!(job.name = job, dispatch.id = %dispatch, attempt, elapsed_ms, error, "The attempt did not succeed.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_output_is_one_chunk_or_two_around_a_gap() {
        let whole = Captured { head: "all".into(), tail: String::new(), total_bytes: 3, dropped_bytes: 0 };
        let cut = Captured { head: "a".into(), tail: "z".into(), total_bytes: 26, dropped_bytes: 24 };
        assert_eq!(chunks("stdout", whole).len(), 1);
        let cut = chunks("stderr", cut);
        assert_eq!(cut.iter().map(|c| (c.chunk, c.dropped_bytes)).collect::<Vec<_>>(), [(0, 0), (1, 24)]);
        assert!(chunks("stdout", Captured::default()).is_empty());
    }
}

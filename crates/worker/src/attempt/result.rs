//! The stored end of an attempt, from the handler's report or from the reason of a release.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::attempt::{AttemptDecision, AttemptEnd, AttemptOutcome, decide};
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId, execution_id};
use sched_model::domain::retry::RetryPolicy;
use sched_model::domain::run_state::DispatchEvent;

use crate::backend::{Claimed, Ended, JobColumns, OpenAttempt, OutputChunk, Record};
use crate::handlers::{CapturedOutput, ErrorClass, Report, RetryHint};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReleaseReason {
    pub(crate) class: &'static str,
    pub(crate) message: &'static str,
}

const CLAIM_UNANSWERED: ReleaseReason = ReleaseReason {
    class: "claim_unanswered",
    message: "the answer to the claim was lost, so the attempt did not start",
};

pub(crate) struct Circumstances {
    /// The time of the claim's answer, by the monotonic clock of the worker.
    pub(crate) received: Instant,
    pub(crate) is_released: bool,
    /// Attempts of jobs without a retry policy.
    pub(crate) max_attempts: u32,
}

pub(crate) fn ended(
    claimed: &Claimed,
    attempt_id: ExecutionId,
    report: Report,
    circumstances: &Circumstances,
) -> Ended {
    let outcome = if circumstances.is_released { AttemptOutcome::Released } else { report.outcome.into() };
    let error_class = report.error_class.map(ErrorClass::as_str);
    let standard = RetryPolicy::standard(circumstances.max_attempts);
    let policy = claimed.retry_policy.as_ref().unwrap_or(&standard);
    let stricter = match (report.again, error_class) {
        (RetryHint::Never, Some(class)) => Some(policy.refusing(class)),
        _ => None,
    };
    let policy = stricter.as_ref().unwrap_or(policy);
    let before_work = circumstances.received.elapsed().saturating_sub(report.elapsed);
    let output_bytes =
        [&report.stdout, &report.stderr, &report.log].iter().map(|stream| stream.total_bytes).sum::<u64>();
    Ended {
        dispatch_id: claimed.dispatch_id,
        tenant_id: claimed.tenant_id,
        job_id: claimed.job_id,
        job: claimed.job.clone(),
        token: claimed.token,
        outcome,
        verdict: decide(AttemptEnd { outcome, error_class }, claimed.failures, policy, rand::random())
            .no_retry_before(report.retry_after.unwrap_or_default()),
        record: Record {
            execution_id: attempt_id,
            // By the clock of the database: the time of the claim plus the time since the answer.
            // Start and end are early by the delay of that answer; the duration is exact.
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

/// The head of each stream, and its tail if bytes between them were dropped.
fn chunks(streams: [(&'static str, CapturedOutput); 3]) -> Vec<OutputChunk> {
    let both = streams.into_iter().flat_map(|(stream, captured)| {
        let dropped_bytes = i64::try_from(captured.dropped_bytes).unwrap_or(i64::MAX);
        let head = OutputChunk { stream, chunk: 0, content: captured.head, dropped_bytes: 0 };
        let tail = OutputChunk { stream, chunk: 1, content: captured.tail, dropped_bytes };
        [head, tail]
    });
    both.filter(|chunk| !chunk.content.is_empty() || chunk.dropped_bytes > 0).collect()
}

struct UnstartedAttempt {
    dispatch_id: DispatchId,
    tenant_id: TenantId,
    job_id: JobId,
    job: Arc<JobColumns>,
    token: ClaimToken,
    claimed_at: DateTime<Utc>,
}

pub(crate) fn released(claimed: &Claimed, reason: ReleaseReason) -> Ended {
    let &Claimed { dispatch_id, tenant_id, job_id, ref job, token, claimed_at, .. } = claimed;
    let job = job.clone();
    released_unstarted(UnstartedAttempt { dispatch_id, tenant_id, job_id, job, token, claimed_at }, reason)
}

/// This worker never received the claim.
pub(crate) fn released_unknown(attempt: &OpenAttempt) -> Ended {
    let &OpenAttempt { dispatch_id, tenant_id, job_id, token, claimed_at, .. } = attempt;
    let job = attempt.job_columns();
    let unstarted = UnstartedAttempt { dispatch_id, tenant_id, job_id, job, token, claimed_at };
    released_unstarted(unstarted, CLAIM_UNANSWERED)
}

fn released_unstarted(unstarted: UnstartedAttempt, reason: ReleaseReason) -> Ended {
    let UnstartedAttempt { dispatch_id, tenant_id, job_id, job, token, claimed_at } = unstarted;
    Ended {
        dispatch_id,
        tenant_id,
        job_id,
        job,
        token,
        outcome: AttemptOutcome::Released,
        verdict: AttemptDecision { event: DispatchEvent::Release, wait: Some(Duration::ZERO) },
        record: Record {
            execution_id: execution_id(claimed_at, dispatch_id, token),
            started_at: claimed_at,
            duration: Duration::ZERO,
            exit_code: None,
            result: None,
            error_class: Some(reason.class.into()),
            error_message: Some(reason.message.into()),
            traceback: None,
            metrics: None,
            output: Vec::new(),
            output_bytes: 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use sched_runtime::monotonic_clock::monotonic;
    use uuid::Uuid;

    use super::*;
    use crate::attempt::fixture::claimed;

    #[test]
    fn unstarted_attempt_does_not_consume_a_retry() {
        let after = |report: Report, max_attempts| {
            let is_released = report.untried;
            let circumstances = Circumstances { received: monotonic(), is_released, max_attempts };
            ended(&claimed(), ExecutionId(Uuid::nil()), report, &circumstances)
        };
        for max_attempts in [1, 3] {
            let untried = Report::untried("no space left on device");
            let pause = untried.retry_after.unwrap();
            let ended = after(untried, max_attempts);
            assert_eq!(ended.outcome, AttemptOutcome::Released);
            assert_eq!(ended.verdict, AttemptDecision { event: DispatchEvent::Release, wait: Some(pause) });
            assert!(pause >= Duration::from_secs(5) && !ended.has_started(), "{pause:?}");
            assert_eq!(ended.record.error_class.as_deref(), Some("worker"));
        }
        let started = || Report::failed(ErrorClass::Worker, "it panicked");
        assert_eq!(after(started(), 3).verdict.event, DispatchEvent::GiveUp, "the last of three attempts");
        assert_eq!(after(started(), 1).verdict.event, DispatchEvent::Fail);
    }

    #[test]
    fn kept_output_is_one_chunk_or_two_around_a_gap() {
        let whole =
            CapturedOutput { head: "all".into(), tail: String::new(), total_bytes: 3, dropped_bytes: 0 };
        let cut = CapturedOutput { head: "a".into(), tail: "z".into(), total_bytes: 26, dropped_bytes: 24 };
        let kept = chunks([("stdout", whole), ("stderr", CapturedOutput::default()), ("log", cut)]);
        let kept: Vec<_> = kept.iter().map(|c| (c.stream, c.chunk, c.dropped_bytes)).collect();
        assert_eq!(kept, [("stdout", 0, 0), ("log", 0, 0), ("log", 1, 24)]);
    }
}

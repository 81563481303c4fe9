//! An attempt as a span in the trace of its run, for the log and for a collector of traces.
//!
//! The span id is the end of the attempt id. The worker sends the span when an attempt ends that
//! its handler had started, also if it was killed.

use std::time::{Duration, Instant};

use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{ExecutionId, WorkerId, execution_id};
use sched_model::domain::trace::TraceContext;
use sched_runtime::traces::{Kind, Span, SpanContext, Traces, Value};

use crate::backend::{Claimed, Ended};

pub(crate) fn trace(claimed: &Claimed) -> TraceContext {
    run(claimed).attempt(id(claimed))
}

pub(crate) fn log_span(claimed: &Claimed) -> tracing::Span {
    let (run, attempt) = (run(claimed), trace(claimed));
    tracing::info_span!(
        "attempt",
        trace_id = Hex::<32>::of(attempt.ids().0).as_str(),
        span_id = Hex::<16>::of(attempt.ids().1.into()).as_str(),
        parent_span_id = Hex::<16>::of(run.ids().1.into()).as_str(),
        tenant.id = %claimed.tenant_id,
    )
}

/// An id as hex digits, on the stack.
struct Hex<const DIGITS: usize>([u8; DIGITS]);

impl<const DIGITS: usize> Hex<DIGITS> {
    fn of(mut number: u128) -> Self {
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            let low = u8::try_from(number & 0xf).unwrap_or(0);
            *digit = if low < 10 { b'0' + low } else { b'a' + low - 10 };
            number >>= 4;
        }
        Self(digits)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Opened once, closed once with the outcome.
#[must_use = "an open span is sent only when it is closed"]
pub(crate) struct AttemptTrace<'a> {
    traces: &'a Traces,
    worker: WorkerId,
    opened: Instant,
}

pub(crate) enum TraceOutcome<'a> {
    Ended(&'a Ended),
    Killed(&'static str),
    /// The handler started nothing, so there is no span to send.
    NotStarted,
}

impl<'a> AttemptTrace<'a> {
    /// A span of an attempt that began at `opened`.
    pub(crate) fn of(traces: &'a Traces, worker: WorkerId, opened: Instant) -> Self {
        Self { traces, worker, opened }
    }

    /// Returns the time since the span was opened.
    pub(crate) fn close(self, claimed: &Claimed, outcome: TraceOutcome<'_>) -> Duration {
        let elapsed = self.opened.elapsed();
        let took = match outcome {
            TraceOutcome::NotStarted => return elapsed,
            TraceOutcome::Ended(ended) => ended.record.duration,
            TraceOutcome::Killed(_) => elapsed,
        };
        if self.traces.are_on() {
            let attempt = trace(claimed);
            let ((trace, span), is_sampled) = (attempt.ids(), attempt.is_sampled());
            self.traces.ended(SpanContext { trace, span, is_sampled }, took, || {
                finished(self.worker, claimed, &outcome)
            });
        }
        elapsed
    }
}

fn finished(worker: WorkerId, claimed: &Claimed, outcome: &TraceOutcome<'_>) -> Span {
    let waited_ms = (claimed.claimed_at - claimed.available_at).num_milliseconds().max(0);
    let mut attributes: Vec<(&'static str, Value)> = vec![
        ("tenant.id", claimed.tenant_id.to_string().into()),
        ("job.id", claimed.job_id.to_string().into()),
        ("job.name", claimed.job.name.as_str().into()),
        ("run.id", claimed.dispatch_id.to_string().into()),
        ("attempt.id", id(claimed).to_string().into()),
        ("worker.id", worker.to_string().into()),
        ("attempt", i64::from(claimed.attempt).into()),
        ("handler.type", claimed.handler_type.as_str().into()),
        ("triggered_by", claimed.triggered_by.as_str().into()),
        ("waited_ms", waited_ms.into()),
    ];
    let failure = match outcome {
        TraceOutcome::Ended(ended) => {
            attributes.push(("outcome", ended.outcome.as_str().into()));
            attributes.extend(ended.record.error_class.as_deref().map(|class| ("error.type", class.into())));
            let is_failure = !matches!(ended.outcome, AttemptOutcome::Completed | AttemptOutcome::Released);
            is_failure.then(|| ended.record.error_message.clone().unwrap_or_default())
        }
        TraceOutcome::NotStarted => None,
        TraceOutcome::Killed(why) => Some(format!("killed: {why}")),
    };
    Span {
        parent: Some(run(claimed).ids().1),
        name: format!("attempt {}", claimed.job.name),
        kind: Kind::Consumer,
        attributes,
        failure,
    }
}

fn run(claimed: &Claimed) -> TraceContext {
    TraceContext::of_dispatch(claimed.dispatch_id, claimed.traceparent.as_deref())
}

fn id(claimed: &Claimed) -> ExecutionId {
    execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::fixture::{claimed, failed};

    #[test]
    fn span_of_an_attempt_uses_the_ids_of_history() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let claimed = Claimed { traceparent: Some(given.into()), ..claimed() };
        let worker = WorkerId(uuid::Uuid::nil());
        let ended = failed(&claimed);
        let span = finished(worker, &claimed, &TraceOutcome::Ended(&ended));
        assert_eq!((span.name.as_str(), span.parent), ("attempt calls", Some(0xb7ad_6b71_6920_3331)));
        assert_eq!(span.failure.as_deref(), Some("exit code 7"));
        for fact in [
            ("job.name", Value::from("calls")),
            ("attempt.id", id(&claimed).to_string().into()),
            ("attempt", 3.into()),
            ("outcome", "FAILED".into()),
            ("error.type", "exit_code".into()),
        ] {
            assert!(span.attributes.contains(&fact), "{fact:?}: {:?}", span.attributes);
        }
        let released = Ended { outcome: AttemptOutcome::Released, ..ended };
        let released = finished(worker, &claimed, &TraceOutcome::Ended(&released));
        assert!(released.failure.is_none() && released.attributes.contains(&("outcome", "RELEASED".into())));
        let killed = finished(worker, &claimed, &TraceOutcome::Killed("its lease was lost"));
        assert_eq!(killed.failure.as_deref(), Some("killed: its lease was lost"));
        let (_, own) = trace(&claimed).ids();
        assert!(id(&claimed).0.simple().to_string().ends_with(&format!("{own:016x}")));
        assert!(!trace(&claimed).is_sampled());
    }

    #[test]
    fn hex_ids_equal_those_of_the_trace() {
        let context = trace(&claimed());
        assert_eq!(Hex::<32>::of(context.ids().0).as_str(), context.trace_id());
        assert_eq!(Hex::<16>::of(context.ids().1.into()).as_str(), context.span_id());
        assert_eq!(Hex::<16>::of(u64::MAX.into()).as_str(), "f".repeat(16));
        assert_eq!(Hex::<16>::of(0x1a2b).as_str(), "0000000000001a2b");
    }
}

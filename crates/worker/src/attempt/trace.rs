//! An attempt as a span of the trace of its dispatch, for the log and for a collector of traces.
//!
//! It has the same ids in both: the trace of its dispatch, and the end of its own id as the span, of which what the handler calls is told.
//! A collector is told of attempts whose handler was begun, when they have ended: also of those that were killed.

use std::time::Duration;

use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{ExecutionId, WorkerId, execution_id};
use sched_model::domain::trace::TraceContext;
use sched_model::running::attempts::Ended;
use sched_model::running::claims::Claimed;
use sched_runtime::traces::{Kind, Place, Span, Traces, Value};

/// Where an attempt belongs in the trace of its dispatch.
pub(crate) fn trace(claimed: &Claimed) -> TraceContext {
    dispatch(claimed).attempt(id(claimed))
}

/// What the log says of everything that happens in an attempt.
pub(crate) fn log_span(claimed: &Claimed) -> tracing::Span {
    let attempt = trace(claimed);
    tracing::info_span!(
        "attempt",
        trace_id = attempt.trace_id(),
        span_id = attempt.span_id(),
        parent_span_id = dispatch(claimed).span_id(),
        tenant.id = %claimed.tenant_id,
    )
}

/// Tells a collector, if there is one, of an attempt that ends now.
pub(crate) fn ended(traces: &Traces, worker: WorkerId, claimed: &Claimed, took: Duration, how: &How<'_>) {
    if !traces.are_on() {
        return;
    }
    let attempt = trace(claimed);
    let ((trace, span), is_sampled) = (attempt.ids(), attempt.is_sampled());
    traces.ended(Place { trace, span, is_sampled }, took, || told(worker, claimed, how));
}

/// How an attempt ended.
pub(crate) enum How<'a> {
    /// As history has it.
    Ended(&'a Ended),
    /// It was killed, and why.
    Killed(&'static str),
}

fn told(worker: WorkerId, claimed: &Claimed, how: &How<'_>) -> Span {
    let waited_ms = (claimed.claimed_at - claimed.available_at).num_milliseconds().max(0);
    let mut attributes: Vec<(&'static str, Value)> = vec![
        ("tenant.id", claimed.tenant_id.to_string().into()),
        ("job.id", claimed.job_id.to_string().into()),
        ("job.name", claimed.job_name.as_str().into()),
        ("dispatch.id", claimed.dispatch_id.to_string().into()),
        ("execution.id", id(claimed).to_string().into()),
        ("worker.id", worker.to_string().into()),
        ("attempt", i64::from(claimed.attempt).into()),
        ("handler.type", claimed.handler_type.as_str().into()),
        ("triggered_by", claimed.triggered_by.as_str().into()),
        ("waited_ms", waited_ms.into()),
    ];
    let failure = match how {
        How::Ended(ended) => {
            attributes.push(("outcome", ended.outcome.as_str().into()));
            attributes.extend(ended.record.error_class.as_deref().map(|class| ("error.type", class.into())));
            // What is handed back because its worker stops has not failed.
            let is_failure = !matches!(ended.outcome, AttemptOutcome::Completed | AttemptOutcome::Released);
            is_failure.then(|| ended.record.error_message.clone().unwrap_or_default())
        }
        How::Killed(why) => Some(format!("killed: {why}")),
    };
    Span {
        parent: Some(dispatch(claimed).ids().1),
        name: format!("attempt {}", claimed.job_name),
        kind: Kind::Consumer,
        attributes,
        failure,
    }
}

fn dispatch(claimed: &Claimed) -> TraceContext {
    TraceContext::of_dispatch(claimed.dispatch_id, claimed.traceparent.as_deref())
}

fn id(claimed: &Claimed) -> ExecutionId {
    execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::executor::tests::{claimed, failed};

    #[test]
    fn an_attempt_is_told_of_with_what_it_is_called_elsewhere() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let claimed = Claimed { traceparent: Some(given.into()), ..claimed() };
        let worker = WorkerId(uuid::Uuid::nil());
        let ended = failed(&claimed);
        let span = told(worker, &claimed, &How::Ended(&ended));
        assert_eq!((span.name.as_str(), span.parent), ("attempt calls", Some(0xb7ad_6b71_6920_3331)));
        assert_eq!(span.failure.as_deref(), Some("exit code 7"));
        for fact in [
            ("job.name", Value::from("calls")),
            ("execution.id", id(&claimed).to_string().into()),
            ("attempt", 3.into()),
            ("outcome", "FAILED".into()),
            ("error.type", "exit_code".into()),
        ] {
            assert!(span.attributes.contains(&fact), "{fact:?}: {:?}", span.attributes);
        }
        let released = Ended { outcome: AttemptOutcome::Released, ..ended };
        let released = told(worker, &claimed, &How::Ended(&released));
        assert!(released.failure.is_none() && released.attributes.contains(&("outcome", "RELEASED".into())));
        let killed = told(worker, &claimed, &How::Killed("its lease was lost"));
        assert_eq!(killed.failure.as_deref(), Some("killed: its lease was lost"));
        let (_, own) = trace(&claimed).ids();
        assert!(id(&claimed).0.simple().to_string().ends_with(&format!("{own:016x}")));
        assert!(!trace(&claimed).is_sampled());
    }
}

//! Reports failed runs to the error tracker, if the operator enables it.
//!
//! The scheduler logs runs that it ends because of lost workers. A report has no secrets and no
//! output.

use sched_model::domain::run_state::DispatchEvent;
use sched_runtime::tracker::{Report, Tracker};

use crate::attempt::trace::trace;
use crate::backend::{Claimed, Ended};

pub(crate) fn report(tracker: &Tracker, claimed: &Claimed, ended: &Ended) {
    use DispatchEvent::{Fail, GiveUp, TimeOut};
    if matches!(ended.verdict.event, Fail | TimeOut | GiveUp) {
        tracker.report(|| details(claimed, ended));
    }
}

fn details(claimed: &Claimed, ended: &Ended) -> Report {
    let trace = trace(claimed);
    let class = ended.record.error_class.clone().unwrap_or_default();
    let message = ended.record.error_message.as_deref().unwrap_or("the attempt failed");
    let facts = [
        ("trace_id", trace.trace_id()),
        ("span_id", trace.span_id()),
        ("tenant.id", claimed.tenant_id.to_string()),
        ("job.id", claimed.job_id.to_string()),
        ("job.name", claimed.job.name.clone()),
        ("run.id", claimed.dispatch_id.to_string()),
        ("attempt.id", ended.record.execution_id.to_string()),
        ("attempt", claimed.attempt.to_string()),
        ("error.type", class.clone()),
    ];
    Report {
        title: format!("{}: {message}", claimed.job.name),
        facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        group: vec!["run failed".to_owned(), claimed.job_id.to_string(), class],
    }
}

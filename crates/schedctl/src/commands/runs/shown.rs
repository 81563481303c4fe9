//! How runs and attempts are shown: in lists, and one of them with all that the API knows of it. Pure.

use sched_wire::{Attempt, Progress, Run};

use crate::output::{Column, duration, or_dash, time};

pub(crate) const DISPATCHES: &[Column<Run>] = &[
    Column::new("ID", |dispatch| dispatch.id.to_string()),
    Column::new("JOB", |dispatch| dispatch.job.clone()),
    Column::new("STATUS", |dispatch| dispatch.status.to_string()),
    Column::new("ATTEMPT", |dispatch| dispatch.attempt.to_string()),
    Column::new("SCHEDULED FOR", |dispatch| time(dispatch.scheduled_for)),
    Column::new("TRIGGERED BY", |dispatch| dispatch.triggered_by.clone()),
    Column::wide("PROGRESS", |dispatch| or_dash(dispatch.progress.as_ref().map(progress))),
    Column::wide("CAUSED BY", |dispatch| or_dash(dispatch.caused_by)),
    Column::wide("RETRY OF", |dispatch| or_dash(dispatch.retry_of)),
    Column::wide("AVAILABLE", |dispatch| time(dispatch.available_at)),
    Column::wide("EXPIRES", |dispatch| or_dash(dispatch.expires_at.map(time))),
    Column::wide("CLAIMED", |dispatch| or_dash(dispatch.claimed_at.map(time))),
    Column::wide("succeeded", |dispatch| or_dash(dispatch.completed_at.map(time))),
    Column::wide("QUEUE", |dispatch| dispatch.queue.clone()),
    Column::wide("WORKER", |dispatch| or_dash(dispatch.worker_id)),
    Column::wide("ERROR", |dispatch| or_dash(dispatch.error_message.as_deref())),
];

pub(super) const RUN: &[Column<Run>] = &[
    Column::new("Id", |dispatch| dispatch.id.to_string()),
    Column::new("Job", |dispatch| dispatch.job.clone()),
    Column::new("Job id", |dispatch| dispatch.job_id.to_string()),
    Column::new("Status", |dispatch| dispatch.status.to_string()),
    Column::new("Error", |dispatch| or_dash(dispatch.error_message.as_deref())),
    Column::new("Progress", |dispatch| or_dash(dispatch.progress.as_ref().map(progress))),
    Column::new("Arguments", |dispatch| dispatch.task_args.to_string()),
    Column::new("Attempts", attempts),
    Column::new("Triggered by", |dispatch| match &dispatch.triggered_by_user {
        Some(user) => format!("{}: {user}", dispatch.triggered_by),
        None => dispatch.triggered_by.clone(),
    }),
    Column::new("Caused by", |dispatch| or_dash(dispatch.caused_by)),
    Column::new("Retry of", |dispatch| or_dash(dispatch.retry_of)),
    Column::new("Scheduled for", |dispatch| {
        let catch_up = if dispatch.is_catch_up { ", caught up" } else { "" };
        format!("{}{catch_up}", time(dispatch.scheduled_for))
    }),
    Column::new("Created", |dispatch| time(dispatch.created_at)),
    Column::new("Available", |dispatch| time(dispatch.available_at)),
    Column::new("Expires", |dispatch| or_dash(dispatch.expires_at.map(time))),
    Column::new("Claimed", |dispatch| or_dash(dispatch.claimed_at.map(time))),
    Column::new("Completed", |dispatch| or_dash(dispatch.completed_at.map(time))),
    Column::new("Queue", |dispatch| dispatch.queue.clone()),
    Column::new("Priority", |dispatch| dispatch.priority.to_string()),
    Column::new("Worker", |dispatch| or_dash(dispatch.worker_id)),
    Column::new("Trace id", |dispatch| or_dash(dispatch.trace_id.as_deref())),
];

pub(crate) const ATTEMPTS: &[Column<Attempt>] = &[
    Column::new("ID", |execution| execution.id.to_string()),
    Column::new("JOB", |execution| or_dash(execution.job.as_deref())),
    Column::new("ATTEMPT", |execution| execution.attempt.to_string()),
    Column::new("STATUS", |execution| execution.status.to_string()),
    Column::new("STARTED", |execution| time(execution.started_at)),
    Column::new("DURATION", |execution| duration(execution.duration_ms)),
    Column::new("EXIT CODE", |execution| or_dash(execution.exit_code)),
    Column::wide("SCHEDULED FOR", |execution| time(execution.scheduled_for)),
    Column::wide("TRIGGERED BY", |execution| execution.triggered_by.clone()),
    Column::wide("WORKER", |execution| or_dash(execution.worker_id)),
    Column::wide("OUTPUT", |execution| format!("{}B", execution.output_bytes)),
    Column::wide("RUN", |execution| execution.run_id.to_string()),
    Column::wide("ERROR", |execution| or_dash(execution.error_message.as_deref())),
    Column::wide("RESULT", |execution| or_dash(execution.result.as_ref())),
];

pub(super) const ATTEMPT: &[Column<Attempt>] = &[
    Column::new("Id", |execution| execution.id.to_string()),
    Column::new("Job", |execution| or_dash(execution.job.as_deref())),
    Column::new("Job id", |execution| execution.job_id.to_string()),
    Column::new("Run", |execution| execution.run_id.to_string()),
    Column::new("Attempt", |execution| execution.attempt.to_string()),
    Column::new("Status", |execution| execution.status.to_string()),
    Column::new("Exit code", |execution| or_dash(execution.exit_code)),
    Column::new("Error", |execution| or_dash(execution.error_message.as_deref())),
    Column::new("Error class", |execution| or_dash(execution.error_class.as_deref())),
    Column::new("Traceback", |execution| or_dash(execution.traceback.as_deref())),
    Column::new("Result", |execution| or_dash(execution.result.as_ref())),
    Column::new("Metrics", |execution| or_dash(execution.metrics.as_ref())),
    Column::new("Output", |execution| format!("{}B", execution.output_bytes)),
    Column::new("Scheduled for", |execution| time(execution.scheduled_for)),
    Column::new("Started", |execution| time(execution.started_at)),
    Column::new("Completed", |execution| time(execution.completed_at)),
    Column::new("Duration", |execution| duration(execution.duration_ms)),
    Column::new("Triggered by", |execution| execution.triggered_by.clone()),
    Column::new("Worker", |execution| or_dash(execution.worker_id)),
    Column::new("Trace id", |execution| or_dash(execution.trace_id.as_deref())),
    Column::new("Span id", |execution| or_dash(execution.span_id.as_deref())),
];

/// Attempts that were begun, and what became of those that were not the last.
fn attempts(dispatch: &Run) -> String {
    let Run { attempt, retry_count, lost_count, .. } = dispatch;
    format!("{attempt} begun, {retry_count} followed by a retry, {lost_count} lost")
}

/// How far a run has come, on one line.
pub(crate) fn progress(progress: &Progress) -> String {
    match progress.percent {
        Some(percent) => format!("{percent:.0} % {}", progress.message).trim_end().to_owned(),
        None => progress.message.clone(),
    }
}

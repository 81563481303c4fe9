//! Columns of runs and attempts. Pure.

use sched_wire::{Attempt, Progress, Run};

use crate::output::{Column, duration, or_dash, time};

pub(crate) const RUNS: &[Column<Run>] = &[
    Column::new("ID", |run| run.id.to_string()),
    Column::new("JOB", |run| run.job.clone()),
    Column::new("STATUS", |run| run.status.to_string()),
    Column::new("ATTEMPT", |run| run.attempt.to_string()),
    Column::new("SCHEDULED FOR", |run| time(run.scheduled_for)),
    Column::new("TRIGGERED BY", |run| run.triggered_by.clone()),
    Column::wide("PROGRESS", |run| or_dash(run.progress.as_ref().map(progress))),
    Column::wide("CAUSED BY", |run| or_dash(run.caused_by)),
    Column::wide("RETRY OF", |run| or_dash(run.retry_of)),
    Column::wide("AVAILABLE", |run| time(run.available_at)),
    Column::wide("EXPIRES", |run| or_dash(run.expires_at.map(time))),
    Column::wide("CLAIMED", |run| or_dash(run.claimed_at.map(time))),
    Column::wide("COMPLETED", |run| or_dash(run.completed_at.map(time))),
    Column::wide("QUEUE", |run| run.queue.clone()),
    Column::wide("WORKER", |run| or_dash(run.worker_id)),
    Column::wide("ERROR", |run| or_dash(run.error_message.as_deref())),
];

pub(super) const RUN: &[Column<Run>] = &[
    Column::new("Id", |run| run.id.to_string()),
    Column::new("Job", |run| run.job.clone()),
    Column::new("Job id", |run| run.job_id.to_string()),
    Column::new("Status", |run| run.status.to_string()),
    Column::new("Error", |run| or_dash(run.error_message.as_deref())),
    Column::new("Progress", |run| or_dash(run.progress.as_ref().map(progress))),
    Column::new("Arguments", |run| run.task_args.to_string()),
    Column::new("Attempts", attempts),
    Column::new("Triggered by", |run| match &run.triggered_by_user {
        Some(user) => format!("{}: {user}", run.triggered_by),
        None => run.triggered_by.clone(),
    }),
    Column::new("Caused by", |run| or_dash(run.caused_by)),
    Column::new("Retry of", |run| or_dash(run.retry_of)),
    Column::new("Scheduled for", |run| {
        let catch_up = if run.is_catch_up { ", caught up" } else { "" };
        format!("{}{catch_up}", time(run.scheduled_for))
    }),
    Column::new("Created", |run| time(run.created_at)),
    Column::new("Available", |run| time(run.available_at)),
    Column::new("Expires", |run| or_dash(run.expires_at.map(time))),
    Column::new("Claimed", |run| or_dash(run.claimed_at.map(time))),
    Column::new("Completed", |run| or_dash(run.completed_at.map(time))),
    Column::new("Queue", |run| run.queue.clone()),
    Column::new("Priority", |run| run.priority.to_string()),
    Column::new("Worker", |run| or_dash(run.worker_id)),
    Column::new("Trace id", |run| or_dash(run.trace_id.as_deref())),
];

pub(crate) const ATTEMPTS: &[Column<Attempt>] = &[
    Column::new("ID", |attempt| attempt.id.to_string()),
    Column::new("JOB", |attempt| or_dash(attempt.job.as_deref())),
    Column::new("ATTEMPT", |attempt| attempt.attempt.to_string()),
    Column::new("STATUS", |attempt| attempt.status.to_string()),
    Column::new("STARTED", |attempt| time(attempt.started_at)),
    Column::new("DURATION", |attempt| duration(attempt.duration_ms)),
    Column::new("EXIT CODE", |attempt| or_dash(attempt.exit_code)),
    Column::wide("SCHEDULED FOR", |attempt| time(attempt.scheduled_for)),
    Column::wide("TRIGGERED BY", |attempt| attempt.triggered_by.clone()),
    Column::wide("WORKER", |attempt| or_dash(attempt.worker_id)),
    Column::wide("OUTPUT", output_size),
    Column::wide("RUN", |attempt| attempt.run_id.to_string()),
    Column::wide("ERROR", |attempt| or_dash(attempt.error_message.as_deref())),
    Column::wide("RESULT", |attempt| or_dash(attempt.result.as_ref())),
];

pub(super) const ATTEMPT: &[Column<Attempt>] = &[
    Column::new("Id", |attempt| attempt.id.to_string()),
    Column::new("Job", |attempt| or_dash(attempt.job.as_deref())),
    Column::new("Job id", |attempt| attempt.job_id.to_string()),
    Column::new("Run", |attempt| attempt.run_id.to_string()),
    Column::new("Attempt", |attempt| attempt.attempt.to_string()),
    Column::new("Status", |attempt| attempt.status.to_string()),
    Column::new("Exit code", |attempt| or_dash(attempt.exit_code)),
    Column::new("Error", |attempt| or_dash(attempt.error_message.as_deref())),
    Column::new("Error class", |attempt| or_dash(attempt.error_class.as_deref())),
    Column::new("Traceback", |attempt| or_dash(attempt.traceback.as_deref())),
    Column::new("Result", |attempt| or_dash(attempt.result.as_ref())),
    Column::new("Metrics", |attempt| or_dash(attempt.metrics.as_ref())),
    Column::new("Output", output_size),
    Column::new("Scheduled for", |attempt| time(attempt.scheduled_for)),
    Column::new("Started", |attempt| time(attempt.started_at)),
    Column::new("Completed", |attempt| time(attempt.completed_at)),
    Column::new("Duration", |attempt| duration(attempt.duration_ms)),
    Column::new("Triggered by", |attempt| attempt.triggered_by.clone()),
    Column::new("Worker", |attempt| or_dash(attempt.worker_id)),
    Column::new("Trace id", |attempt| or_dash(attempt.trace_id.as_deref())),
    Column::new("Span id", |attempt| or_dash(attempt.span_id.as_deref())),
];

fn output_size(attempt: &Attempt) -> String {
    let note = if attempt.is_output_incomplete { " (incomplete)" } else { "" };
    format!("{}B{note}", attempt.output_bytes)
}

fn attempts(run: &Run) -> String {
    let Run { attempt, retry_count, lost_count, .. } = run;
    format!("{attempt} started, {retry_count} followed by a retry, {lost_count} lost")
}

pub(crate) fn progress(progress: &Progress) -> String {
    match progress.percent {
        Some(percent) => format!("{percent:.0} % {}", progress.message).trim_end().to_owned(),
        None => progress.message.clone(),
    }
}

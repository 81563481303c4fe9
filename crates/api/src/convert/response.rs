//! Converts rows to answers.

use sched_model::definitions::functions::{Function, FunctionSettings};
use sched_model::dispatching::dispatches::Dispatch;
use sched_model::domain::dependency::After;
use sched_model::domain::job::JobSettings;
use sched_model::domain::notification::run_url;
use sched_model::domain::retry::RetryPolicy;
use sched_model::domain::run_state::{Settlement, Trigger};
use sched_model::domain::trace::TraceContext;
use sched_model::jobs::{Job, JobStatus};
use sched_model::running::dead_letters::DeadLetter;
use sched_model::running::executions::{Execution, Output};
use sched_model::running::live_output::Progress;
use sched_wire as wire;
use serde_json::{Map, Value};

use super::IntoWire;
use super::effective::InstallationDefaults;
use super::hidden::{Sight, hide_variables};
use crate::error::ApiError;

/// A CHECK of the schema guarantees an object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn retry_policy(policy: RetryPolicy) -> wire::RetryPolicySpec {
    wire::RetryPolicySpec {
        max_attempts: policy.max_attempts,
        backoff_seconds: policy.backoff_seconds,
        backoff_type: policy.backoff_type.into_wire(),
        max_backoff_seconds: policy.max_backoff_seconds,
        jitter_percent: policy.jitter_percent,
        non_retryable: policy.non_retryable,
    }
}

fn after(after: Vec<After>) -> Vec<wire::AfterSpec> {
    after.into_iter().map(|after| wire::AfterSpec { job: after.job, on: after.on.into_wire() }).collect()
}

pub(crate) fn spec(settings: JobSettings) -> wire::JobSpec {
    wire::JobSpec {
        name: settings.name,
        description: Some(settings.description).filter(|text| !text.is_empty()),
        scope: settings.scope.into_wire(),
        project: settings.project,
        function: settings.function,
        task_args: object(settings.task_args),
        job_type: settings.job_type.into_wire(),
        schedule_config: object(settings.schedule_config),
        timezone: Some(settings.timezone),
        dst_gap: settings.dst_gap.map(IntoWire::into_wire),
        dst_overlap: settings.dst_overlap.map(IntoWire::into_wire),
        start_at: settings.start_at,
        end_at: settings.end_at,
        max_runs: settings.max_runs,
        jitter_seconds: settings.jitter_seconds,
        calendars: settings.calendars,
        calendar_roll: settings.calendar_roll.into_wire(),
        expected_duration_seconds: settings.expected_duration_seconds,
        after: after(settings.after),
        after_mode: settings.after_mode.into_wire(),
        misfire_policy: settings.misfire_policy.into_wire(),
        misfire_grace_seconds: settings.misfire_grace_seconds,
        misfire_cap: settings.misfire_cap,
        max_instances: settings.max_instances,
        overlap_policy: settings.overlap_policy.into_wire(),
        queue: settings.queue,
        priority: settings.priority,
        timeout_seconds: settings.timeout_seconds,
        start_within_seconds: settings.start_within_seconds,
        retry_policy: settings.retry_policy.map(retry_policy),
        is_enabled: settings.is_enabled,
    }
}

pub(crate) fn job(job: Job, followed_by: Vec<After>, installation: InstallationDefaults) -> wire::Job {
    let status = JobStatus::of(&job).into_wire();
    let Job { id, settings, state, defaults } = job;
    let effective = installation.of_job(&settings, &defaults);
    wire::Job {
        status,
        deleted_at: state.deleted_at,
        id: id.0,
        name: settings.name,
        description: settings.description,
        scope: settings.scope.into_wire(),
        project: settings.project,
        function: settings.function,
        task_args: object(settings.task_args),
        job_type: settings.job_type.into_wire(),
        schedule_config: object(settings.schedule_config),
        timezone: settings.timezone,
        dst_gap: settings.dst_gap.map(IntoWire::into_wire),
        dst_overlap: settings.dst_overlap.map(IntoWire::into_wire),
        start_at: settings.start_at,
        end_at: settings.end_at,
        max_runs: settings.max_runs,
        jitter_seconds: settings.jitter_seconds,
        calendars: settings.calendars,
        calendar_roll: settings.calendar_roll.into_wire(),
        expected_duration_seconds: settings.expected_duration_seconds,
        after: after(settings.after),
        after_mode: settings.after_mode.into_wire(),
        followed_by: after(followed_by),
        misfire_policy: settings.misfire_policy.into_wire(),
        misfire_grace_seconds: settings.misfire_grace_seconds,
        misfire_cap: settings.misfire_cap,
        max_instances: settings.max_instances,
        overlap_policy: settings.overlap_policy.to_string(),
        queue: settings.queue,
        priority: settings.priority,
        timeout_seconds: settings.timeout_seconds,
        start_within_seconds: settings.start_within_seconds,
        retry_policy: settings.retry_policy.map(retry_policy),
        effective,
        is_enabled: settings.is_enabled,
        disabled_reason: state.disabled_reason,
        is_paused: state.is_paused,
        // Still stored after a pause has expired.
        pause_reason: state.pause_reason.filter(|_| state.is_paused),
        paused_until: state.paused_until.filter(|_| state.is_paused),
        next_run_at: state.next_run_at,
        last_run_at: state.last_run_at,
        last_status: state.last_status.map(IntoWire::into_wire),
        last_dispatched_at: state.last_dispatched_at,
        total_run_count: state.total_run_count,
        active_runs: state.active_dispatches,
        tzdata_version: state.tzdata_version,
        version: state.version,
        created_at: state.created_at,
        created_by: state.created_src,
        updated_at: state.updated_at,
        updated_by: state.updated_src,
        made_from: state.made_from.and_then(super::template::made_from),
    }
}

/// Fails for a handler type that users cannot write.
pub(crate) fn function_spec(
    settings: FunctionSettings,
    sight: Sight,
) -> Result<wire::FunctionSpec, ApiError> {
    let handler_type = serde_json::from_value(settings.handler_type.as_str().into());
    Ok(wire::FunctionSpec {
        display_name: Some(settings.display_name).filter(|shown| *shown != settings.name),
        name: settings.name,
        description: Some(settings.description).filter(|text| !text.is_empty()),
        handler_type: handler_type.map_err(ApiError::Unwritten)?,
        handler_config: object(hide_variables(settings.handler_config, sight)),
        queue: settings.queue,
        default_timeout_seconds: settings.default_timeout_seconds,
        retry_policy: settings.retry_policy.map(retry_policy),
        args_schema: settings.args_schema.map(object),
    })
}

pub(crate) fn function(
    function: Function,
    sight: Sight,
    installation: InstallationDefaults,
) -> wire::Function {
    let Function { id, settings, is_active, is_paused, pause_reason, is_system, created_at, updated_at } =
        function;
    let effective = installation.of_function(&settings);
    wire::Function {
        id: id.0,
        name: settings.name,
        display_name: settings.display_name,
        description: settings.description,
        handler_type: settings.handler_type.to_string(),
        handler_config: object(hide_variables(settings.handler_config, sight)),
        queue: settings.queue,
        default_timeout_seconds: settings.default_timeout_seconds,
        retry_policy: settings.retry_policy.map(retry_policy),
        effective,
        args_schema: settings.args_schema.map(object),
        is_active,
        is_paused,
        pause_reason,
        is_system,
        created_at,
        updated_at,
    }
}

pub(crate) fn dispatch(dispatch: Dispatch) -> wire::Run {
    let Dispatch { row, job_name, progress } = dispatch;
    let trace = TraceContext::of_dispatch(row.id, row.traceparent.as_deref());
    wire::Run {
        id: row.id.0,
        job_id: row.job_id.0,
        job: job_name,
        status: row.status.into_wire(),
        scheduled_for: row.scheduled_for,
        created_at: row.created_at,
        available_at: row.available_at,
        claimed_at: row.claimed_at,
        completed_at: row.completed_at,
        queue: row.queue,
        priority: row.priority,
        attempt: row.attempt,
        retry_count: row.retry_count,
        lost_count: row.lost_count,
        worker_id: row.worker_id.map(|id| id.0),
        error_message: row.error_message,
        triggered_by: row.triggered_by.to_string(),
        triggered_by_user: row.triggered_by_user,
        caused_by: row.trigger_id.filter(|_| row.triggered_by == Trigger::Dependency),
        retry_of: row.retry_of.map(|id| id.0),
        task_args: row.args,
        is_catch_up: row.is_catch_up,
        expires_at: row.expires_at,
        progress: progress.map(self::progress),
        trace_id: Some(trace.trace_id()),
    }
}

pub(crate) fn dead_letter(
    letter: DeadLetter,
    output_tail: Option<String>,
    public_url: Option<&str>,
) -> wire::DeadLetter {
    let attempt_id = letter.last_attempt().map(|id| id.0);
    let DeadLetter { row, dispatch, job_name } = letter;
    wire::DeadLetter {
        attempt_id,
        output_tail,
        url: public_url.map(|url| run_url(url, &row.dispatch_id.to_string())),
        run_id: row.dispatch_id.0,
        job_id: row.job_id.0,
        job: job_name,
        queue: row.queue,
        scheduled_for: dispatch.scheduled_for,
        died_at: row.died_at,
        attempts: dispatch.attempt,
        lost_count: dispatch.lost_count,
        // Every other attempt failed or was lost, and a retry followed each of those except the
        // last.
        handed_back: (dispatch.attempt - dispatch.retry_count - 1).max(0),
        error_class: row.error_class,
        error_message: dispatch.error_message,
        task_args: dispatch.args,
        state: match row.settled_as {
            None => wire::DeadLetterState::Open,
            Some(Settlement::Retried) => wire::DeadLetterState::Retried,
            Some(Settlement::Discarded) => wire::DeadLetterState::Discarded,
        },
        settled_at: row.settled_at,
        settled_by: row.settled_by,
        settled_reason: row.settled_reason,
        retried_as: row.retried_as.map(|id| id.0),
    }
}

pub(crate) fn progress(progress: Progress) -> wire::Progress {
    let Progress { percent, message, updated_at } = progress;
    wire::Progress { percent, message, updated_at }
}

pub(crate) fn execution(execution: Execution) -> wire::Attempt {
    let trace = execution.trace();
    wire::Attempt {
        id: execution.id.0,
        job_id: execution.job_id.0,
        job: execution.job_name,
        run_id: execution.dispatch_id.0,
        attempt: execution.attempt,
        status: execution.status.into_wire(),
        scheduled_for: execution.scheduled_for,
        started_at: execution.started_at,
        completed_at: execution.completed_at,
        duration_ms: execution.duration_ms,
        exit_code: execution.exit_code,
        result: execution.result,
        error_class: execution.error_class,
        error_message: execution.error_message,
        metrics: execution.metrics,
        traceback: execution.traceback,
        output_bytes: execution.output_bytes,
        is_output_incomplete: execution.status.has_incomplete_output(),
        worker_id: execution.worker_id.map(|id| id.0),
        triggered_by: execution.triggered_by.to_string(),
        trace_id: trace.map(|trace| trace.trace_id()),
        span_id: trace.map(|trace| trace.span_id()),
    }
}

pub(crate) fn output(execution: &Execution, chunks: Vec<Output>) -> wire::AttemptOutput {
    let chunks = chunks.into_iter().map(|chunk| wire::OutputChunk {
        stream: chunk.stream,
        chunk: chunk.chunk,
        content: chunk.content,
        dropped_bytes: chunk.dropped_bytes,
    });
    wire::AttemptOutput {
        attempt_id: execution.id.0,
        is_incomplete: execution.status.has_incomplete_output(),
        chunks: chunks.collect(),
    }
}

//! Explanations: from the requested window to the answer.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use sched_model::dispatching::dispatches;
use sched_model::domain::explain::{
    Attempt, BlockingDispatch, DispatchRecord, ExplainError, Explanation, Fate, PauseInForce, Skip, Summary,
    TimelineEntry, Wait,
};
use sched_model::jobs::Job;
use sched_wire as wire;
use sched_wire::ExplainQuery;

use super::IntoWire;
use super::moment::moment;
use crate::error::ApiError;

const DEFAULT_LENGTH: TimeDelta = TimeDelta::days(1);
/// Length of the window for a single instant: fire times are whole seconds.
const INSTANT: TimeDelta = TimeDelta::seconds(1);

/// The window of an explanation. It includes its beginning and excludes its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: DateTime<Utc>,
    pub(crate) to: DateTime<Utc>,
    pub(crate) is_instant: bool,
    /// The instant of the request.
    pub(crate) now: DateTime<Utc>,
}

impl Window {
    pub(crate) fn of(query: &ExplainQuery, now: DateTime<Utc>, timezone: &str) -> Result<Self, ApiError> {
        let read = |name: &str, text: &Option<String>| match text {
            Some(text) => match moment(text, now, timezone) {
                Ok(at) => Ok(Some(at)),
                Err(message) => Err(ApiError::parameter(name, message)),
            },
            None => Ok(None),
        };
        if let Some(at) = read("at", &query.at)? {
            if query.from.is_some() || query.to.is_some() {
                let message = "names a single instant; omit from and to, or omit at";
                return Err(ApiError::parameter("at", message.to_owned()));
            }
            return Ok(Self { from: at, to: at + INSTANT, is_instant: true, now });
        }
        let to = read("to", &query.to)?.unwrap_or(now);
        let default = to.checked_sub_signed(DEFAULT_LENGTH).unwrap_or(to);
        Ok(Self { from: read("from", &query.from)?.unwrap_or(default), to, is_instant: false, now })
    }
}

/// Why there is no explanation.
pub(crate) fn refused(error: ExplainError) -> ApiError {
    let parameter = match error {
        ExplainError::TooMany => "from",
        ExplainError::NoWindow => "to",
    };
    ApiError::parameter(parameter, error.to_string())
}

pub(crate) fn show(
    job: &Job,
    window: &Window,
    explanation: Explanation,
    waits: &[Wait],
) -> wire::Explanation {
    wire::Explanation {
        job_id: job.id.0,
        job: job.settings.name.clone(),
        timezone: job.settings.timezone.clone(),
        from: window.from,
        to: window.to,
        now: window.now,
        summary: summary(&explanation.summary),
        fires: explanation.lines.into_iter().map(fires).collect(),
        triggers: explanation.triggers.into_iter().map(run).collect(),
        waits_for: waits.iter().map(wait_for).collect(),
        nearest: None,
    }
}

pub(crate) fn nearest(
    at: DateTime<Utc>,
    before: Option<wire::NearestFire>,
    after: Option<wire::NearestFire>,
) -> wire::NearestFires {
    let format_time = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    let around = match (&before, &after) {
        (Some(before), Some(after)) => {
            format!(
                "the nearest are {} before it and {} after it",
                format_time(before.fire_at),
                format_time(after.fire_at)
            )
        }
        (Some(before), None) => {
            format!("the nearest is {} before it, with no later one", format_time(before.fire_at))
        }
        (None, Some(after)) => {
            format!("the nearest is {} after it, with no earlier one", format_time(after.fire_at))
        }
        (None, None) => "the job has no fire times before or after it".to_owned(),
    };
    wire::NearestFires {
        text: format!("{} is not a fire time of the job; {around}", format_time(at)),
        before,
        after,
    }
}

pub(crate) fn outermost(explanation: Explanation, is_last: bool) -> Option<wire::NearestFire> {
    let mut lines: Vec<TimelineEntry> =
        explanation.lines.into_iter().filter(TimelineEntry::is_of_fire_times).collect();
    let key = |line: &TimelineEntry| if is_last { line.last } else { line.first };
    lines.sort_by_key(key);
    let line = if is_last { lines.pop() } else { lines.into_iter().next() }?;
    let (fire_at, shown) = (key(&line), fires(line));
    Some(wire::NearestFire { fire_at, fate: shown.fate, outcome: shown.outcome })
}

pub(crate) fn show_dispatch(
    row: dispatches::Dispatch,
    dispatched: DispatchRecord,
    now: DateTime<Utc>,
) -> wire::RunExplanation {
    wire::RunExplanation { job_id: row.row.job_id.0, job: row.job_name, now, run: run(dispatched) }
}

fn wait_for(wait: &Wait) -> wire::WaitFor {
    let before = wait.before();
    wire::WaitFor {
        what: wait.as_str().to_owned(),
        text: wait.sentence(),
        until: wait.until(),
        runs: wait.dispatches().into_iter().map(|id| id.0).collect(),
        before: before.map(|before| before.count),
        is_before_exact: before.map(|before| before.is_exact),
    }
}

fn summary(summary: &Summary) -> wire::ExplainSummary {
    wire::ExplainSummary {
        text: summary.sentence(),
        fire_times: summary.fire_times,
        dispatched: summary.dispatched,
        skipped: summary.skipped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
        to_come: summary.upcoming,
        undecided: summary.undecided,
        pruned: summary.pruned,
        unclear: summary.unclear,
        two_fates: summary.two_fates,
        unaccounted: summary.unaccounted,
        while_disabled: summary.while_disabled,
        after_last_run: summary.after_last_run,
        triggers: summary.triggers,
    }
}

fn fires(line: TimelineEntry) -> wire::ExplainedFires {
    let mut shown = wire::ExplainedFires {
        first_fire_at: line.first,
        last_fire_at: line.last,
        fire_count: line.count,
        is_count_exact: line.is_count_exact,
        fate: line.fate.as_str().to_owned(),
        outcome: None,
        text: line.sentence(),
        version: line.version,
        moved_from: line.moved_from,
        moved_to: None,
        run: None,
        skip: None,
    };
    match line.fate {
        Fate::Dispatched(dispatched) => {
            shown.outcome = Some(dispatched.status.into_wire().to_string());
            shown.run = Some(run(*dispatched));
        }
        Fate::Skipped { skip: found, pause, .. } => {
            shown.outcome = Some(found.reason.to_string());
            shown.skip = Some(skip(*found, pause));
        }
        Fate::Suppressed => {
            shown.outcome =
                Some(sched_model::domain::timetable::SkipReason::DstSuppressed.as_str().to_owned());
        }
        Fate::Excluded => {
            shown.outcome = Some(sched_model::domain::timetable::SkipReason::Calendar.as_str().to_owned());
        }
        Fate::TwoFates { dispatch: dispatched, skip: found } => {
            shown.run = Some(run(*dispatched));
            shown.skip = Some(skip(*found, None));
        }
        Fate::Moved { to } => shown.moved_to = Some(to),
        Fate::Upcoming { .. }
        | Fate::Undecided { .. }
        | Fate::NotCreated
        | Fate::Disabled { .. }
        | Fate::Ended
        | Fate::Pruned
        | Fate::Unclear { .. }
        | Fate::Unaccounted => {}
    }
    shown
}

fn skip(skip: Skip, pause: Option<PauseInForce>) -> wire::ExplainedSkip {
    wire::ExplainedSkip {
        reason: skip.reason.to_string(),
        first_fire_at: skip.first,
        last_fire_at: skip.last,
        fire_count: skip.count,
        is_count_exact: skip.is_count_exact,
        detail: skip.detail,
        recorded_at: skip.recorded_at,
        term: skip.term.map(|term| term.0),
        next_term_began_at: skip.lead.as_ref().map(|lead| lead.next_at),
        former_term_ended_at: skip.lead.as_ref().and_then(|lead| lead.former_end).map(|(at, _)| at),
        former_lease_expired_at: skip.lead.as_ref().and_then(|lead| lead.lease_expired_at),
        former_term_end: skip.lead.and_then(|lead| lead.former_end).map(|(_, why)| why.to_string()),
        in_the_way: skip.in_the_way.iter().map(in_the_way).collect(),
        pause: pause.map(|pause| wire::ExplainedPause {
            since: pause.since,
            by: pause.by,
            reason: pause.reason,
            until: pause.until,
        }),
    }
}

fn in_the_way(open: &BlockingDispatch) -> wire::BlockingRun {
    wire::BlockingRun { id: open.id.0, scheduled_for: open.scheduled_for, completed_at: open.completed_at }
}

fn run(dispatch: DispatchRecord) -> wire::ExplainedRun {
    wire::ExplainedRun {
        id: dispatch.id.0,
        status: dispatch.status.into_wire(),
        text: dispatch.sentence(),
        scheduled_for: dispatch.scheduled_for,
        created_at: dispatch.created_at,
        lateness_ms: (dispatch.created_at - dispatch.scheduled_for).num_milliseconds(),
        available_at: dispatch.available_at,
        claimed_at: dispatch.claimed_at,
        completed_at: dispatch.completed_at,
        queue: dispatch.queue,
        is_queued: dispatch.is_in_line,
        is_catch_up: dispatch.is_catch_up,
        triggered_by: dispatch.triggered_by.to_string(),
        triggered_by_user: dispatch.triggered_by_user,
        scheduler: dispatch.scheduler,
        term: dispatch.term.map(|term| term.0),
        worker: dispatch.worker,
        error_message: dispatch.error,
        cancel_requested_at: dispatch.cancel_requested_at,
        replaced_by: dispatch.successor.map(|successor| successor.id.0),
        caused_by: dispatch.cause.as_ref().map(|cause| cause.dispatch.0),
        caused_by_job: dispatch.cause.and_then(|cause| cause.job),
        trace_id: Some(dispatch.trace.trace_id()),
        waits_for: dispatch.waits.iter().map(wait_for).collect(),
        attempts: dispatch.attempts.into_iter().map(attempt).collect(),
    }
}

fn attempt(attempt: Attempt) -> wire::ExplainedAttempt {
    wire::ExplainedAttempt {
        attempt: attempt.number,
        status: attempt.outcome.into_wire(),
        started_at: attempt.started_at,
        completed_at: attempt.completed_at,
        worker: attempt.worker,
        exit_code: attempt.exit_code,
        error_message: attempt.error,
    }
}

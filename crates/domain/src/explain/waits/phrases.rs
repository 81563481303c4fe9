//! Blockers in words: a sentence without a full stop, and one word for programs.

use chrono::{DateTime, Utc};

use super::super::phrases::{instant, moment};
use super::{BoundedCount, Holder, Rate, Upstream, Wait};
use crate::ids::DispatchId;
use crate::job::OverlapPolicy;
use crate::job::dependency::{AfterCondition, AfterMode};
use crate::lease::Leadership;
use crate::run_state::DispatchStatus;

impl Wait {
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Expired { .. } => "expired",
            Self::JobDisabled { .. } => "job_disabled",
            Self::JobPaused { .. } => "job_paused",
            Self::ProjectPaused(_) => "project_paused",
            Self::TenantPaused => "tenant_paused",
            Self::QueuePaused { .. } => "queue_paused",
            Self::FunctionInactive { .. } => "function_inactive",
            Self::FunctionPaused(_) => "function_paused",
            Self::Calendar { .. } => "calendar",
            Self::Dependency { .. } => "dependency",
            Self::NoLeader(_) => "no_leader",
            Self::NoWorker { .. } => "no_worker",
            Self::Overlap { .. } | Self::JobFull { .. } => "overlap",
            Self::Quota(_) | Self::RunningQuota(_) => "quota",
            Self::Held { .. } => "held",
            Self::QueueFull { .. } => "queue_full",
            Self::QueueRate { .. } => "queue_rate",
            Self::Turn { .. } => "turn",
            Self::Retry { .. } => "retry",
            Self::NotDue { .. } => "not_due",
            Self::Fire { .. } => "fire_time",
            Self::Trigger => "trigger",
            Self::Over => "over",
        }
    }

    #[must_use]
    pub fn until(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::JobPaused { until, .. } => *until,
            Self::Calendar { next, .. } => *next,
            Self::Quota(quota) => Some(quota.next_at),
            Self::QueueRate { rate, .. } => rate.next_at,
            Self::Held { until } => Some(*until),
            Self::Retry { at, .. } | Self::NotDue { at } | Self::Fire { at, is_due: false } => Some(*at),
            Self::Expired { .. }
            | Self::JobDisabled { .. }
            | Self::ProjectPaused(_)
            | Self::TenantPaused
            | Self::QueuePaused { .. }
            | Self::FunctionInactive { .. }
            | Self::FunctionPaused(_)
            | Self::Dependency { .. }
            | Self::NoLeader(_)
            | Self::NoWorker { .. }
            | Self::Overlap { .. }
            | Self::JobFull { .. }
            | Self::RunningQuota(_)
            | Self::QueueFull { .. }
            | Self::Turn { .. }
            | Self::Fire { .. }
            | Self::Trigger
            | Self::Over => None,
        }
    }

    #[must_use]
    pub fn dispatches(&self) -> Vec<DispatchId> {
        match self {
            Self::Overlap { holders, .. } | Self::JobFull { holders, .. } => {
                holders.iter().map(|holder| holder.id).collect()
            }
            _ => Vec::new(),
        }
    }

    #[must_use]
    pub const fn before(&self) -> Option<BoundedCount> {
        match self {
            Self::Overlap { before, .. } => Some(*before),
            Self::Turn { ahead, .. } => Some(*ahead),
            _ => None,
        }
    }

    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Expired { at } => {
                format!("nothing: no worker claimed it by {}, and it will expire", instant(*at))
            }
            Self::JobDisabled { reason } => {
                with_reason("the job is disabled and has no fire times", reason.as_ref())
            }
            Self::JobPaused { reason, until: None } => with_reason(
                "the job is paused until a user resumes it; its fires are skipped",
                reason.as_ref(),
            ),
            Self::JobPaused { reason, until: Some(until) } => with_reason(
                &format!("the job is paused until {}; its fires are skipped", instant(*until)),
                reason.as_ref(),
            ),
            Self::ProjectPaused(project) => {
                with_reason(&format!("the project {} is paused", project.name), project.reason.as_ref())
            }
            Self::TenantPaused => "the tenant is paused".to_owned(),
            Self::QueuePaused { queue, reason } => {
                with_reason(&format!("the queue {queue} is paused"), reason.as_ref())
            }
            Self::FunctionInactive { function } => format!("the task function {function} is inactive"),
            Self::FunctionPaused(function) => with_reason(
                &format!("the task function {} is paused", function.name),
                function.reason.as_ref(),
            ),
            Self::Calendar { calendars, excluded, next } => format!(
                "the fire time {} is excluded by a calendar ({}){}",
                instant(*excluded),
                calendars.join(", "),
                next.map_or_else(String::new, |next| format!("; the next one is {}", instant(next)))
            ),
            Self::Dependency { mode, upstream } => dependency(*mode, upstream),
            Self::NoLeader(leadership) => no_leader(*leadership),
            Self::NoWorker { queue, since, draining } => no_worker(queue, *since, *draining),
            Self::Overlap { holders, before } => overlap(holders, *before),
            Self::JobFull { holders, open, max_instances, policy, is_manual } => format!(
                "{open} of {max_instances} runs of the job are open ({}); {}",
                list(holders),
                if *is_manual { "a new trigger is queued" } else { next_of(*policy) }
            ),
            Self::Quota(quota) => format!(
                "the tenant has dispatched {} of {} in this minute; the next one begins at {}",
                quota.used,
                quota.per_minute,
                moment(quota.next_at)
            ),
            Self::RunningQuota(quota) => {
                format!("the tenant has {} of {} running runs, its quota", quota.running, quota.most)
            }
            Self::Held { until } => format!(
                "the scheduler holds the job until {}, because of the tenant's quota or an operator",
                moment(*until)
            ),
            Self::QueueFull { queue, running, max_running } => {
                format!("the queue {queue} is full: {running} of {max_running} run")
            }
            Self::QueueRate { queue, rate } => queue_rate(queue, rate),
            Self::Turn { queue, ahead, workers, slots, busy } => {
                queue_position(queue, *ahead, (*workers, *slots, *busy))
            }
            Self::Retry { attempt, at, error } => {
                let after = error.as_deref().and_then(|error| error.lines().next());
                let after = after.map_or_else(String::new, |error| format!(" after: {}", short(error)));
                format!("attempt {attempt} is due at {}{after}", moment(*at))
            }
            Self::NotDue { at } => format!("it is due at {}", moment(*at)),
            Self::Fire { at, is_due: false } => format!("its next fire time is {}", instant(*at)),
            Self::Fire { at, is_due: true } => {
                format!(
                    "its fire of {} is due, and the leader decides about it at its next tick",
                    instant(*at)
                )
            }
            Self::Trigger => "it has no schedule and needs a trigger".to_owned(),
            Self::Over => "nothing: its last fire time has passed".to_owned(),
        }
    }
}

fn with_reason(what: &str, reason: Option<&String>) -> String {
    reason.map_or_else(|| what.to_owned(), |reason| format!("{what}: {reason}"))
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

fn end(upstream: &Upstream) -> String {
    let how = match upstream.on {
        AfterCondition::Success => "to succeed",
        AfterCondition::Failure => "to fail",
        AfterCondition::Completion => "to end",
    };
    format!("job {} {how}", upstream.job)
}

fn dependency(mode: AfterMode, upstream: &[Upstream]) -> String {
    let (met, open): (Vec<&Upstream>, Vec<&Upstream>) =
        upstream.iter().partition(|upstream| mode == AfterMode::All && upstream.met_at.is_some());
    let joint = match mode {
        AfterMode::All => " and ",
        AfterMode::Any => " or ",
    };
    let open: Vec<String> = open.into_iter().map(end).collect();
    let mut text = if open.is_empty() {
        "all jobs that it runs after have ended, so it runs next".to_owned()
    } else {
        format!("other jobs must end first: {}", open.join(joint))
    };
    for done in met {
        let at = done.met_at.map_or_else(String::new, |at| format!(" at {}", moment(at)));
        text.push_str(&format!("; job {} has{at}", done.job));
    }
    text
}

fn no_leader(leadership: Leadership) -> String {
    match leadership {
        Leadership::Expired { ago } => format!(
            "no scheduler leads: the lease of the last one expired {}s ago, and no scheduler has taken over yet",
            ago.as_secs()
        ),
        Leadership::Live | Leadership::None => "no scheduler leads".to_owned(),
    }
}

fn no_worker(queue: &str, since: Option<DateTime<Utc>>, draining: i64) -> String {
    let since = since.map_or_else(String::new, |since| format!(" since {}", moment(since)));
    let draining = match draining {
        0 => String::new(),
        1 => " (1 finishes its runs and claims nothing new)".to_owned(),
        count => format!(" ({count} finish their runs and claim nothing new)"),
    };
    format!("no living worker serves the queue {queue}{since}{draining}")
}

fn holder(holder: &Holder) -> String {
    let since = moment(holder.since);
    match (holder.status, &holder.worker) {
        (DispatchStatus::InProgress, Some(worker)) => format!("run {} on {worker} since {since}", holder.id),
        (DispatchStatus::InProgress, None) => format!("run {} since {since}", holder.id),
        _ => format!("run {}, waiting since {since}", holder.id),
    }
}

fn list(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "they have just ended".to_owned();
    }
    holders.iter().map(holder).collect::<Vec<_>>().join(", ")
}

fn overlap(holders: &[Holder], before: BoundedCount) -> String {
    let others = match before {
        BoundedCount { count: 0, .. } => String::new(),
        before => format!(", and {before} queued before it"),
    };
    format!("other runs of the job must end first: {}{others}", list(holders))
}

const fn next_of(policy: OverlapPolicy) -> &'static str {
    match policy {
        OverlapPolicy::Skip => "a new fire is skipped",
        OverlapPolicy::Queue => "a new fire is queued",
        OverlapPolicy::CancelOldest => "the next fire cancels the oldest",
        OverlapPolicy::Allow => "a new fire is dispatched anyway",
    }
}

fn queue_rate(queue: &str, rate: &Rate) -> String {
    let next = rate.next_at.map_or_else(String::new, |at| format!("; the next may be at {}", moment(at)));
    format!(
        "the rate of the queue {queue} is used up: {} of {} claimed within {}s{next}",
        rate.claimed, rate.count, rate.period_seconds
    )
}

fn queue_position(queue: &str, ahead: BoundedCount, (workers, slots, busy): (i64, i64, i64)) -> String {
    let place = match ahead {
        BoundedCount { count: 0, is_exact: true } => format!("it is the next of its tenant in queue {queue}"),
        BoundedCount { count: 1, is_exact: true } => {
            format!("1 of its tenant is before it in queue {queue}")
        }
        ahead => format!("{ahead} of its tenant are before it in queue {queue}"),
    };
    match workers {
        0 => place,
        1 => format!("{place}; 1 worker serves it, {busy} of {slots} slots busy"),
        _ => format!("{place}; {workers} workers serve it, {busy} of {slots} slots busy"),
    }
}

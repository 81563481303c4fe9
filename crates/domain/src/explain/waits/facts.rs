//! The facts about a run, a job and a queue from which the blockers follow.

use std::fmt;

use chrono::{DateTime, Utc};

use super::super::CalendarFacts;
use crate::ids::{DispatchId, TenantId};
use crate::job::JobSettings;
use crate::job::dependency::AfterCondition;
use crate::lease::Leadership;
use crate::run_state::DispatchStatus;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedCount {
    /// A lower bound unless exact.
    pub count: u64,
    pub is_exact: bool,
}

impl fmt::Display for BoundedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            count @ 1000.. => write!(f, "{},{:03}", count / 1000, count % 1000)?,
            count => write!(f, "{count}")?,
        }
        f.write_str(if self.is_exact { "" } else { "+" })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub id: DispatchId,
    pub status: DispatchStatus,
    pub since: DateTime<Utc>,
    pub worker: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// Claims allowed in any interval of the period's length.
    pub count: i64,
    pub period_seconds: i64,
    /// Claims within the last period.
    pub claimed: i64,
    /// When the oldest of those leaves the period.
    pub next_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueFacts {
    pub name: String,
    pub is_paused: bool,
    pub pause_reason: Option<String>,
    pub max_running: Option<i64>,
    pub running: Option<i64>,
    pub rate: Option<Rate>,
    /// Live workers that serve it and claim new runs.
    pub workers: i64,
    pub slots: i64,
    /// Busy slots of those workers, by their last heartbeats.
    pub busy: i64,
    pub draining: i64,
    /// How long its oldest run waits, if the leader noticed that no worker serves the queue.
    pub unserved_since: Option<DateTime<Utc>>,
    /// Limit of its tenant over all queues.
    pub quota: Option<RunningQuota>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningQuota {
    pub most: i64,
    pub running: i64,
}

impl QueueFacts {
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.max_running.is_some_and(|most| self.running.is_some_and(|running| running >= most))
    }

    #[must_use]
    pub fn is_rate_used_up(&self) -> bool {
        self.rate.as_ref().is_some_and(|rate| rate.claimed >= rate.count)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub available_at: DateTime<Utc>,
    /// Limit for the begin of its first attempt.
    pub expires_at: Option<DateTime<Utc>>,
    pub attempt: i32,
    pub error: Option<String>,
    /// Runs of its job before it, if it is queued behind them.
    pub line: Option<BoundedCount>,
    /// Due dispatches of its tenant before it.
    pub ahead: BoundedCount,
    pub is_tenant_paused: bool,
    pub paused_project: Option<PausedResource>,
    pub paused_function: Option<PausedResource>,
    /// Whether `max_instances` runs of its job are open; queued runs are not counted.
    pub is_job_full: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedResource {
    pub name: String,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub job: String,
    pub on: AfterCondition,
    /// When the condition was met, for a run that waits for further jobs.
    pub met_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub per_minute: i64,
    /// Dispatches in this minute.
    pub used: i64,
    pub next_at: DateTime<Utc>,
}

#[derive(Debug, Clone)]
pub struct JobFacts {
    /// The database's clock.
    pub now: DateTime<Utc>,
    pub tenant: TenantId,
    pub created_at: DateTime<Utc>,
    pub settings: JobSettings,
    pub calendars: Vec<CalendarFacts>,
    pub disabled_reason: Option<String>,
    /// Whether it is paused.
    pub is_paused: bool,
    pub pause_reason: Option<String>,
    pub paused_until: Option<DateTime<Utc>>,
    pub next_run_at: Option<DateTime<Utc>>,
    pub held_until: Option<DateTime<Utc>>,
    pub is_tenant_paused: bool,
    pub paused_project: Option<PausedResource>,
    pub is_function_active: bool,
    pub paused_function: Option<PausedResource>,
    pub queue: QueueFacts,
    pub upstream: Vec<Upstream>,
    pub leadership: Leadership,
    pub quota: Option<Quota>,
    /// Queued ones not counted.
    pub open: i64,
    /// Some of those, the oldest first.
    pub holders: Vec<Holder>,
}

//! The facts about a run, a job and a queue from which the blockers follow.

use std::fmt;

use chrono::{DateTime, Utc};

use super::super::KnownCalendar;
use crate::ids::{DispatchId, TenantId};
use crate::job::JobSettings;
use crate::job::dependency::AfterCondition;
use crate::lease::Leadership;
use crate::run_state::DispatchStatus;

/// A number that was counted up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded {
    /// The number; a lower bound unless exact.
    pub count: u64,
    /// Whether there are no more.
    pub is_exact: bool,
}

impl fmt::Display for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            count @ 1000.. => write!(f, "{},{:03}", count / 1000, count % 1000)?,
            count => write!(f, "{count}")?,
        }
        f.write_str(if self.is_exact { "" } else { "+" })
    }
}

/// An open run of a job that blocks others of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub id: DispatchId,
    /// Whether it runs or waits.
    pub status: DispatchStatus,
    pub since: DateTime<Utc>,
    /// Where it runs: the host of the worker, or its id where it is no longer registered.
    pub worker: Option<String>,
}

/// The rate of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// Dispatches that may be claimed in any interval of the period's length.
    pub count: i64,
    pub period_seconds: i64,
    /// Claims within the last period.
    pub claimed: i64,
    /// When the oldest of those leaves the period.
    pub next_at: Option<DateTime<Utc>>,
}

/// A queue with its limits, their use, and its workers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueFacts {
    pub name: String,
    /// Whether nothing is claimed from it.
    pub is_paused: bool,
    /// Why it is paused.
    pub pause_reason: Option<String>,
    /// Dispatches that may run at once.
    pub max_running: Option<i64>,
    /// Running dispatches; `None` without that limit.
    pub running: Option<i64>,
    /// The limit of claims per period.
    pub rate: Option<Rate>,
    /// Live workers that serve it and claim new runs.
    pub workers: i64,
    /// Slots of those workers.
    pub slots: i64,
    /// Busy slots, by their last heartbeats.
    pub busy: i64,
    /// Live workers that serve it and drain.
    pub draining: i64,
    /// How long its oldest run waits for a worker, if the leader noticed that no worker serves the
    /// queue.
    pub unserved_since: Option<DateTime<Utc>>,
    /// The limit of its tenant over all queues, if there is one.
    pub quota: Option<RunningQuota>,
}

/// How many dispatches of a tenant may run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningQuota {
    pub most: i64,
    pub running: i64,
}

impl QueueFacts {
    /// Whether the limit is reached.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.max_running.is_some_and(|most| self.running.is_some_and(|running| running >= most))
    }

    /// Whether its rate allows no claim now.
    #[must_use]
    pub fn is_rate_used_up(&self) -> bool {
        self.rate.as_ref().is_some_and(|rate| rate.claimed >= rate.count)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// When it may be claimed, or claimed again.
    pub available_at: DateTime<Utc>,
    /// By when its first attempt must have begun.
    pub expires_at: Option<DateTime<Utc>>,
    /// Attempts begun so far.
    pub attempt: i32,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// Runs of its job that go before it, if it is queued behind them.
    pub line: Option<Bounded>,
    /// Due dispatches of its tenant that are before it in its queue.
    pub ahead: Bounded,
    /// Whether its tenant is paused.
    pub is_tenant_paused: bool,
    /// Its project and the reason, if that is paused.
    pub paused_project: Option<Paused>,
    /// Its function and the reason, if that is paused.
    pub paused_function: Option<Paused>,
    /// Whether `max_instances` runs of its job are open, queued ones not counted.
    pub is_job_full: bool,
}

/// A project or a task function that is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paused {
    pub name: String,
    pub reason: Option<String>,
}

/// A job that another runs after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub job: String,
    pub on: AfterCondition,
    /// When it was met, for a run that waits for further jobs.
    pub met_at: Option<DateTime<Utc>>,
}

/// The quota of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub per_minute: i64,
    /// Dispatches in this minute.
    pub used: i64,
    /// When the next minute begins.
    pub next_at: DateTime<Utc>,
}

/// The current state of a job.
#[derive(Debug, Clone)]
pub struct JobFacts {
    /// The database's clock.
    pub now: DateTime<Utc>,
    pub tenant: TenantId,
    pub created_at: DateTime<Utc>,
    pub settings: JobSettings,
    /// The calendars that they name.
    pub calendars: Vec<KnownCalendar>,
    /// Why the scheduler disabled it, if it did.
    pub disabled_reason: Option<String>,
    /// Whether it is paused.
    pub is_paused: bool,
    pub pause_reason: Option<String>,
    /// When that ends automatically.
    pub paused_until: Option<DateTime<Utc>>,
    pub next_run_at: Option<DateTime<Utc>>,
    /// The scheduler holds it until then.
    pub held_until: Option<DateTime<Utc>>,
    /// Whether its tenant is paused.
    pub is_tenant_paused: bool,
    /// Its project, if that is paused.
    pub paused_project: Option<Paused>,
    /// Whether its function may be used.
    pub is_function_active: bool,
    /// Its function, if that is paused.
    pub paused_function: Option<Paused>,
    pub queue: QueueFacts,
    /// Its predecessors, by name.
    pub upstream: Vec<Upstream>,
    pub leadership: Leadership,
    /// The dispatch quota of its tenant.
    pub quota: Option<Quota>,
    /// Its open runs, queued ones not counted.
    pub open: i64,
    /// Some of those, the oldest first.
    pub holders: Vec<Holder>,
}

//! The blockers of a run, or of the next fire of a job, in the order in which an operator should
//! check them.
//!
//! `sched_model::explain::blockers` reads the facts. This module decides which of them block, and
//! `words` writes the sentences. The order: switches first, from wide to narrow, then events
//! elsewhere, then limits, and the position in the queue last. Every blocker is reported, not only
//! the first, so that a user who ends a pause does not find a limit behind it. Pure. The result
//! describes the state at the time of the read; reading it holds no lock and delays no other
//! process.

#[cfg(test)]
mod tests;
mod words;

use std::fmt;

use chrono::{DateTime, Utc};

use super::KnownCalendar;
use crate::dependency::{AfterCondition, AfterMode};
use crate::dispatch::DispatchStatus;
use crate::ids::{DispatchId, TenantId};
use crate::job::{JobSettings, OverlapPolicy};
use crate::lease::Leadership;
use sched_timetable::{Calendar, JobType};

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

/// One blocker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the facts")]
pub enum Wait {
    /// No worker claimed it in time; the leader will expire it.
    Expired {
        at: DateTime<Utc>,
    },
    /// The job is disabled and has no fire times.
    JobDisabled {
        reason: Option<String>,
    },
    /// The job is paused: its fires are skipped.
    JobPaused {
        reason: Option<String>,
        until: Option<DateTime<Utc>>,
    },
    /// Runs of the project are not claimed, and its fires are skipped.
    ProjectPaused(Paused),
    /// The same for the tenant.
    TenantPaused,
    /// The same for the queue.
    QueuePaused {
        queue: String,
        reason: Option<String>,
    },
    /// The function of the job is inactive.
    FunctionInactive {
        function: String,
    },
    /// Runs of the task function are not claimed, and fires of its jobs are skipped.
    FunctionPaused(Paused),
    /// The next time that the schedule names is excluded.
    Calendar {
        calendars: Vec<String>,
        excluded: DateTime<Utc>,
        next: Option<DateTime<Utc>>,
    },
    /// Other jobs must end first.
    Dependency {
        mode: AfterMode,
        upstream: Vec<Upstream>,
    },
    NoLeader(Leadership),
    /// No live worker claims new runs from the queue.
    NoWorker {
        queue: String,
        since: Option<DateTime<Utc>>,
        draining: i64,
    },
    /// It is queued behind other runs of its job.
    Overlap {
        holders: Vec<Holder>,
        before: Bounded,
    },
    /// `max_instances` runs are open; the overlap policy decides about the next fire.
    JobFull {
        holders: Vec<Holder>,
        open: i64,
        max_instances: i32,
        policy: OverlapPolicy,
        is_manual: bool,
    },
    /// The tenant has used its dispatches of this minute.
    Quota(Quota),
    /// The tenant has reached its limit of concurrent runs.
    RunningQuota(RunningQuota),
    /// The scheduler holds the job.
    Held {
        until: DateTime<Utc>,
    },
    /// The queue has reached its limit of concurrent runs.
    QueueFull {
        queue: String,
        running: i64,
        max_running: i64,
    },
    /// The queue has reached its claim rate.
    QueueRate {
        queue: String,
        rate: Rate,
    },
    /// It is claimed after the runs before it, as soon as a slot is free.
    Turn {
        queue: String,
        ahead: Bounded,
        workers: i64,
        slots: i64,
        busy: i64,
    },
    /// Its next attempt is not due.
    Retry {
        attempt: i32,
        at: DateTime<Utc>,
        error: Option<String>,
    },
    /// Its first attempt is not due.
    NotDue {
        at: DateTime<Utc>,
    },
    /// The next fire: in the future, or due and not yet decided.
    Fire {
        at: DateTime<Utc>,
        is_due: bool,
    },
    /// It fires only by a trigger.
    Trigger,
    /// Its last fire has passed.
    Over,
}

/// The blockers of a pending dispatch, in order.
#[must_use]
pub fn of_dispatch(
    now: DateTime<Utc>,
    pending: &Pending,
    queue: &QueueFacts,
    holders: &[Holder],
) -> Vec<Wait> {
    let mut waits = Vec::new();
    if let Some(at) = pending.expires_at.filter(|at| pending.attempt == 0 && *at <= now) {
        waits.push(Wait::Expired { at });
    }
    waits.extend(pending.paused_project.clone().map(Wait::ProjectPaused));
    waits.extend(pending.paused_function.clone().map(Wait::FunctionPaused));
    waits.extend(pending.is_tenant_paused.then_some(Wait::TenantPaused));
    waits.extend(paused(queue));
    waits.extend(unserved(queue));
    if let Some(before) = pending.line {
        // A run that a pause queued leaves the queue with the end of the pause, unless other runs
        // of the job block it too.
        if pending.is_job_full || (pending.paused_project.is_none() && pending.paused_function.is_none()) {
            waits.push(Wait::Overlap { holders: holders.to_vec(), before });
        }
        return waits;
    }
    waits.extend(limits(queue));
    let at = pending.available_at;
    if at <= now {
        let QueueFacts { workers, slots, busy, .. } = *queue;
        waits.push(Wait::Turn { queue: queue.name.clone(), ahead: pending.ahead, workers, slots, busy });
    } else if pending.attempt > 0 {
        waits.push(Wait::Retry { attempt: pending.attempt + 1, at, error: pending.error.clone() });
    } else {
        waits.push(Wait::NotDue { at });
    }
    waits
}

/// The blockers of the next run of a job, in order.
#[must_use]
pub fn of_job(facts: &JobFacts) -> Vec<Wait> {
    let settings = &facts.settings;
    let mut waits = Vec::new();
    if !settings.is_enabled {
        waits.push(Wait::JobDisabled { reason: facts.disabled_reason.clone() });
    }
    if facts.is_paused {
        waits.push(Wait::JobPaused { reason: facts.pause_reason.clone(), until: facts.paused_until });
    }
    waits.extend(facts.paused_project.clone().map(Wait::ProjectPaused));
    waits.extend(facts.is_tenant_paused.then_some(Wait::TenantPaused));
    waits.extend(paused(&facts.queue));
    if !facts.is_function_active {
        waits.push(Wait::FunctionInactive { function: settings.function.clone() });
    } else {
        waits.extend(facts.paused_function.clone().map(Wait::FunctionPaused));
    }
    waits.extend(excluded(facts));
    if !facts.upstream.is_empty() {
        waits.push(Wait::Dependency { mode: settings.after_mode, upstream: facts.upstream.clone() });
    }
    waits.extend((facts.leadership != Leadership::Live).then_some(Wait::NoLeader(facts.leadership)));
    waits.extend(unserved(&facts.queue));
    let is_full = facts.open >= i64::from(settings.max_instances);
    if is_full && settings.overlap_policy != OverlapPolicy::Allow {
        waits.push(Wait::JobFull {
            holders: facts.holders.clone(),
            open: facts.open,
            max_instances: settings.max_instances,
            policy: settings.overlap_policy,
            is_manual: settings.job_type == JobType::Manual,
        });
    }
    match facts.quota.filter(|quota| quota.used >= quota.per_minute) {
        Some(quota) => waits.push(Wait::Quota(quota)),
        None => waits
            .extend(facts.held_until.filter(|until| *until > facts.now).map(|until| Wait::Held { until })),
    }
    waits.extend(limits(&facts.queue));
    waits.extend(next_fire(facts));
    waits
}

fn paused(queue: &QueueFacts) -> Option<Wait> {
    let wait = Wait::QueuePaused { queue: queue.name.clone(), reason: queue.pause_reason.clone() };
    queue.is_paused.then_some(wait)
}

fn unserved(queue: &QueueFacts) -> Option<Wait> {
    let (since, draining) = (queue.unserved_since, queue.draining);
    (queue.workers == 0).then(|| Wait::NoWorker { queue: queue.name.clone(), since, draining })
}

fn limits(queue: &QueueFacts) -> impl Iterator<Item = Wait> {
    let name = || queue.name.clone();
    let (running, max_running) = (queue.running.unwrap_or(0), queue.max_running.unwrap_or(0));
    let full = queue.is_full().then(|| Wait::QueueFull { queue: name(), running, max_running });
    let rate = queue.rate.clone().filter(|_| queue.is_rate_used_up());
    let quota = queue.quota.filter(|quota| quota.running >= quota.most).map(Wait::RunningQuota);
    quota.into_iter().chain(full).chain(rate.map(|rate| Wait::QueueRate { queue: name(), rate }))
}

/// The next time of the schedule, if a calendar excludes it.
fn excluded(facts: &JobFacts) -> Option<Wait> {
    let settings = &facts.settings;
    if settings.calendars.is_empty() || !settings.is_enabled || settings.job_type == JobType::Manual {
        return None;
    }
    // A timetable that cannot be computed disables the job, and the job reports that.
    let known = facts.calendars.iter().map(|known| Calendar::parse(&known.definition));
    let calendars: Vec<Calendar> = known.collect::<Result<_, _>>().ok()?;
    let timetable = settings.timetable(facts.tenant, facts.created_at, &calendars).ok()?;
    let nominal = timetable.nominal_after(facts.now).ok()??;
    (timetable.moved(nominal) != Some(nominal)).then(|| Wait::Calendar {
        calendars: settings.calendars.clone(),
        excluded: nominal,
        next: facts.next_run_at,
    })
}

fn next_fire(facts: &JobFacts) -> Option<Wait> {
    let settings = &facts.settings;
    match facts.next_run_at {
        _ if !settings.is_enabled => None,
        Some(at) => Some(Wait::Fire { at, is_due: at <= facts.now }),
        None if settings.job_type != JobType::Manual => Some(Wait::Over),
        None => facts.upstream.is_empty().then_some(Wait::Trigger),
    }
}

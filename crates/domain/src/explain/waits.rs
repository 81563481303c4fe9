//! The blockers of a run, or of the next fire of a job, in the order in which an operator should
//! check them: switches from wide to narrow, events elsewhere, limits, and the position in the
//! queue.
//!
//! `sched_model::explain::blockers` reads the facts, this module decides which of them block, and
//! `phrases` writes the sentences. Every blocker is reported, so that no limit hides behind a pause.
//! Pure. The result describes the state at the time of the read, which holds no lock.

mod facts;
mod phrases;
#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};

use crate::job::OverlapPolicy;
use crate::job::dependency::AfterMode;
use crate::lease::Leadership;
use sched_timetable::{Calendar, JobType};

pub use facts::{
    BoundedCount, Holder, JobFacts, PausedResource, Pending, QueueFacts, Quota, Rate, RunningQuota, Upstream,
};

#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the facts")]
pub enum Wait {
    /// The leader will expire it.
    Expired {
        at: DateTime<Utc>,
    },
    JobDisabled {
        reason: Option<String>,
    },
    /// Its fires are skipped.
    JobPaused {
        reason: Option<String>,
        until: Option<DateTime<Utc>>,
    },
    /// Its runs are not claimed, and its fires are skipped.
    ProjectPaused(PausedResource),
    /// The same for the tenant.
    TenantPaused,
    /// The same for the queue.
    QueuePaused {
        queue: String,
        reason: Option<String>,
    },
    FunctionInactive {
        function: String,
    },
    /// Its runs are not claimed, and fires of its jobs are skipped.
    FunctionPaused(PausedResource),
    /// A calendar excludes the next fire time.
    Calendar {
        calendars: Vec<String>,
        excluded: DateTime<Utc>,
        next: Option<DateTime<Utc>>,
    },
    Dependency {
        mode: AfterMode,
        upstream: Vec<Upstream>,
    },
    NoLeader(Leadership),
    NoWorker {
        queue: String,
        since: Option<DateTime<Utc>>,
        draining: i64,
    },
    Overlap {
        holders: Vec<Holder>,
        before: BoundedCount,
    },
    /// `max_instances` runs are open; the overlap policy decides about the next fire.
    JobFull {
        holders: Vec<Holder>,
        open: i64,
        max_instances: i32,
        policy: OverlapPolicy,
        is_manual: bool,
    },
    Quota(Quota),
    RunningQuota(RunningQuota),
    Held {
        until: DateTime<Utc>,
    },
    QueueFull {
        queue: String,
        running: i64,
        max_running: i64,
    },
    QueueRate {
        queue: String,
        rate: Rate,
    },
    /// Claimed after the runs before it, as soon as a slot is free.
    Turn {
        queue: String,
        ahead: BoundedCount,
        workers: i64,
        slots: i64,
        busy: i64,
    },
    Retry {
        attempt: i32,
        at: DateTime<Utc>,
        error: Option<String>,
    },
    NotDue {
        at: DateTime<Utc>,
    },
    /// In the future, or due and not yet decided.
    Fire {
        at: DateTime<Utc>,
        is_due: bool,
    },
    Trigger,
    Over,
}

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

/// A pause without an end has no first fire after it.
fn after_pause(facts: &JobFacts) -> Option<DateTime<Utc>> {
    let (next, until) = (facts.next_run_at?, facts.paused_until?);
    if next >= until {
        return Some(next);
    }
    let known = facts.calendars.iter().map(|known| Calendar::parse(&known.definition));
    let calendars: Vec<Calendar> = known.collect::<Result<_, _>>().ok()?;
    let of = (facts.tenant, facts.created_at);
    facts.settings.first_fire_after_pause(of, &calendars, until)
}

fn next_fire(facts: &JobFacts) -> Option<Wait> {
    let settings = &facts.settings;
    match facts.next_run_at {
        _ if !settings.is_enabled => None,
        Some(_) if facts.is_paused => after_pause(facts).map(|at| Wait::Fire { at, is_due: false }),
        Some(at) => Some(Wait::Fire { at, is_due: at <= facts.now }),
        None if settings.job_type != JobType::Manual => Some(Wait::Over),
        None => facts.upstream.is_empty().then_some(Wait::Trigger),
    }
}

//! Plans each due job of a tick. The plan is a pure decision from the job's schedule, its misfire
//! and overlap policies, the kill switches and the tenant's quota.
//!
//! Every due fire becomes exactly one dispatch or skip, linked to the previous one, or the whole
//! job is held back and stays due. If a schedule cannot be computed, even because of a panic, the
//! job is disabled with a reason and never blocks other jobs.

pub mod ahead;

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::dispatching::cancellations::MakeRoom;
use sched_model::dispatching::insert::{NewDispatch, Origin};
use sched_model::dispatching::tick::{self, Batch, CursorMove, DueJob, Hold, NewSkip};
use sched_model::domain::ids::{DispatchId, time_ordered};
use sched_model::domain::job::seconds;
use sched_model::domain::timetable::overlap::Load;
use sched_model::domain::timetable::{
    Decision, MisfirePolicy, ScheduleError, ScheduleSource, Situation, SkipReason, SkippedRange, Timetable,
    TimetableSource, decide, hash_key, jitter, misfire,
};

use crate::calendars::Calendars;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disabled {
    /// Position of the job in the batch.
    pub position: usize,
    pub reason: String,
}

/// Maximum number of dispatches of one batch.
///
/// The number fits well within the time-outs of a transaction. A job with more fires keeps its
/// cursor at the first remaining fire, and the next batch continues there.
pub const MAX_DISPATCHES: usize = 5_000;

/// `now` is not earlier than any cursor. Jobs for which the batch has no dispatch left do not move
/// their cursors and stay due.
#[must_use]
pub fn plan_batch(jobs: &[DueJob], calendars: &Calendars, now: DateTime<Utc>) -> (Batch, Vec<Disabled>) {
    let mut batch = Batch::default();
    let mut disabled = Vec::new();
    for (position, job) in jobs.iter().enumerate() {
        // A fire left by a change of the job comes on top of the room.
        let room = MAX_DISPATCHES.saturating_sub(batch.dispatches.len());
        if room == 0 {
            break;
        }
        let quota = quota_left(job, &batch);
        if quota == Some(0) && job.is_enabled && job.is_function_active && job.paused_by.is_none() {
            batch.holds.push(hold(job, now));
            continue;
        }
        let decide = |room| {
            catch_unwind(AssertUnwindSafe(|| decide_about(job, calendars, now, room))).unwrap_or_else(
                |panic| Err(format!("computing its fire times failed: {}", panic_text(&*panic))),
            )
        };
        let decided = match (decide(room), quota) {
            // The quota applies last: it limits the choice of the policies among all due fires.
            (Ok(decided), Some(left)) if decided.dispatches() > left => decide(room.min(left.max(1))),
            (decided, _) => decided,
        };
        match decided {
            Ok(decided) => decided.add_to(&mut batch, job, now),
            Err(reason) => {
                disable(&mut batch, job, now, &reason);
                disabled.push(Disabled { position, reason });
            }
        }
    }
    (batch, disabled)
}

/// Runs that the tenant's quota still allows; `None` without a quota.
fn quota_left(job: &DueJob, batch: &Batch) -> Option<usize> {
    let used = batch.used.get(&job.tenant_id).copied().unwrap_or(0);
    job.quota_left.map(|left| usize::try_from(left - used).unwrap_or(0))
}

/// Holds a job until the next quota window of its tenant. Then the longest-waiting jobs go first,
/// so the same jobs are not passed over repeatedly.
fn hold(job: &DueJob, now: DateTime<Utc>) -> Hold {
    let minutes_late = (now - job.cursor).num_minutes().max(0);
    let until = tick::next_quota_window(now) + TimeDelta::milliseconds(500 / (1 + minutes_late));
    Hold { tenant_id: job.tenant_id, job_id: job.id, until }
}

#[must_use]
pub fn disable_all(jobs: &[DueJob], now: DateTime<Utc>, reason: &str) -> Batch {
    let mut batch = Batch::default();
    for job in jobs {
        disable(&mut batch, job, now, reason);
    }
    batch
}

/// Disables a job. Only the fire at its cursor is known to be due; the number of later ones cannot
/// be computed.
fn disable(batch: &mut Batch, job: &DueJob, now: DateTime<Utc>, reason: &str) {
    batch.skips.push(NewSkip {
        tenant_id: job.tenant_id,
        job_id: job.id,
        first_fire_at: job.cursor,
        last_fire_at: now.max(job.cursor),
        fire_count: 1,
        is_count_exact: false,
        reason: SkipReason::Disabled,
        follows: job.last_fire_at,
    });
    let settled_until = Some(now.max(job.cursor));
    let last_fire_at = Some(job.cursor);
    batch.cursors.push(CursorMove {
        disable: Some(reason.to_owned()),
        settled_until,
        last_fire_at,
        ..still(job)
    });
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    sched_runtime::tasks::panic_message(panic)
}

fn still(job: &DueJob) -> CursorMove {
    CursorMove {
        tenant_id: job.tenant_id,
        job_id: job.id,
        from: job.cursor,
        to: None,
        disable: None,
        tzdata_version: None,
        settled_until: None,
        last_fire_at: None,
    }
}

enum JobDecision {
    /// The job was disabled with plain SQL, and its fire times cannot be computed.
    Stop,
    /// The decision of its policies.
    Go { decision: Decision, tzdata_version: Option<&'static str> },
}

/// The error is the reason to disable the job.
fn decide_about(
    job: &DueJob,
    calendars: &Calendars,
    now: DateTime<Utc>,
    room: usize,
) -> Result<JobDecision, String> {
    if job.is_enabled && !job.is_function_active {
        return Err("its task function is inactive".into());
    }
    let timetable = match timetable(job, calendars) {
        Err(_) if !job.is_enabled => return Ok(JobDecision::Stop),
        timetable => timetable?,
    };
    let decision = decide(&Situation {
        timetable: &timetable,
        settled_until: job.settled_until,
        cursor: job.cursor,
        now: seen_at(job, now),
        misfire: MisfirePolicy::from_kind(job.misfire_policy, job.misfire_cap),
        grace: job.misfire_grace_seconds.map(seconds),
        overlap: job.overlap_policy,
        load: Load { open: natural(job.active_dispatches), max_instances: natural(job.max_instances) },
        runs_left: job.max_runs.map(|most| u64::try_from(most - job.fired_count).unwrap_or(0)),
        // A job disabled with plain SQL: its due fires get a record, and none follows.
        held_by: if job.is_enabled { job.paused_by } else { Some(SkipReason::Disabled) },
        limit: room,
    });
    let tzdata_version = timetable.schedule().tzdata_version();
    let goes_on =
        |decision: Decision| Decision { next: decision.next.filter(|_| job.is_enabled), ..decision };
    decision
        .map(|decision| JobDecision::Go { decision: goes_on(decision), tzdata_version })
        .map_err(|error| error.to_string())
}

/// New cursors, by the zone tables of this process, of jobs whose next fire is in the future.
///
/// A fire time with a record does not come back. A fire that the new tables place between then and
/// now is due at once. Uncomputable jobs stay unchanged until a due tick reports the reason.
#[must_use]
pub fn recompute(jobs: &[DueJob], calendars: &Calendars, now: DateTime<Utc>) -> Batch {
    let moved = |job: &DueJob| {
        let timetable = timetable(job, calendars).ok()?;
        let next = timetable.next_after(job.settled_until).ok()?;
        let to = next.or(timetable.last_visit(now).ok()?);
        Some(CursorMove { to, tzdata_version: timetable.schedule().tzdata_version(), ..still(job) })
    };
    let moved = |job| catch_unwind(AssertUnwindSafe(|| moved(job))).unwrap_or_default();
    Batch { cursors: jobs.iter().filter_map(moved).collect(), ..Batch::default() }
}

/// Fires up to this instant count as due. A pause holds the fires before its end; later ones stay
/// due for the next tick.
fn seen_at(job: &DueJob, now: DateTime<Utc>) -> DateTime<Utc> {
    let end = job.paused_until.filter(|_| job.paused_by == Some(SkipReason::PausedJob));
    end.map_or(now, |end| now.min(end - TimeDelta::microseconds(1)))
}

fn timetable(job: &DueJob, calendars: &Calendars) -> Result<Timetable, String> {
    let calendars = calendars.of(job)?;
    let timetable = Timetable::parse(&TimetableSource {
        schedule: ScheduleSource {
            job_type: job.job_type,
            config: &job.schedule_config,
            timezone: &job.timezone,
            dst_gap: job.dst_gap,
            dst_overlap: job.dst_overlap,
            created_at: job.created_at,
            hash_key: &hash_key(job.tenant_id.0, &job.name),
        },
        start_at: job.start_at,
        end_at: job.end_at,
        calendars: &calendars,
        roll: job.calendar_roll,
    });
    timetable.map_err(|error: ScheduleError| error.to_string())
}

fn natural(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

impl JobDecision {
    fn dispatches(&self) -> usize {
        match self {
            Self::Stop => 0,
            Self::Go { decision, .. } => decision.fires.len(),
        }
    }

    fn add_to(self, batch: &mut Batch, job: &DueJob, now: DateTime<Utc>) {
        let Self::Go { decision, tzdata_version } = self else {
            batch.cursors.push(still(job));
            return;
        };
        let chain = Chain::of(job, &decision);
        let direct = decision.fires.len() - queued(job, &decision);
        batch.dispatches.extend(decision.fires.iter().enumerate().map(|(position, fire)| NewDispatch {
            is_queued: position >= direct,
            follows: chain.before(*fire),
            ..dispatch(job, *fire, now)
        }));
        batch.skips.extend(decision.skipped.iter().map(|range| NewSkip {
            tenant_id: job.tenant_id,
            job_id: job.id,
            first_fire_at: range.first,
            last_fire_at: range.last,
            fire_count: i64::try_from(range.count.value()).unwrap_or(i64::MAX),
            is_count_exact: range.count.is_exact(),
            reason: reason(job, range),
            follows: chain.before(range.first),
        }));
        if decision.cancelled > 0 {
            let count = i32::try_from(decision.cancelled).unwrap_or(i32::MAX);
            batch.rooms.push(MakeRoom { tenant_id: job.tenant_id, job_id: job.id, count });
        }
        if job.quota_left.is_some() {
            let used = i64::try_from(decision.fires.len()).unwrap_or(i64::MAX);
            *batch.used.entry(job.tenant_id).or_default() += used;
        }
        batch.cursors.push(CursorMove {
            to: decision.next,
            tzdata_version,
            settled_until: Some(decision.settled_until),
            last_fire_at: chain.keys.last().copied(),
            ..still(job)
        });
    }
}

/// Number of fires, from the end, that are queued. A run cancelled to make room may continue for a
/// while; until it ends, they are queued.
fn queued(job: &DueJob, decision: &Decision) -> usize {
    if decision.cancelled == 0 {
        return decision.waiting;
    }
    let room = job.instances().room().map_or(decision.fires.len(), natural);
    decision.fires.len().saturating_sub(room)
}

/// Fires that a quota delayed until they were too late were not missed.
fn reason(job: &DueJob, range: &SkippedRange) -> SkipReason {
    let was_held =
        job.quota_left.is_some() && job.dispatch_lock_until.is_some_and(|until| range.first < until);
    match range.reason {
        SkipReason::Misfire if was_held => SkipReason::Quota,
        reason => reason,
    }
}

/// The records of one decision. Each names its predecessor, the first the latest record of the job,
/// so a lost record leaves a dangling reference.
struct Chain {
    last: Option<DateTime<Utc>>,
    /// Fire times of the records, ascending; the first time of a range.
    keys: Vec<DateTime<Utc>>,
}

impl Chain {
    fn of(job: &DueJob, decision: &Decision) -> Self {
        let mut keys = decision.fires.clone();
        keys.extend(decision.skipped.iter().map(|range| range.first));
        keys.sort_unstable();
        Self { last: job.last_fire_at, keys }
    }

    fn before(&self, key: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let position = self.keys.partition_point(|other| *other < key);
        position.checked_sub(1).map_or(self.last, |before| self.keys.get(before).copied())
    }
}

fn dispatch(job: &DueJob, fire: DateTime<Utc>, now: DateTime<Utc>) -> NewDispatch<'static> {
    let grace = job.misfire_grace_seconds.map_or(misfire::DEFAULT_GRACE, seconds);
    let lateness = (now - fire).to_std().unwrap_or_default();
    let available_at = fire + jitter(job.id.0, fire, seconds(job.jitter_seconds));
    NewDispatch {
        id: DispatchId(time_ordered(now)),
        tenant_id: job.tenant_id,
        job_id: job.id,
        scheduled_for: fire,
        available_at,
        queue: job.queue.clone(),
        priority: job.priority,
        job_version: job.version,
        args: job.args.clone().map(Cow::Owned),
        is_catch_up: lateness > grace,
        is_queued: false,
        origin: Origin::FIRE,
        follows: None,
        // A late catch-up has the whole span: no worker could start it before its row existed.
        expires_at: job.start_within_seconds.map(|span| available_at.max(now) + seconds(span)),
    }
}

#[cfg(test)]
mod tests;

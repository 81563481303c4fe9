//! What a tick does with each due job: a pure decision.
//!
//! Puts together the job's schedule, its misfire and overlap policies, the kill switches and the tenant's quota, and says which
//! dispatches to create, which skips to record, and where the cursor goes. Every due fire ends as exactly one of these, linked to
//! the one before it, or its job is held back whole and stays due. A job whose schedule cannot be computed, even by a panic, is
//! disabled with its reason and never stops the others.

use std::panic::{AssertUnwindSafe, catch_unwind};

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::db::cancellations::MakeRoom;
use sched_model::db::tick::{self, Batch, CursorMove, DueJob, Hold, NewDispatch, NewSkip};
use sched_model::domain::ids::{DispatchId, time_ordered};
use sched_model::domain::job::seconds;
use sched_model::domain::schedule::overlap::Load;
use sched_model::domain::schedule::{
    Decision, ScheduleError, ScheduleSource, Situation, SkipReason, SkippedRange, Timetable, TimetableSource,
    decide, hash_key, jitter, misfire,
};

use crate::calendars::Calendars;

/// A job that must be disabled, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disabled {
    /// Position of the job in the batch.
    pub position: usize,
    /// Why.
    pub reason: String,
}

/// Most dispatches of one batch: what a transaction can insert well within its time-outs. A job that has more fires to catch
/// up keeps its cursor at the first one left, and the next batch goes on there.
pub const MAX_DISPATCHES: usize = 5_000;

/// Decides about the jobs of a batch at `now`, which is not earlier than any cursor.
///
/// `calendars` holds those they name. Jobs for which no dispatch is left in the batch are not touched: they have no cursor to
/// move and stay due.
#[must_use]
pub fn plan_batch(jobs: &[DueJob], calendars: &Calendars, now: DateTime<Utc>) -> (Batch, Vec<Disabled>) {
    let mut batch = Batch::default();
    let mut disabled = Vec::new();
    for (position, job) in jobs.iter().enumerate() {
        // A fire that a change has left comes on top of the room it is given.
        let room = MAX_DISPATCHES.saturating_sub(batch.dispatches.len());
        if room == 0 {
            break;
        }
        let quota = quota_left(job, &batch);
        if quota == Some(0) && job.is_enabled && job.is_function_active && job.paused_by.is_none() {
            batch.holds.push(hold(job, now));
            continue;
        }
        let room = quota.map_or(room, |left| room.min(left.max(1)));
        let decided = catch_unwind(AssertUnwindSafe(|| decide_about(job, calendars, now, room)))
            .unwrap_or_else(|panic| Err(format!("computing its fire times failed: {}", panic_text(&*panic))));
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

/// How many more dispatches the quota of the job's tenant allows; `None` without a quota.
fn quota_left(job: &DueJob, batch: &Batch) -> Option<usize> {
    let used = batch.used.get(&job.tenant_id).copied().unwrap_or(0);
    job.quota_left.map(|left| usize::try_from(left - used).unwrap_or(0))
}

/// Holds a job back until the next window of its tenant's quota begins. Those that have waited for longer go first then, so that
/// the same jobs are not passed over again and again.
fn hold(job: &DueJob, now: DateTime<Utc>) -> Hold {
    let minutes_late = (now - job.cursor).num_minutes().max(0);
    let until = tick::next_quota_window(now) + TimeDelta::milliseconds(500 / (1 + minutes_late));
    Hold { tenant_id: job.tenant_id, job_id: job.id, until }
}

/// Disables all of the jobs, for `reason`.
#[must_use]
pub fn disable_all(jobs: &[DueJob], now: DateTime<Utc>, reason: &str) -> (Batch, Vec<Disabled>) {
    let mut batch = Batch::default();
    for job in jobs {
        disable(&mut batch, job, now, reason);
    }
    let disabled = (0..jobs.len()).map(|position| Disabled { position, reason: reason.to_owned() }).collect();
    (batch, disabled)
}

/// Disables a job. The one fire that is known to be due is its cursor; how many follow until now, nobody can compute.
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

/// A cursor that goes nowhere any more.
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

/// What happens to a job.
enum Decided {
    /// Nothing, and it fires no more: somebody disabled it past the API, and its fire times cannot be computed.
    Stop,
    /// What its policies say.
    Go { decision: Decision, tzdata_version: Option<&'static str> },
}

/// The decision, or the reason for which the job must be disabled.
fn decide_about(
    job: &DueJob,
    calendars: &Calendars,
    now: DateTime<Utc>,
    room: usize,
) -> Result<Decided, String> {
    if job.is_enabled && !job.is_function_active {
        return Err("its task function is inactive".into());
    }
    let timetable = match timetable(job, calendars) {
        Err(_) if !job.is_enabled => return Ok(Decided::Stop),
        timetable => timetable?,
    };
    let decision = decide(&Situation {
        timetable: &timetable,
        settled_until: job.settled_until,
        cursor: job.cursor,
        now: seen_at(job, now),
        misfire: job.misfire_policy.with_cap(job.misfire_cap),
        grace: job.misfire_grace_seconds.map(seconds),
        overlap: job.overlap_policy,
        load: Load { open: natural(job.active_dispatches), max_instances: natural(job.max_instances) },
        runs_left: job.max_runs.map(|most| u64::try_from(most - job.fired_count).unwrap_or(0)),
        // Somebody disabled it past the API: what is due has its record, and nothing follows.
        held_by: if job.is_enabled { job.paused_by } else { Some(SkipReason::Disabled) },
        limit: room,
    });
    let tzdata_version = timetable.schedule().tzdata_version();
    let goes_on =
        |decision: Decision| Decision { next: decision.next.filter(|_| job.is_enabled), ..decision };
    decision
        .map(|decision| Decided::Go { decision: goes_on(decision), tzdata_version })
        .map_err(|error| error.to_string())
}

/// Where the cursors of jobs whose next fire lies ahead go by the zone tables of this process.
///
/// What has had its fate does not come back; a fire that the new tables put between then and now is due at once. Jobs that cannot be computed stay as they are: when
/// they come due, the tick says why.
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

/// The present of a decision. A pause holds what is due before its end, and nothing after: that stays due, for the next tick.
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
            hash_key: &hash_key(job.tenant_id, &job.name),
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

impl Decided {
    fn add_to(self, batch: &mut Batch, job: &DueJob, now: DateTime<Utc>) {
        let Self::Go { decision, tzdata_version } = self else {
            batch.cursors.push(still(job));
            return;
        };
        let chain = Chain::of(job, &decision);
        let direct = decision.fires.len() - in_line(job, &decision);
        batch.dispatches.extend(decision.fires.iter().enumerate().map(|(position, fire)| NewDispatch {
            is_in_line: position >= direct,
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

/// How many of the fires, the last ones, wait in line. What makes room for others by being cancelled may run on for a while: until it
/// has ended, they wait.
fn in_line(job: &DueJob, decision: &Decision) -> usize {
    if decision.cancelled == 0 {
        return decision.waiting;
    }
    let free = natural(job.max_instances).max(1).saturating_sub(natural(job.active_dispatches));
    decision.fires.len().saturating_sub(free)
}

/// Fires that a quota has held back until they were too late were not missed: the quota is why.
fn reason(job: &DueJob, range: &SkippedRange) -> SkipReason {
    let was_held =
        job.quota_left.is_some() && job.dispatch_lock_until.is_some_and(|until| range.first < until);
    match range.reason {
        SkipReason::Misfire if was_held => SkipReason::Quota,
        reason => reason,
    }
}

/// The order of the records that one decision makes. Each names the one before it, the first the last that was made for the job: a
/// record that goes missing leaves its successor pointing at nothing.
struct Chain {
    last: Option<DateTime<Utc>>,
    /// Fire times of the records, of a range its first, ascending.
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

fn dispatch(job: &DueJob, fire: DateTime<Utc>, now: DateTime<Utc>) -> NewDispatch {
    let grace = job.misfire_grace_seconds.map_or(misfire::DEFAULT_GRACE, seconds);
    let lateness = (now - fire).to_std().unwrap_or_default();
    let available_at = fire + jitter(job.id, fire, seconds(job.jitter_seconds));
    NewDispatch {
        id: DispatchId(time_ordered(now)),
        tenant_id: job.tenant_id,
        job_id: job.id,
        scheduled_for: fire,
        available_at,
        queue: job.queue.clone(),
        priority: job.priority,
        args: job.args.clone(),
        is_catch_up: lateness > grace,
        is_in_line: false,
        follows: None,
        // One that is caught up late has the whole span too: nobody could have started it before it was there.
        expires_at: job.start_within_seconds.map(|span| available_at.max(now) + seconds(span)),
    }
}

#[cfg(test)]
mod tests {
    use sched_model::domain::ids::{JobId, TenantId};
    use sched_model::domain::job::{MisfireKind, OverlapPolicy};
    use sched_model::domain::schedule::{CalendarRoll, JobType, SkipReason};
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    /// A job that fires every minute and has been due for 2 seconds at 12:00:02.
    fn job() -> DueJob {
        DueJob {
            tenant_id: TenantId(uuid::Uuid::from_u128(1)),
            id: JobId(uuid::Uuid::from_u128(2)),
            project_id: None,
            name: "minutely".into(),
            cursor: at("2026-03-01T12:00:00Z"),
            created_at: at("2026-01-01T00:00:00Z"),
            job_type: JobType::Cron,
            schedule_config: json!({"expression": "* * * * *"}),
            timezone: "UTC".into(),
            dst_gap: None,
            dst_overlap: None,
            start_at: None,
            end_at: None,
            max_runs: None,
            jitter_seconds: 0,
            calendars: Vec::new(),
            calendar_roll: CalendarRoll::Skip,
            settled_until: at("2026-03-01T11:59:30Z"),
            fired_count: 0,
            misfire_policy: MisfireKind::FireOnce,
            misfire_grace_seconds: Some(30),
            misfire_cap: 100,
            max_instances: 1,
            overlap_policy: OverlapPolicy::Skip,
            active_dispatches: 0,
            last_fire_at: None,
            dispatch_lock_until: None,
            args: json!({"a": 1}),
            queue: "default".into(),
            priority: 50,
            start_within_seconds: None,
            version: 1,
            is_enabled: true,
            is_function_active: true,
            paused_by: None,
            paused_until: None,
            quota_left: None,
        }
    }

    const NOW: &str = "2026-03-01T12:00:02Z";

    fn fires(batch: &Batch) -> Vec<DateTime<Utc>> {
        batch.dispatches.iter().map(|d| d.scheduled_for).collect()
    }

    #[test]
    fn a_dispatch_expires_a_span_after_it_is_available_and_not_before_it_is_there() {
        let expiring = |now| {
            let job = DueJob { start_within_seconds: Some(60), jitter_seconds: 10, ..job() };
            let (batch, _) = plan_batch(&[job], &Calendars::default(), now);
            let dispatch = batch.dispatches.into_iter().next().unwrap();
            (dispatch.expires_at.unwrap(), dispatch.available_at)
        };
        let (expires_at, available_at) = expiring(at("2026-03-01T12:00:00Z"));
        assert!(available_at >= at("2026-03-01T12:00:00Z"));
        assert_eq!(expires_at, available_at + TimeDelta::seconds(60));
        let late = at("2026-03-01T13:30:30Z");
        assert_eq!(
            expiring(late).0,
            late + TimeDelta::seconds(60),
            "a fire that is caught up has its span too"
        );
        let (batch, _) = plan_batch(&[job()], &Calendars::default(), late);
        assert_eq!(batch.dispatches[0].expires_at, None);
    }

    #[test]
    fn a_due_job_is_dispatched_and_advanced() {
        let (batch, disabled) = plan_batch(&[job()], &Calendars::default(), at(NOW));
        assert_eq!(fires(&batch), [at("2026-03-01T12:00:00Z")]);
        assert!(!batch.dispatches[0].is_catch_up);
        assert!(batch.skips.is_empty() && disabled.is_empty());
        assert_eq!(batch.cursors[0].from, at("2026-03-01T12:00:00Z"));
        assert_eq!(batch.cursors[0].to, Some(at("2026-03-01T12:01:00Z")));
    }

    #[test]
    fn after_an_outage_the_latest_fires_once_and_the_others_are_recorded() {
        let late = at(NOW) + TimeDelta::hours(1);
        let (batch, _) =
            plan_batch(&[DueJob { misfire_grace_seconds: Some(1), ..job() }], &Calendars::default(), late);
        assert_eq!(fires(&batch), [at("2026-03-01T13:00:00Z")]);
        assert!(batch.dispatches[0].is_catch_up);
        let skipped: i64 = batch.skips.iter().map(|s| s.fire_count).sum();
        assert_eq!((skipped, batch.skips.len()), (60, 1));
        assert_eq!(batch.skips[0].reason, SkipReason::Misfire);
        assert_eq!(batch.cursors[0].to, Some(at("2026-03-01T13:01:00Z")));
    }

    #[test]
    fn a_fire_that_overlaps_is_recorded_and_not_dispatched() {
        let (batch, _) =
            plan_batch(&[DueJob { active_dispatches: 1, ..job() }], &Calendars::default(), at(NOW));
        assert!(batch.dispatches.is_empty());
        assert_eq!((batch.skips[0].reason, batch.skips[0].fire_count), (SkipReason::Overlap, 1));
        assert_eq!(batch.cursors[0].to, Some(at("2026-03-01T12:01:00Z")));
    }

    #[test]
    fn of_fires_that_come_due_together_the_latest_is_dispatched_and_the_others_were_missed() {
        let often = DueJob { job_type: JobType::Interval, schedule_config: json!({"seconds": 5}), ..job() };
        let (batch, _) = plan_batch(&[often], &Calendars::default(), job().cursor + TimeDelta::seconds(17));
        assert_eq!(fires(&batch), [job().cursor + TimeDelta::seconds(15)]);
        assert_eq!(
            (batch.skips.len(), batch.skips[0].fire_count, batch.skips[0].reason),
            (1, 3, SkipReason::Misfire)
        );
    }

    #[test]
    fn fires_beyond_the_room_wait_in_line() {
        let line = DueJob {
            overlap_policy: OverlapPolicy::Queue,
            misfire_policy: MisfireKind::FireAll,
            max_instances: 2,
            active_dispatches: 1,
            ..job()
        };
        let (batch, _) = plan_batch(&[line], &Calendars::default(), job().cursor + TimeDelta::minutes(2));
        let in_line: Vec<bool> = batch.dispatches.iter().map(|dispatch| dispatch.is_in_line).collect();
        assert_eq!(in_line, [false, true, true]);
        assert!(batch.rooms.is_empty());
    }

    #[test]
    fn what_is_cancelled_runs_on_for_a_while_and_its_successor_waits_for_it() {
        let busy = DueJob { overlap_policy: OverlapPolicy::CancelOldest, active_dispatches: 1, ..job() };
        let (batch, _) = plan_batch(std::slice::from_ref(&busy), &Calendars::default(), at(NOW));
        assert_eq!(batch.rooms, [MakeRoom { tenant_id: busy.tenant_id, job_id: busy.id, count: 1 }]);
        assert!(batch.dispatches[0].is_in_line);
        let idle = DueJob { active_dispatches: 0, ..busy };
        let (batch, _) = plan_batch(&[idle], &Calendars::default(), at(NOW));
        assert!(batch.rooms.is_empty() && !batch.dispatches[0].is_in_line);
    }

    #[test]
    fn records_name_the_one_before_them() {
        let before = job().cursor - TimeDelta::minutes(1);
        let late = at(NOW) + TimeDelta::hours(1);
        let chained = DueJob { last_fire_at: Some(before), ..job() };
        let (batch, _) = plan_batch(&[chained], &Calendars::default(), late);
        assert_eq!(batch.skips[0].follows, Some(before));
        assert_eq!(batch.dispatches[0].follows, Some(batch.skips[0].first_fire_at));
        assert_eq!(batch.cursors[0].last_fire_at, Some(batch.dispatches[0].scheduled_for));
    }

    #[test]
    fn a_tenant_that_has_used_up_its_quota_is_held_back_and_the_others_go_on() {
        let limited =
            |id: u128| DueJob { id: JobId(uuid::Uuid::from_u128(id)), quota_left: Some(2), ..job() };
        let other = DueJob { tenant_id: TenantId(uuid::Uuid::from_u128(9)), ..job() };
        let jobs = [limited(1), limited(2), limited(3), other.clone()];
        let (batch, disabled) = plan_batch(&jobs, &Calendars::default(), at(NOW));
        let dispatched: Vec<_> = batch.dispatches.iter().map(|d| (d.tenant_id, d.job_id)).collect();
        assert_eq!(dispatched, [&jobs[0], &jobs[1], &jobs[3]].map(|job| (job.tenant_id, job.id)));
        assert_eq!((batch.used.get(&jobs[0].tenant_id), batch.used.get(&other.tenant_id)), (Some(&2), None));
        assert_eq!((batch.holds.len(), batch.cursors.len(), disabled.len()), (1, 3, 0));
        let hold = &batch.holds[0];
        assert_eq!(hold.job_id, jobs[2].id);
        let next_window = at("2026-03-01T12:00:59Z");
        assert!(hold.until >= next_window && hold.until < next_window + TimeDelta::seconds(1));
    }

    #[test]
    fn what_a_quota_held_back_for_too_long_is_recorded_as_such() {
        let held = DueJob {
            quota_left: Some(1),
            misfire_policy: MisfireKind::Skip,
            dispatch_lock_until: Some(at("2026-03-01T12:00:59.5Z")),
            ..job()
        };
        let (batch, _) =
            plan_batch(std::slice::from_ref(&held), &Calendars::default(), at("2026-03-01T12:01:00Z"));
        assert_eq!(batch.skips.iter().map(|s| s.reason).collect::<Vec<_>>(), [SkipReason::Quota]);
        assert_eq!(fires(&batch), [at("2026-03-01T12:01:00Z")]);
        let (batch, _) = plan_batch(
            &[DueJob { quota_left: None, ..held }],
            &Calendars::default(),
            at("2026-03-01T12:01:00Z"),
        );
        assert_eq!(batch.skips[0].reason, SkipReason::Misfire, "held by somebody else");
    }

    #[test]
    fn overlapping_is_allowed_where_the_job_says_so() {
        let busy = DueJob { active_dispatches: 5, overlap_policy: OverlapPolicy::Allow, ..job() };
        assert_eq!(fires(&plan_batch(&[busy], &Calendars::default(), at(NOW)).0).len(), 1);
    }

    #[test]
    fn a_batch_is_bounded_and_the_next_goes_on_where_it_stopped() {
        let cursor = job().cursor;
        let now = cursor + TimeDelta::seconds(9_000);
        let greedy = DueJob {
            job_type: JobType::Interval,
            schedule_config: json!({"seconds": 1}),
            misfire_policy: MisfireKind::FireAll,
            misfire_cap: 10_000,
            overlap_policy: OverlapPolicy::Allow,
            ..job()
        };
        let (batch, _) = plan_batch(&[greedy.clone(), greedy.clone()], &Calendars::default(), now);
        assert_eq!(
            (batch.dispatches.len(), batch.cursors.len()),
            (MAX_DISPATCHES, 1),
            "the second job stays due"
        );
        let left = batch.cursors[0].to.unwrap();
        assert_eq!(left, batch.dispatches[MAX_DISPATCHES - 1].scheduled_for + TimeDelta::seconds(1));
        let (rest, _) = plan_batch(&[DueJob { cursor: left, ..greedy }], &Calendars::default(), now);
        assert_eq!(rest.dispatches[0].scheduled_for, left);
        assert_eq!(batch.dispatches.len() + rest.dispatches.len(), 9_001, "every fire once");
        assert!(rest.skips.is_empty() && rest.cursors[0].to.unwrap() > now);
    }

    #[test]
    fn a_pause_that_has_ended_holds_what_was_due_before_its_end_and_nothing_after() {
        let (end, now) = (job().cursor + TimeDelta::minutes(10), job().cursor + TimeDelta::minutes(30));
        let paused_until = Some(end);
        let paused = DueJob { paused_by: Some(SkipReason::PausedJob), paused_until, ..job() };
        let (batch, _) = plan_batch(std::slice::from_ref(&paused), &Calendars::default(), now);
        let skip = &batch.skips[0];
        assert_eq!((batch.skips.len(), batch.dispatches.len()), (1, 0));
        assert_eq!((skip.reason, skip.fire_count), (SkipReason::PausedJob, 10));
        assert_eq!(skip.last_fire_at, end - TimeDelta::minutes(1));
        assert_eq!(batch.cursors[0].to, Some(end), "the fire at the end of the pause is due");
        let ended = DueJob { paused_by: None, cursor: end, ..paused };
        let (batch, _) = plan_batch(&[ended], &Calendars::default(), now);
        assert_eq!(batch.skips.iter().map(|skip| skip.fire_count).sum::<i64>(), 20);
        assert!(batch.skips.iter().all(|skip| skip.reason == SkipReason::Misfire));
        assert_eq!(fires(&batch), [now]);
    }

    #[test]
    fn a_kill_switch_holds_every_fire_even_one_due_right_now() {
        for now in [job().cursor, at(NOW), at(NOW) + TimeDelta::hours(2)] {
            let paused = DueJob { paused_by: Some(SkipReason::PausedQueue), ..job() };
            let (batch, _) = plan_batch(&[paused], &Calendars::default(), now);
            assert!(batch.dispatches.is_empty());
            assert!(batch.skips.iter().all(|s| s.reason == SkipReason::PausedQueue));
            let minutes = (now - job().cursor).num_minutes() + 1;
            assert_eq!(batch.skips.iter().map(|s| s.fire_count).sum::<i64>(), minutes);
            assert!(batch.cursors[0].to.is_some_and(|next| next > now));
        }
    }

    #[test]
    fn a_job_that_cannot_be_computed_is_disabled_and_the_others_go_on() {
        let broken = DueJob { schedule_config: json!({"expression": "not cron"}), ..job() };
        let inactive = DueJob { is_function_active: false, ..job() };
        let (batch, disabled) = plan_batch(&[broken, inactive, job()], &Calendars::default(), at(NOW));
        assert_eq!(disabled.iter().map(|d| d.position).collect::<Vec<_>>(), [0, 1]);
        assert!(disabled[0].reason.contains("schedule_config"), "{}", disabled[0].reason);
        assert_eq!(fires(&batch).len(), 1);
        assert_eq!(batch.cursors.len(), 3);
        assert!(batch.cursors[0].disable.is_some() && batch.cursors[0].to.is_none());
    }

    #[test]
    fn a_fire_left_by_a_change_does_not_burst_the_batch() {
        let greedy = DueJob {
            job_type: JobType::Interval,
            schedule_config: json!({"seconds": 1}),
            misfire_policy: MisfireKind::FireAll,
            misfire_cap: 10_000,
            overlap_policy: OverlapPolicy::Allow,
            settled_until: job().cursor + TimeDelta::seconds(1),
            ..job()
        };
        let now = job().cursor + TimeDelta::seconds(9_000);
        let (batch, disabled) = plan_batch(&[greedy, job()], &Calendars::default(), now);
        assert_eq!((batch.dispatches.len(), batch.cursors.len(), disabled.len()), (MAX_DISPATCHES + 1, 1, 0));
    }

    #[test]
    fn what_was_due_when_a_job_is_disabled_is_recorded() {
        let inactive = DueJob { is_function_active: false, ..job() };
        let late = at(NOW) + TimeDelta::hours(6);
        let (batch, _) = plan_batch(&[inactive], &Calendars::default(), late);
        let skip = &batch.skips[0];
        assert_eq!(
            (skip.first_fire_at, skip.last_fire_at, skip.reason),
            (job().cursor, late, SkipReason::Disabled)
        );
        assert!(!skip.is_count_exact, "nobody can count them");
        assert_eq!(batch.cursors[0].settled_until, Some(late));
        let (all, _) = disable_all(&[job()], late, "refused");
        assert_eq!((all.skips.len(), all.cursors[0].to), (1, None));
    }

    #[test]
    fn a_job_disabled_past_the_api_just_stops() {
        let (batch, disabled) =
            plan_batch(&[DueJob { is_enabled: false, ..job() }], &Calendars::default(), at(NOW));
        assert!(batch.dispatches.is_empty() && disabled.is_empty());
        assert_eq!((batch.skips[0].reason, batch.skips[0].fire_count), (SkipReason::Disabled, 1));
        assert_eq!(batch.cursors[0].to, None);
        let broken =
            DueJob { is_enabled: false, schedule_config: json!({"expression": "not cron"}), ..job() };
        let (batch, disabled) = plan_batch(&[broken], &Calendars::default(), at(NOW));
        assert!(batch.skips.is_empty() && disabled.is_empty() && batch.cursors[0].to.is_none());
    }
}

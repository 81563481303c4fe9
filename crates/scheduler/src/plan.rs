//! What a tick does with each due job: a pure decision.
//!
//! Puts together the job's schedule, its misfire and overlap policies and the kill switches, and says which dispatches to
//! create, which skips to record, and where the cursor goes. Every due fire ends as exactly one of these. A job whose
//! schedule cannot be computed, even by a panic, is disabled with its reason and never stops the others.

use std::panic::{AssertUnwindSafe, catch_unwind};

use chrono::{DateTime, Utc};
use sched_model::db::tick::{Batch, CursorMove, DueJob, NewDispatch, NewSkip};
use sched_model::domain::ids::{DispatchId, time_ordered};
use sched_model::domain::job::{OverlapPolicy, seconds};
use sched_model::domain::schedule::{
    MisfirePolicy, Plan, Schedule, ScheduleError, ScheduleSource, SkipReason, misfire, plan,
};

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

/// Decides about the jobs of a batch at `now`, which is not earlier than any cursor. Jobs for which no dispatch is left in the
/// batch are not touched: they have no cursor to move and stay due.
#[must_use]
pub fn plan_batch(jobs: &[DueJob], now: DateTime<Utc>) -> (Batch, Vec<Disabled>) {
    let mut batch = Batch::default();
    let mut disabled = Vec::new();
    for (position, job) in jobs.iter().enumerate() {
        let room = MAX_DISPATCHES - batch.dispatches.len();
        if room == 0 {
            break;
        }
        let decided = catch_unwind(AssertUnwindSafe(|| decide(job, now)))
            .unwrap_or_else(|panic| Err(format!("computing its fire times failed: {}", panic_text(&*panic))));
        match decided {
            Ok(decision) => decision.within(room).add_to(&mut batch, job, now),
            Err(reason) => {
                batch.cursors.push(CursorMove { disable: Some(reason.clone()), ..still(job) });
                disabled.push(Disabled { position, reason });
            }
        }
    }
    (batch, disabled)
}

/// Disables all of the jobs, for `reason`.
#[must_use]
pub fn disable_all(jobs: &[DueJob], reason: &str) -> (Batch, Vec<Disabled>) {
    let cursors =
        jobs.iter().map(|job| CursorMove { disable: Some(reason.to_owned()), ..still(job) }).collect();
    let disabled = (0..jobs.len()).map(|position| Disabled { position, reason: reason.to_owned() }).collect();
    (Batch { cursors, ..Batch::default() }, disabled)
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
    }
}

struct Decision {
    plan: Plan,
    /// How many of the plan's fires, counted from the latest, are dispatched; there is no room for the others.
    dispatched: usize,
    tzdata_version: Option<&'static str>,
}

/// The decision, or the reason for which the job must be disabled.
fn decide(job: &DueJob, now: DateTime<Utc>) -> Result<Decision, String> {
    if !job.is_enabled {
        // Somebody disabled the job past the API: it fires no more, and nobody expects it to.
        let plan = Plan { fires: Vec::new(), skipped: Vec::new(), next: None };
        return Ok(Decision { plan, dispatched: 0, tzdata_version: None });
    }
    if !job.is_function_active {
        return Err("its task function is inactive".into());
    }
    let schedule = schedule(job).map_err(|error| error.to_string())?;
    let mut plan = match job.paused_by {
        Some(_) => plan(&schedule, job.cursor, now, MisfirePolicy::Skip, Some(std::time::Duration::ZERO)),
        None => {
            let policy = job.misfire_policy.with_cap(job.misfire_cap);
            plan(&schedule, job.cursor, now, policy, job.misfire_grace_seconds.map(seconds))
        }
    }
    .map_err(|error| error.to_string())?;
    let dispatched = match job.paused_by {
        Some(reason) => {
            // A fire due at this very instant is no misfire yet, but the kill switch holds it all the same.
            plan.skipped.iter_mut().for_each(|range| range.reason = reason);
            0
        }
        None => room(job).min(plan.fires.len()),
    };
    Ok(Decision { plan, dispatched, tzdata_version: schedule.tzdata_version() })
}

fn schedule(job: &DueJob) -> Result<Schedule, ScheduleError> {
    Schedule::parse(&ScheduleSource {
        job_type: job.job_type,
        config: &job.schedule_config,
        timezone: &job.timezone,
        dst_gap: job.dst_gap,
        dst_overlap: job.dst_overlap,
        created_at: job.created_at,
    })
}

/// How many fires of the job may be dispatched now.
fn room(job: &DueJob) -> usize {
    match job.overlap_policy {
        OverlapPolicy::Skip => usize::try_from(job.max_instances - job.active_dispatches).unwrap_or(0),
        // The others keep waiting fires in line, which is what a dispatch is.
        OverlapPolicy::Allow | OverlapPolicy::Queue | OverlapPolicy::CancelOldest => usize::MAX,
    }
}

/// Why fires that were due together did not all find room: they overlap with what is open, or, when nothing is, only with
/// each other, because they were not seen in time.
const fn why_no_room(job: &DueJob) -> SkipReason {
    if job.active_dispatches > 0 { SkipReason::Overlap } else { SkipReason::Misfire }
}

impl Decision {
    /// The same with at most `room` dispatches; the fires beyond are left for the next batch.
    fn within(mut self, room: usize) -> Self {
        if self.dispatched > room {
            self.plan.next = self.plan.fires.get(room).copied();
            self.plan.fires.truncate(room);
            self.dispatched = room;
        }
        self
    }

    fn add_to(self, batch: &mut Batch, job: &DueJob, now: DateTime<Utc>) {
        let (held_back, dispatched) = self.plan.fires.split_at(self.plan.fires.len() - self.dispatched);
        batch.dispatches.extend(dispatched.iter().map(|fire| dispatch(job, *fire, now)));
        batch.skips.extend(self.plan.skipped.iter().map(|range| NewSkip {
            tenant_id: job.tenant_id,
            job_id: job.id,
            first_fire_at: range.first,
            last_fire_at: range.last,
            fire_count: i64::try_from(range.count.value()).unwrap_or(i64::MAX),
            is_count_exact: range.count.is_exact(),
            reason: range.reason,
        }));
        if let (Some(first), Some(last)) = (held_back.first(), held_back.last()) {
            batch.skips.push(NewSkip {
                tenant_id: job.tenant_id,
                job_id: job.id,
                first_fire_at: *first,
                last_fire_at: *last,
                fire_count: i64::try_from(held_back.len()).unwrap_or(i64::MAX),
                is_count_exact: true,
                reason: job.paused_by.unwrap_or(why_no_room(job)),
            });
        }
        batch.cursors.push(CursorMove {
            to: self.plan.next,
            tzdata_version: self.tzdata_version,
            ..still(job)
        });
    }
}

fn dispatch(job: &DueJob, fire: DateTime<Utc>, now: DateTime<Utc>) -> NewDispatch {
    let grace = job.misfire_grace_seconds.map_or(misfire::DEFAULT_GRACE, seconds);
    let lateness = (now - fire).to_std().unwrap_or_default();
    NewDispatch {
        id: DispatchId(time_ordered(now)),
        tenant_id: job.tenant_id,
        job_id: job.id,
        scheduled_for: fire,
        queue: job.queue.clone(),
        priority: job.priority,
        args: job.args.clone(),
        is_catch_up: lateness > grace,
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use sched_model::domain::ids::{JobId, TenantId};
    use sched_model::domain::job::MisfireKind;
    use sched_model::domain::schedule::JobType;
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
            misfire_policy: MisfireKind::FireOnce,
            misfire_grace_seconds: Some(30),
            misfire_cap: 100,
            max_instances: 1,
            overlap_policy: OverlapPolicy::Skip,
            active_dispatches: 0,
            args: json!({"a": 1}),
            queue: "default".into(),
            priority: 50,
            version: 1,
            is_enabled: true,
            is_function_active: true,
            paused_by: None,
        }
    }

    const NOW: &str = "2026-03-01T12:00:02Z";

    fn fires(batch: &Batch) -> Vec<DateTime<Utc>> {
        batch.dispatches.iter().map(|d| d.scheduled_for).collect()
    }

    #[test]
    fn a_due_job_is_dispatched_and_advanced() {
        let (batch, disabled) = plan_batch(&[job()], at(NOW));
        assert_eq!(fires(&batch), [at("2026-03-01T12:00:00Z")]);
        assert!(!batch.dispatches[0].is_catch_up);
        assert!(batch.skips.is_empty() && disabled.is_empty());
        assert_eq!(batch.cursors[0].from, at("2026-03-01T12:00:00Z"));
        assert_eq!(batch.cursors[0].to, Some(at("2026-03-01T12:01:00Z")));
    }

    #[test]
    fn after_an_outage_the_latest_fires_once_and_the_others_are_recorded() {
        let late = at(NOW) + TimeDelta::hours(1);
        let (batch, _) = plan_batch(&[DueJob { misfire_grace_seconds: Some(1), ..job() }], late);
        assert_eq!(fires(&batch), [at("2026-03-01T13:00:00Z")]);
        assert!(batch.dispatches[0].is_catch_up);
        let skipped: i64 = batch.skips.iter().map(|s| s.fire_count).sum();
        assert_eq!((skipped, batch.skips.len()), (60, 1));
        assert_eq!(batch.skips[0].reason, SkipReason::Misfire);
        assert_eq!(batch.cursors[0].to, Some(at("2026-03-01T13:01:00Z")));
    }

    #[test]
    fn a_fire_that_overlaps_is_recorded_and_not_dispatched() {
        let (batch, _) = plan_batch(&[DueJob { active_dispatches: 1, ..job() }], at(NOW));
        assert!(batch.dispatches.is_empty());
        assert_eq!((batch.skips[0].reason, batch.skips[0].fire_count), (SkipReason::Overlap, 1));
        assert_eq!(batch.cursors[0].to, Some(at("2026-03-01T12:01:00Z")));
    }

    #[test]
    fn of_fires_that_come_due_together_the_latest_is_dispatched_and_the_others_were_missed() {
        let often = DueJob { job_type: JobType::Interval, schedule_config: json!({"seconds": 5}), ..job() };
        let (batch, _) = plan_batch(&[often], job().cursor + TimeDelta::seconds(17));
        assert_eq!(fires(&batch), [job().cursor + TimeDelta::seconds(15)]);
        assert_eq!(
            (batch.skips.len(), batch.skips[0].fire_count, batch.skips[0].reason),
            (1, 3, SkipReason::Misfire)
        );
    }

    #[test]
    fn overlapping_is_allowed_where_the_job_says_so() {
        let busy = DueJob { active_dispatches: 5, overlap_policy: OverlapPolicy::Allow, ..job() };
        assert_eq!(fires(&plan_batch(&[busy], at(NOW)).0).len(), 1);
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
        let (batch, _) = plan_batch(&[greedy.clone(), greedy.clone()], now);
        assert_eq!(
            (batch.dispatches.len(), batch.cursors.len()),
            (MAX_DISPATCHES, 1),
            "the second job stays due"
        );
        let left = batch.cursors[0].to.unwrap();
        assert_eq!(left, batch.dispatches[MAX_DISPATCHES - 1].scheduled_for + TimeDelta::seconds(1));
        let (rest, _) = plan_batch(&[DueJob { cursor: left, ..greedy }], now);
        assert_eq!(rest.dispatches[0].scheduled_for, left);
        assert_eq!(batch.dispatches.len() + rest.dispatches.len(), 9_001, "every fire once");
        assert!(rest.skips.is_empty() && rest.cursors[0].to.unwrap() > now);
    }

    #[test]
    fn a_kill_switch_holds_every_fire_even_one_due_right_now() {
        for now in [job().cursor, at(NOW), at(NOW) + TimeDelta::hours(2)] {
            let paused = DueJob { paused_by: Some(SkipReason::PausedQueue), ..job() };
            let (batch, _) = plan_batch(&[paused], now);
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
        let (batch, disabled) = plan_batch(&[broken, inactive, job()], at(NOW));
        assert_eq!(disabled.iter().map(|d| d.position).collect::<Vec<_>>(), [0, 1]);
        assert!(disabled[0].reason.contains("schedule_config"), "{}", disabled[0].reason);
        assert_eq!(fires(&batch).len(), 1);
        assert_eq!(batch.cursors.len(), 3);
        assert!(batch.cursors[0].disable.is_some() && batch.cursors[0].to.is_none());
    }

    #[test]
    fn a_job_disabled_past_the_api_just_stops() {
        let (batch, disabled) = plan_batch(&[DueJob { is_enabled: false, ..job() }], at(NOW));
        assert!(batch.dispatches.is_empty() && batch.skips.is_empty() && disabled.is_empty());
        assert_eq!(batch.cursors[0].to, None);
    }
}

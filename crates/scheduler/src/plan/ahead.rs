//! Plans the next fire of a job before it is due.
//!
//! A fire is planned only if the ordinary tick would dispatch it and nothing else, at any time until
//! `valid_until` and for each state of the job that the statement of [`planned`] accepts. All other
//! fires are left to the ordinary tick.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::TimeDelta;
use sched_model::dispatching::planned::{PlannedFire, Source};
use sched_model::dispatching::tick::{Batch, DueJob};
use sched_model::domain::job::seconds;
use sched_model::domain::timetable::misfire;

#[cfg(doc)]
use sched_model::dispatching::planned;

use super::plan_batch;
use crate::calendars::Calendars;

/// The sources of planned fires, each once.
#[derive(Debug, Default)]
pub struct Sources(HashSet<Arc<Source>>);

impl Sources {
    fn shared(&mut self, source: Source) -> Arc<Source> {
        if let Some(known) = self.0.get(&source) {
            return known.clone();
        }
        let source = Arc::new(source);
        self.0.insert(source.clone());
        source
    }
}

/// `None` if the fire at the cursor of the job is left to the ordinary tick.
///
/// The job's own room is not part of the plan: the statement checks it at the instant.
#[must_use]
pub fn plan_fire(job: DueJob, sources: &mut Sources) -> Option<PlannedFire> {
    // Decided with more than the job's row, or by the number of fires or the time of the dispatch.
    let is_plain = job.calendars.is_empty()
        && job.quota_left.is_none()
        && job.max_runs.is_none()
        && job.start_within_seconds.is_none()
        && job.dispatch_lock_until.is_none()
        && job.settled_until < job.cursor;
    let edition = job.edition.clone().filter(|_| is_plain)?;
    let job = DueJob { active_dispatches: 0, queued_dispatches: 0, ..job };
    let fire = job.cursor;
    let (batch, disabled) = plan_batch(std::slice::from_ref(&job), &Calendars::default(), fire);
    let Batch { mut dispatches, skips, mut cursors, rooms, holds, used } = batch;
    let has_more =
        !(disabled.is_empty() && skips.is_empty() && rooms.is_empty() && holds.is_empty() && used.is_empty());
    let (run, cursor) = (dispatches.pop()?, cursors.pop()?);
    let next_run_at = cursor.to.filter(|next| *next > fire)?;
    if has_more
        || !dispatches.is_empty()
        || run.scheduled_for != fire
        || run.is_queued
        || run.is_catch_up
        || cursor.disable.is_some()
    {
        return None;
    }
    let grace = TimeDelta::from_std(job.misfire_grace_seconds.map_or(misfire::DEFAULT_GRACE, seconds));
    // A grace beyond the calendar never ends.
    let on_time = grace.ok().and_then(|grace| fire.checked_add_signed(grace));
    let last_alone = next_run_at - TimeDelta::microseconds(1);
    Some(PlannedFire {
        source: sources.shared(Source {
            tenant_id: job.tenant_id,
            function_id: job.function_id,
            queue: job.queue,
            project_id: job.project_id,
            edition,
        }),
        run: sched_model::dispatching::insert::NewDispatch { args: None, ..run },
        job_name: job.name,
        valid_until: on_time.map_or(last_alone, |on_time| on_time.min(last_alone)),
        next_run_at,
        tzdata_version: cursor.tzdata_version,
    })
}

#[cfg(test)]
mod tests {
    use sched_model::domain::job::MisfireKind;
    use sched_model::domain::timetable::{JobType, SkipReason};
    use serde_json::json;

    use super::*;
    use crate::plan::tests::{at, job};

    const DUE: &str = "2026-03-01T12:00:00Z";

    fn read_ahead() -> DueJob {
        DueJob { edition: Some("1 2 3".into()), ..job() }
    }

    fn planned(job: DueJob) -> Option<PlannedFire> {
        plan_fire(job, &mut Sources::default())
    }

    #[test]
    fn plain_fire_is_planned_with_next_one() {
        let fire = planned(read_ahead()).unwrap();
        assert_eq!((fire.run.scheduled_for, fire.next_run_at), (at(DUE), at("2026-03-01T12:01:00Z")));
        assert_eq!(fire.valid_until, at("2026-03-01T12:00:30Z"), "the grace");
        let patient = DueJob { misfire_grace_seconds: Some(3_600), ..read_ahead() };
        assert_eq!(planned(patient).unwrap().valid_until, at("2026-03-01T12:00:59.999999Z"), "the next fire");
        assert_eq!((fire.run.follows, fire.run.args, fire.run.is_queued), (None, None, false));
    }

    #[test]
    fn plan_ignores_counters_that_may_change() {
        assert!(planned(DueJob { active_dispatches: 1, ..read_ahead() }).is_some());
    }

    #[test]
    fn equal_sources_are_shared() {
        let mut sources = Sources::default();
        let mut source = |job| plan_fire(job, &mut sources).unwrap().source;
        let (first, second) = (source(read_ahead()), source(read_ahead()));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &source(DueJob { queue: "other".into(), ..read_ahead() })));
    }

    #[test]
    fn other_fires_are_left_to_tick() {
        for (reason, job) in [
            ("no edition", job()),
            ("calendar", DueJob { calendars: vec!["holidays".into()], ..read_ahead() }),
            ("quota", DueJob { quota_left: Some(5), ..read_ahead() }),
            ("last runs", DueJob { max_runs: Some(9), ..read_ahead() }),
            ("expiry", DueJob { start_within_seconds: Some(9), ..read_ahead() }),
            ("hold", DueJob { dispatch_lock_until: Some(at(DUE)), ..read_ahead() }),
            ("settled", DueJob { settled_until: at(DUE), ..read_ahead() }),
            ("paused", DueJob { paused_by: Some(SkipReason::PausedQueue), ..read_ahead() }),
            ("disabled", DueJob { is_enabled: false, ..read_ahead() }),
            ("inactive function", DueJob { is_function_active: false, ..read_ahead() }),
            ("no next fire", DueJob { end_at: Some(at("2026-03-01T12:00:30Z")), ..read_ahead() }),
            ("unreadable", DueJob { schedule_config: json!({"expression": "x"}), ..read_ahead() }),
        ] {
            assert!(planned(job).is_none(), "{reason}");
        }
    }

    #[test]
    fn every_misfire_policy_is_planned() {
        for policy in [MisfireKind::Skip, MisfireKind::FireOnce, MisfireKind::FireAll] {
            let hourly = json!({"hours": 1});
            let job = DueJob {
                misfire_policy: policy,
                job_type: JobType::Interval,
                schedule_config: hourly,
                ..read_ahead()
            };
            assert!(planned(job).is_some(), "{policy:?}");
        }
    }
}

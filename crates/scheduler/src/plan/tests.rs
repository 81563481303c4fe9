use sched_model::domain::ids::{JobId, TenantId};
use sched_model::domain::job::{MisfireKind, OverlapPolicy};
use sched_model::domain::timetable::{CalendarRoll, JobType, SkipReason};
use serde_json::json;

use super::*;

pub(super) fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

pub(super) fn job() -> DueJob {
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
        queued_dispatches: 0,
        last_fire_at: None,
        dispatch_lock_until: None,
        args: None,
        queue: "default".into(),
        priority: 50,
        start_within_seconds: None,
        version: 1,
        is_enabled: true,
        is_function_active: true,
        paused_by: None,
        paused_until: None,
        quota_left: None,
        function_id: uuid::Uuid::from_u128(3),
        burst_order: 0,
        edition: None,
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
    assert_eq!(expiring(late).0, late + TimeDelta::seconds(60), "a fire that is caught up has its span too");
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
    let (batch, _) = plan_batch(&[DueJob { active_dispatches: 1, ..job() }], &Calendars::default(), at(NOW));
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
    let in_line: Vec<bool> = batch.dispatches.iter().map(|dispatch| dispatch.is_queued).collect();
    assert_eq!(in_line, [false, true, true]);
    assert!(batch.rooms.is_empty());
}

#[test]
fn what_is_cancelled_runs_on_for_a_while_and_its_successor_waits_for_it() {
    let busy = DueJob { overlap_policy: OverlapPolicy::CancelOldest, active_dispatches: 1, ..job() };
    let (batch, _) = plan_batch(std::slice::from_ref(&busy), &Calendars::default(), at(NOW));
    assert_eq!(batch.rooms, [MakeRoom { tenant_id: busy.tenant_id, job_id: busy.id, count: 1 }]);
    assert!(batch.dispatches[0].is_queued);
    let idle = DueJob { active_dispatches: 0, ..busy };
    let (batch, _) = plan_batch(&[idle], &Calendars::default(), at(NOW));
    assert!(batch.rooms.is_empty() && !batch.dispatches[0].is_queued);
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
    let limited = |id: u128| DueJob { id: JobId(uuid::Uuid::from_u128(id)), quota_left: Some(2), ..job() };
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
fn of_the_fires_that_a_quota_held_back_the_latest_is_dispatched() {
    let held = DueJob {
        quota_left: Some(2),
        job_type: JobType::Interval,
        schedule_config: json!({"seconds": 5}),
        dispatch_lock_until: Some(at("2026-03-01T12:00:29.5Z")),
        ..job()
    };
    let now = job().cursor + TimeDelta::seconds(30);
    let (batch, _) = plan_batch(std::slice::from_ref(&held), &Calendars::default(), now);
    assert_eq!(fires(&batch), [now]);
    assert_eq!(
        batch.skips.iter().map(|s| (s.reason, s.fire_count)).collect::<Vec<_>>(),
        [(SkipReason::Quota, 6)]
    );
    let all = DueJob { misfire_policy: MisfireKind::FireAll, overlap_policy: OverlapPolicy::Allow, ..held };
    let (batch, _) = plan_batch(&[all], &Calendars::default(), now);
    assert_eq!((fires(&batch).len(), batch.skips.len()), (2, 0), "the others stay due");
    assert_eq!(batch.cursors[0].to, Some(job().cursor + TimeDelta::seconds(10)));
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
    let (batch, _) =
        plan_batch(&[DueJob { quota_left: None, ..held }], &Calendars::default(), at("2026-03-01T12:01:00Z"));
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
    let all = disable_all(&[job()], late, "refused");
    assert_eq!((all.skips.len(), all.cursors[0].to), (1, None));
}

#[test]
fn a_job_disabled_past_the_api_just_stops() {
    let (batch, disabled) =
        plan_batch(&[DueJob { is_enabled: false, ..job() }], &Calendars::default(), at(NOW));
    assert!(batch.dispatches.is_empty() && disabled.is_empty());
    assert_eq!((batch.skips[0].reason, batch.skips[0].fire_count), (SkipReason::Disabled, 1));
    assert_eq!(batch.cursors[0].to, None);
    let broken = DueJob { is_enabled: false, schedule_config: json!({"expression": "not cron"}), ..job() };
    let (batch, disabled) = plan_batch(&[broken], &Calendars::default(), at(NOW));
    assert!(batch.skips.is_empty() && disabled.is_empty() && batch.cursors[0].to.is_none());
}

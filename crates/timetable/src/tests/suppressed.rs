//! Times that clocks skip and the schedule does not shift.

use serde_json::json;

use super::{
    super::{
        Calendar, CalendarRoll, DstGap, JobType, MisfirePolicy, ScheduleSource, Situation, SkipReason,
        Timetable, TimetableSource, decide, overlap::Load,
    },
    utc,
};
use crate::OverlapPolicy;

/// Berlin's clocks skipped the hour from two to three on Sunday, 29 March 2026.
fn berlin(expression: &str, gap: Option<DstGap>, calendar: Option<&str>, end_at: Option<&str>) -> Timetable {
    let config = json!({ "expression": expression });
    let calendars: Vec<Calendar> = calendar
        .map(|text| serde_json::from_str(text).expect("JSON"))
        .iter()
        .map(|definition| Calendar::parse(definition).expect("a calendar"))
        .collect();
    Timetable::parse(&TimetableSource {
        schedule: ScheduleSource {
            job_type: JobType::Cron,
            config: &config,
            timezone: "Europe/Berlin",
            dst_gap: gap,
            dst_overlap: None,
            created_at: utc("2026-01-01T00:00:00Z"),
            hash_key: "",
        },
        start_at: None,
        end_at: end_at.map(utc),
        calendars: &calendars,
        roll: CalendarRoll::Skip,
    })
    .expect("a timetable")
}

const CHANGE: &str = "2026-03-29T01:00:00Z";

fn suppressed(timetable: &Timetable, after: &str, before: &str) -> Vec<chrono::DateTime<chrono::Utc>> {
    timetable.suppressed_between(utc(after), utc(before)).expect("the engine works")
}

#[test]
fn skipped_time_counts_once_after_the_gap() {
    for (expression, gap) in [
        ("30 2 * * *", Some(DstGap::Skip)),
        ("0,30 2 * * *", Some(DstGap::Skip)),
        ("*/30 2 * * *", None),
        ("7 * * * *", None),
    ] {
        let found =
            suppressed(&berlin(expression, gap, None, None), "2026-01-01T00:00:00Z", "2026-12-01T00:00:00Z");
        assert_eq!(found, [utc(CHANGE)], "{expression}");
    }
}

#[test]
fn fire_at_gap_end_suppresses_nothing() {
    for (expression, gap) in [
        ("30 2 * * *", None),
        ("*/30 2 * * *", Some(DstGap::Shift)),
        // Fires at three o'clock, the first instant after the gap.
        ("*/15 * * * *", None),
        ("30 2,3 * * *", Some(DstGap::Shift)),
        ("0 2,3 * * *", Some(DstGap::Skip)),
        // Names no time in the gap.
        ("30 3 * * *", Some(DstGap::Skip)),
        ("30 2 * * MON", Some(DstGap::Skip)),
    ] {
        let found =
            suppressed(&berlin(expression, gap, None, None), "2026-01-01T00:00:00Z", "2026-12-01T00:00:00Z");
        assert!(found.is_empty(), "{expression}: {found:?}");
    }
}

#[test]
fn only_times_inside_the_bounds_count() {
    let skips = berlin("30 2 * * *", Some(DstGap::Skip), None, None);
    let just_before = "2026-03-29T00:59:59.999999Z";
    let just_after = "2026-03-29T01:00:00.000001Z";
    assert_eq!(suppressed(&skips, just_before, just_after), [utc(CHANGE)]);
    assert!(suppressed(&skips, CHANGE, "2026-12-01T00:00:00Z").is_empty());
    assert!(suppressed(&skips, "2026-01-01T00:00:00Z", CHANGE).is_empty());
    let years = suppressed(&skips, "2026-01-01T00:00:00Z", "2029-01-01T00:00:00Z");
    assert_eq!(years.len(), 3, "each spring has one");
    let ended = berlin("30 2 * * *", Some(DstGap::Skip), None, Some(CHANGE));
    assert!(suppressed(&ended, "2026-01-01T00:00:00Z", "2026-12-01T00:00:00Z").is_empty());
}

#[test]
fn unfired_ranges_are_disjoint_one_per_reason() {
    let unfired = |calendar: &str| {
        let timetable = berlin("30 2 * * *", Some(DstGap::Skip), Some(calendar), None);
        let ranges = timetable.unfired_between(utc("2026-03-20T12:00:00Z"), utc("2026-04-10T12:00:00Z"));
        let ranges = ranges.expect("the engine works");
        ranges.into_iter().map(|range| (range.reason, range.first, range.last)).collect::<Vec<_>>()
    };
    let (first, last) = (utc("2026-04-02T00:30:00Z"), utc("2026-04-03T00:30:00Z"));
    assert_eq!(
        unfired(r#"{"dates": ["2026-04-02/2026-04-03"]}"#),
        [(SkipReason::DstSuppressed, utc(CHANGE), utc(CHANGE)), (SkipReason::Calendar, first, last)]
    );
    let (first, last) = (utc("2026-03-28T01:30:00Z"), utc("2026-03-30T00:30:00Z"));
    assert_eq!(unfired(r#"{"dates": ["2026-03-28/2026-03-30"]}"#), [(SkipReason::Calendar, first, last)]);
}

#[test]
fn suppressed_times_are_recorded_with_next_fire() {
    let skips = berlin("30 2 * * *", Some(DstGap::Skip), None, None);
    let cursor = utc("2026-03-30T00:30:00Z");
    let situation = |now: &str| Situation {
        timetable: &skips,
        settled_until: utc("2026-03-28T12:00:00Z"),
        cursor,
        now: utc(now),
        misfire: MisfirePolicy::FireOnce,
        grace: None,
        overlap: OverlapPolicy::Skip,
        load: Load { open: 0, max_instances: 1 },
        runs_left: None,
        held_by: None,
        limit: 10,
    };
    let on_time = decide(&situation("2026-03-30T00:30:01Z")).expect("the engine works");
    assert_eq!(on_time.fires, [cursor]);
    let recorded: Vec<_> = on_time.skipped.iter().map(|range| (range.reason, range.first)).collect();
    assert_eq!(recorded, [(SkipReason::DstSuppressed, utc(CHANGE))]);
    // Inside the range of an outage it belongs to that.
    let settled_until = utc("2026-03-27T12:00:00Z");
    let late =
        Situation { cursor: utc("2026-03-28T01:30:00Z"), settled_until, ..situation("2026-03-31T12:00:00Z") };
    let late = decide(&late).expect("the engine works");
    let recorded: Vec<_> = late.skipped.iter().map(|range| (range.reason, range.last)).collect();
    assert_eq!(recorded, [(SkipReason::Misfire, cursor)]);
}

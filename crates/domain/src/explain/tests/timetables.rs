//! Fates of fire times that calendars move or exclude, or that clocks skip.

use serde_json::json;

use super::*;
use sched_timetable::DstGap;

fn moving() -> Evidence {
    let settings = JobSettings {
        schedule_config: json!({"expression": "0 9 * * *"}),
        calendars: vec!["free".into()],
        calendar_roll: CalendarRoll::NextBusinessDay,
        ..hourly()
    };
    Evidence {
        created_at: at("2026-02-01T00:00:00Z"),
        versions: vec![version(1, "created", "2026-02-01T00:00:00Z", settings)],
        calendars: vec![CalendarFacts {
            name: "free".into(),
            definition: json!({"dates": ["2026-03-02"]}),
            updated_at: at("2026-02-01T00:00:00Z"),
        }],
        settled_until: at("2026-03-05T00:00:00Z"),
        cursor: Some(at("2026-03-05T09:00:00Z")),
        now: at("2026-03-05T00:00:00Z"),
        ..evidence()
    }
}

#[test]
fn moved_fire_is_shown_at_both_instants() {
    let next_day = "2026-03-03T09:00:00Z";
    let evidence = Evidence { dispatches: vec![dispatch(next_day)], ..moving() };
    let explanation = explained(&evidence, "00:00", "2026-03-04T00:00:00Z");
    assert_eq!(shown(&explanation), ["09:00-09:00 0 moved", "09:00-09:00 1 dispatched"]);
    assert_eq!(explanation.lines[0].sentence(), "moved by a calendar to 2026-03-03T09:00:00Z");
    assert_eq!(explanation.summary.fire_times, 1);
}

#[test]
fn fire_after_a_calendar_change_is_unclear() {
    let mut evidence = moving();
    evidence.calendars[0].updated_at = at("2026-03-04T00:00:00Z");
    let explanation = explained(&evidence, "00:00", "2026-03-04T00:00:00Z");
    assert_eq!(shown(&explanation), ["09:00-09:00 0 moved", "09:00-09:00 1 unclear"]);
    evidence.calendars[0].updated_at = at("2026-01-01T00:00:00Z");
    let explanation = explained(&evidence, "00:00", "2026-03-04T00:00:00Z");
    assert_eq!(shown(&explanation), ["09:00-09:00 0 moved", "09:00-09:00 1 unaccounted"]);
}

#[test]
fn an_excluded_fire_is_recorded_or_will_be() {
    let settings = JobSettings { calendars: vec!["free".into()], ..hourly() };
    let evidence = Evidence {
        versions: vec![version(1, "created", "00:00", settings)],
        calendars: vec![CalendarFacts {
            name: "free".into(),
            definition: json!({"windows": [{"from": "2026-03-02T10:00:00", "until": "2026-03-02T12:30:00"}]}),
            updated_at: at("00:00"),
        }],
        skips: vec![skip("10:00", "11:00", 2, SkipReason::Calendar)],
        settled_until: at("11:30"),
        now: at("12:10"),
        ..evidence()
    };
    let explanation = explained(&evidence, "10:00", "13:30");
    assert_eq!(
        shown(&explanation),
        ["10:00-11:00 2 skipped calendar", "12:00-12:00 1 skipped", "13:00-13:00 1 to_come"]
    );
    let said = "calendar: a calendar excludes it; to be recorded when the next fire comes";
    assert_eq!(explanation.lines[1].sentence(), said);
    assert_eq!(explanation.summary.skipped.get("calendar"), Some(&3));
    let early = Evidence { now: at("11:50"), ..evidence.clone() };
    let explanation = explained(&early, "10:00", "13:30");
    assert_eq!(shown(&explanation)[1], "12:00-12:00 1 to_come");
    assert_eq!(explanation.lines[1].sentence(), "to be skipped: a calendar excludes it");
}

#[test]
fn suppressed_time_is_shown_without_a_record() {
    let settings = JobSettings {
        schedule_config: json!({"expression": "30 2 * * *"}),
        timezone: "Europe/Berlin".into(),
        dst_gap: Some(DstGap::Skip),
        ..hourly()
    };
    let evidence = Evidence {
        created_at: at("2026-03-28T12:00:00Z"),
        versions: vec![version(1, "created", "2026-03-28T12:00:00Z", settings)],
        settled_until: at("2026-03-30T12:00:00Z"),
        cursor: Some(at("2026-03-31T00:30:00Z")),
        now: at("2026-03-30T12:00:00Z"),
        dispatches: vec![dispatch("2026-03-30T00:30:00Z")],
        ..evidence()
    };
    let explanation = explained(&evidence, "2026-03-29T00:00:00Z", "2026-03-31T00:00:00Z");
    assert_eq!(shown(&explanation), ["01:00-01:00 1 skipped", "00:30-00:30 1 dispatched"]);
    assert_eq!(explanation.summary.skipped.get("dst_suppressed"), Some(&1));
    assert!(explanation.summary.is_sound());
}

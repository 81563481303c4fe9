//! Fire times in a preview.

use chrono::{NaiveDateTime, TimeDelta};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{
        DstGap, DstOverlap, FireNote, JobType, MAX_FIRE_TIMES, Preview, Schedule, ScheduleSource, preview,
    },
    cron, cron_with, parse,
    properties::expression,
    utc, zone,
};

fn shown(schedule: &Schedule, zone_name: &str, after: &str, count: usize) -> Vec<String> {
    let fires =
        preview(&schedule.clone().into(), &zone(zone_name), utc(after), count).expect("the engine works");
    let text = |local: String, note: Option<FireNote>| match note {
        Some(note) => format!("{local} {note}"),
        None => local,
    };
    fires.iter().map(|fire| text(fire.local.to_rfc3339(), fire.note)).collect()
}

#[test]
fn fire_times_are_shown_in_utc_and_on_the_clock() {
    let weekdays = cron("0 0 * * 1-5", "Europe/Berlin");
    let fires =
        preview(&weekdays.into(), &zone("Europe/Berlin"), utc("2026-03-26T12:00:00Z"), 4).expect("fires");
    let shown: Vec<(String, String)> =
        fires.iter().map(|fire| (fire.utc.to_rfc3339(), fire.local.to_rfc3339())).collect();
    let expected = [
        ("2026-03-26T23:00:00+00:00", "2026-03-27T00:00:00+01:00"),
        ("2026-03-29T22:00:00+00:00", "2026-03-30T00:00:00+02:00"),
        ("2026-03-30T22:00:00+00:00", "2026-03-31T00:00:00+02:00"),
        ("2026-03-31T22:00:00+00:00", "2026-04-01T00:00:00+02:00"),
    ];
    assert_eq!(shown, expected.map(|(utc, local)| (utc.to_owned(), local.to_owned())));
    assert!(fires.iter().all(|fire| fire.note.is_none()), "{fires:?}");
}

#[test]
fn a_fire_moved_out_of_a_gap_is_marked() {
    let berlin = cron("30 2 * * *", "Europe/Berlin");
    assert_eq!(
        shown(&berlin, "Europe/Berlin", "2026-03-27T12:00:00Z", 3),
        ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00 shifted", "2026-03-30T02:30:00+02:00"]
    );
    let three = cron("0 3 * * *", "Europe/Berlin");
    assert_eq!(shown(&three, "Europe/Berlin", "2026-03-28T12:00:00Z", 1), ["2026-03-29T03:00:00+02:00"]);
    let skipped = cron_with("30 2,3 * * *", "Europe/Berlin", Some(DstGap::Skip), None);
    assert_eq!(shown(&skipped, "Europe/Berlin", "2026-03-28T12:00:00Z", 1), ["2026-03-29T03:30:00+02:00"]);
    let quarters = cron("*/30 * * * *", "Europe/Berlin");
    assert_eq!(shown(&quarters, "Europe/Berlin", "2026-03-29T00:59:00Z", 1), ["2026-03-29T03:00:00+02:00"]);
    let apia = cron("0 12 30 * *", "Pacific/Apia");
    assert_eq!(
        shown(&apia, "Pacific/Apia", "2011-12-01T00:00:00Z", 1),
        ["2011-12-31T00:00:00+14:00 shifted"]
    );
    let midnight = cron("0 0 * * *", "America/Santiago");
    assert_eq!(
        shown(&midnight, "America/Santiago", "2025-09-06T12:00:00Z", 1),
        ["2025-09-07T01:00:00-03:00 shifted"]
    );
}

#[test]
fn both_passes_of_a_repeated_hour_are_marked() {
    let half_hours = cron("*/30 * * * *", "Europe/Berlin");
    assert_eq!(
        shown(&half_hours, "Europe/Berlin", "2026-10-24T23:30:00Z", 6),
        [
            "2026-10-25T02:00:00+02:00 first_of_two",
            "2026-10-25T02:30:00+02:00 first_of_two",
            "2026-10-25T02:00:00+01:00 second_of_two",
            "2026-10-25T02:30:00+01:00 second_of_two",
            "2026-10-25T03:00:00+01:00",
            "2026-10-25T03:30:00+01:00",
        ]
    );
    for (overlap, expected) in [
        (None, "2026-10-25T02:30:00+02:00 first_of_two"),
        (Some(DstOverlap::Second), "2026-10-25T02:30:00+01:00 second_of_two"),
    ] {
        let daily = cron_with("30 2 * * *", "Europe/Berlin", None, overlap);
        assert_eq!(shown(&daily, "Europe/Berlin", "2026-10-24T12:00:00Z", 1), [expected]);
    }
    let lord_howe = cron("15,45 1 * * *", "Australia/Lord_Howe");
    assert_eq!(
        shown(&lord_howe, "Australia/Lord_Howe", "2025-04-05T12:00:00Z", 2),
        ["2025-04-06T01:15:00+11:00", "2025-04-06T01:45:00+11:00 first_of_two"]
    );
}

#[test]
fn schedule_without_zone_uses_the_given_zone() {
    let interval =
        parse(JobType::Interval, &json!({"minutes": 30, "anchor": "2026-10-25T00:15:00Z"}), "Europe/Berlin")
            .expect("an interval");
    assert_eq!(
        shown(&interval, "Europe/Berlin", "2026-10-25T00:20:00Z", 3),
        [
            "2026-10-25T02:45:00+02:00 first_of_two",
            "2026-10-25T02:15:00+01:00 second_of_two",
            "2026-10-25T02:45:00+01:00 second_of_two"
        ]
    );
    let daily =
        parse(JobType::Interval, &json!({"days": 1, "anchor": "2026-03-20T01:30:00Z"}), "Europe/Berlin")
            .expect("an interval");
    assert_eq!(
        shown(&daily, "UTC", "2026-03-28T12:00:00Z", 2),
        ["2026-03-29T03:00:00+02:00 shifted", "2026-03-30T02:30:00+02:00"]
    );
    let once = Schedule::OneOff(utc("2026-07-01T10:00:00.25Z"));
    assert_eq!(shown(&once, "Asia/Kolkata", "2026-01-01T00:00:00Z", 5), ["2026-07-01T15:30:00.250+05:30"]);
    assert_eq!(shown(&once, "Asia/Kolkata", "2026-07-01T10:00:00.25Z", 5), [""; 0]);
    assert_eq!(shown(&Schedule::Manual, "UTC", "2026-01-01T00:00:00Z", 5), [""; 0]);
}

#[test]
fn the_number_of_fire_times_is_bounded() {
    let every_minute = cron("* * * * *", "Europe/Berlin");
    let after = utc("2026-01-01T00:00:00Z");
    let fires = preview(&every_minute.clone().into(), &zone("UTC"), after, usize::MAX).expect("fires");
    assert_eq!(fires.len(), MAX_FIRE_TIMES);
    assert_eq!(preview(&every_minute.into(), &zone("UTC"), after, 0).expect("no fires"), []);
}

#[test]
fn preview_parses_the_stored_schedule() {
    let of = |config: &Value, timezone| {
        let source = ScheduleSource {
            job_type: JobType::Cron,
            config,
            timezone,
            dst_gap: None,
            dst_overlap: None,
            created_at: utc("2026-01-05T08:30:00Z"),
            hash_key: "",
        };
        Preview::of(&source.into(), utc("2026-03-26T12:00:00Z"), 2)
    };
    let preview = of(&json!({"expression": "30 2 * * 1-5"}), "Europe/Berlin").expect("a preview");
    assert_eq!(preview.fire_times.len(), 2);
    assert_eq!(preview.description, "At 02:30, Monday to Friday.");
    assert!(preview.warnings.iter().any(|warning| warning.contains("`MON-FRI`")), "{preview:?}");
    assert_eq!(
        of(&json!({"expression": "* * * * *"}), "Mars/Base").expect_err("no zone").field(),
        "timezone"
    );
}

const ZONES: [&str; 6] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "America/Santiago",
    "Africa/Casablanca",
];

fn passes(zone_name: &str, shown: NaiveDateTime) -> Vec<chrono::DateTime<chrono::Utc>> {
    let zone = zone(zone_name);
    let around = (-26 * 4..=26 * 4).map(|quarters| shown.and_utc() + TimeDelta::minutes(quarters * 15));
    around.filter(|at| at.naive_utc() + zone.offset_at(*at) == shown).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn notes_agree_with_a_search_for_every_pass_of_the_local_time(
        text in expression(),
        zone_name in prop::sample::select(ZONES.to_vec()),
        hours in 0..24 * 365_i64,
    ) {
        let Ok(_) = super::super::CronSpec::parse(&text) else { return Ok(()) };
        let schedule = cron(&text, zone_name);
        let after = utc("2025-06-01T00:00:00Z") + TimeDelta::hours(hours);
        let Schedule::Cron(cron) = &schedule else { return Ok(()) };
        for fire in preview(&schedule.clone().into(), &zone(zone_name), after, 40).expect("fires") {
            let shown = fire.local.naive_local();
            prop_assert_eq!(fire.local.to_utc(), fire.utc);
            let passes = passes(zone_name, shown);
            prop_assert!(passes.contains(&fire.utc));
            let expected = match passes.as_slice() {
                [_] => None,
                [first, _] if *first == fire.utc => Some(FireNote::FirstOfTwo),
                [_, _] => Some(FireNote::SecondOfTwo),
                _ => return Err(TestCaseError::fail(format!("{shown} has {passes:?}"))),
            };
            let named = cron.spec().next_naive(shown - TimeDelta::minutes(1)).expect("the engine works");
            if named == Some(shown) && fire.note != Some(FireNote::Shifted) {
                prop_assert_eq!(fire.note, expected);
            } else {
                // The expression does not name it, or a time of the gap was moved onto it.
                prop_assert_eq!(fire.note, Some(FireNote::Shifted));
                let before = fire.utc - TimeDelta::seconds(1);
                prop_assert!(zone(zone_name).offset_at(before) < zone(zone_name).offset_at(fire.utc));
            }
        }
    }
}

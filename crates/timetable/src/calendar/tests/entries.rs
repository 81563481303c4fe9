//! Each kind of entry alone, and together with `except`.

use chrono::{Datelike as _, NaiveDateTime, TimeDelta};
use serde_json::json;

use super::{super::super::Zone, assert_beginnings, assert_exclusions, at, beginnings, calendar};

#[test]
fn a_date_is_its_whole_local_day() {
    assert_exclusions(
        &json!({"dates": ["2026-12-24"]}),
        &[
            ("2026-12-23T23:59:59.999999", None),
            ("2026-12-24T00:00", Some("2026-12-25")),
            ("2026-12-24T23:59:59.999999", Some("2026-12-25")),
            ("2026-12-25T00:00", None),
        ],
    );
}

#[test]
fn a_range_of_dates_includes_both_ends() {
    let definition =
        json!({"dates": ["2026-12-27/2026-12-30", "2026-12-30/2027-01-01", "2027-01-02", "2027-02-01"]});
    assert_exclusions(
        &definition,
        &[
            ("2026-12-26T12:00", None),
            ("2026-12-27T12:00", Some("2027-01-03")),
            ("2027-01-02T23:59", Some("2027-01-03")),
            ("2027-01-03T00:00", None),
        ],
    );
    assert_beginnings(&definition, "2026-01-01", &["2026-12-27", "2027-02-01"]);
}

#[test]
fn a_day_of_the_year_comes_every_year() {
    let definition = json!({"yearly": ["12-25", "12-26", "05-01"]});
    assert_exclusions(
        &definition,
        &[
            ("1999-12-25T08:00", Some("1999-12-27")),
            ("2026-12-24T23:59", None),
            ("2026-12-26T23:59", Some("2026-12-27")),
            ("9999-05-01T00:00", Some("9999-05-02")),
        ],
    );
    assert_beginnings(&definition, "2026-05-01T12:00", &["2026-05-01T12:00", "2026-12-25", "2027-05-01"]);
}

#[test]
fn a_range_of_the_year_goes_round_new_year() {
    let definition = json!({"yearly": ["12-24/01-02"]});
    assert_exclusions(
        &definition,
        &[
            ("2026-12-23T23:59", None),
            ("2026-12-24T00:00", Some("2027-01-03")),
            ("2027-01-02T12:00", Some("2027-01-03")),
            ("2027-01-03T00:00", None),
        ],
    );
    assert_beginnings(&definition, "2026-06-01", &["2026-12-24", "2027-12-24", "2028-12-24"]);
}

#[test]
fn the_leap_day_is_excluded_in_leap_years_only() {
    let definition = json!({"yearly": ["02-29"]});
    assert_exclusions(
        &definition,
        &[
            ("2027-02-28T23:59", None),
            ("2027-03-01T00:00", None),
            ("2028-02-28T23:59", None),
            ("2028-02-29T00:00", Some("2028-03-01")),
            ("2028-03-01T00:00", None),
        ],
    );
    assert_beginnings(&definition, "2092-03-01", &["2096-02-29", "2104-02-29", "2108-02-29"]);
}

#[test]
fn a_range_over_the_end_of_february_is_whole_in_every_year() {
    for (range, first) in [("02-27/03-02", "02-27"), ("02-29/03-02", "03-01")] {
        let definition = json!({ "yearly": [range] });
        assert_exclusions(
            &definition,
            &[
                ("2027-03-02T10:00", Some("2027-03-03")),
                ("2028-02-29T10:00", Some("2028-03-03")),
                ("2027-03-03T00:00", None),
            ],
        );
        assert_beginnings(&definition, "2027-01-01", &[&format!("2027-{first}")]);
    }
    let until_leap_day = json!({"yearly": ["02-27/02-29"]});
    assert_exclusions(
        &until_leap_day,
        &[("2027-02-28T10:00", Some("2027-03-01")), ("2028-02-28T10:00", Some("2028-03-01"))],
    );
}

#[test]
fn a_day_of_the_week_is_excluded_whole() {
    let definition = json!({"weekly": ["SAT", "sun"]});
    assert_exclusions(
        &definition,
        &[
            ("2026-11-20T23:59:59", None),
            ("2026-11-21T00:00", Some("2026-11-23")),
            ("2026-11-22T23:59:59", Some("2026-11-23")),
            ("2026-11-23T00:00", None),
        ],
    );
    assert_beginnings(&definition, "2026-11-23", &["2026-11-28", "2026-12-05"]);
}

#[test]
fn a_weekly_window_is_half_open() {
    assert_exclusions(
        &json!({"weekly": [{"days": ["MON", "FRI"], "from": "02:00", "until": "04:30"}]}),
        &[
            ("2026-11-23T01:59:59", None),
            ("2026-11-23T02:00", Some("2026-11-23T04:30")),
            ("2026-11-23T04:29:59", Some("2026-11-23T04:30")),
            ("2026-11-23T04:30", None),
            ("2026-11-24T02:00", None),
            ("2026-11-27T02:00", Some("2026-11-27T04:30")),
        ],
    );
}

#[test]
fn a_weekly_window_goes_past_midnight_and_past_sunday() {
    let definition = json!({"weekly": [{"days": ["SUN", "WED"], "from": "22:00", "until": "04:30"}]});
    assert_exclusions(
        &definition,
        &[
            ("2026-11-22T21:59", None),
            ("2026-11-22T22:00", Some("2026-11-23T04:30")),
            ("2026-11-23T00:00", Some("2026-11-23T04:30")),
            ("2026-11-23T04:30", None),
            ("2026-11-25T23:00", Some("2026-11-26T04:30")),
            ("2026-11-26T00:00", Some("2026-11-26T04:30")),
        ],
    );
    assert_beginnings(
        &definition,
        "2026-11-23T04:30",
        &["2026-11-25T22:00", "2026-11-29T22:00", "2026-12-02T22:00"],
    );
}

#[test]
fn a_weekly_window_may_end_with_its_day_or_last_a_whole_day() {
    for (from, until, end) in [
        ("22:00", "24:00", "2026-11-28"),
        ("22:00", "00:00", "2026-11-28"),
        ("22:00", "22:00", "2026-11-28T22:00"),
    ] {
        assert_exclusions(
            &json!({"weekly": [{"days": ["FRI"], "from": from, "until": until}]}),
            &[("2026-11-27T21:59:59", None), ("2026-11-27T22:00", Some(end)), (end, None)],
        );
    }
}

#[test]
fn a_window_is_half_open_and_knows_seconds() {
    assert_exclusions(
        &json!({"windows": [{"from": "2026-12-23T18:00", "until": "2027-01-02T06:00:30"}]}),
        &[
            ("2026-12-23T17:59:59.999", None),
            ("2026-12-23T18:00", Some("2027-01-02T06:00:30")),
            ("2027-01-02T06:00:29.999", Some("2027-01-02T06:00:30")),
            ("2027-01-02T06:00:30", None),
        ],
    );
}

#[test]
fn except_cuts_a_range_in_two() {
    let definition =
        json!({"dates": ["2026-12-24/2027-01-06"], "except": ["2026-12-28", "2026-12-30/2026-12-31"]});
    assert_exclusions(
        &definition,
        &[
            ("2026-12-24T12:00", Some("2026-12-28")),
            ("2026-12-28T00:00", None),
            ("2026-12-28T23:59", None),
            ("2026-12-29T00:00", Some("2026-12-30")),
            ("2026-12-31T12:00", None),
            ("2027-01-01T00:00", Some("2027-01-07")),
        ],
    );
    assert_beginnings(&definition, "2026-12-01", &["2026-12-24", "2026-12-29", "2027-01-01"]);
}

#[test]
fn except_counts_against_every_kind_of_entry() {
    for entry in [
        json!({"dates": ["2026-12-25"], "except": ["2026-12-25"]}),
        json!({"yearly": ["12-25"], "except": ["2026-12-25"]}),
        json!({"weekly": ["FRI"], "except": ["2026-12-25"]}),
        json!({"windows": [{"from": "2026-12-25T00:00", "until": "2026-12-25T20:00"}], "except": ["2026-12-25"]}),
        json!({"rules": ["DTSTART:20261225\nRRULE:FREQ=YEARLY;COUNT=1"], "except": ["2026-12-25"]}),
    ] {
        assert_exclusions(&entry, &[("2026-12-25T12:00", None)]);
    }
}

#[test]
fn with_except_a_calendar_may_exclude_all_other_times() {
    for definition in [
        json!({"weekly": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"], "except": ["2027-05-04"]}),
        json!({"yearly": ["03-01/02-29"], "except": ["2027-05-04"]}),
    ] {
        let calendar = calendar(&definition);
        let end = calendar.exclusion_at(at("2027-05-03T12:00"));
        assert_eq!(end, Some(at("2027-05-04")), "{definition}");
        assert_eq!(calendar.exclusion_at(at("2027-05-04T12:00")), None);
        // The answer reaches the end of the entry, at most a year.
        let end = calendar.exclusion_at(at("2027-05-05")).expect("excluded");
        assert!(end >= at("2027-05-12"), "{definition} until {end}");
        assert_eq!(beginnings(&calendar, "2027-05-04", 1), [at("2027-05-05")]);
    }
}

#[test]
fn entries_of_several_kinds_add_up() {
    let definition = json!({
        "dates": ["2026-11-20"],
        "yearly": ["11-24"],
        "weekly": ["SAT", "SUN"],
        "windows": [{"from": "2026-11-23T00:00", "until": "2026-11-23T12:00"}],
        "rules": ["DTSTART;VALUE=DATE:20261126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"],
    });
    assert_beginnings(
        &definition,
        "2026-11-18",
        &["2026-11-20", "2026-11-24", "2026-11-26", "2026-11-28", "2026-12-05"],
    );
}

#[test]
fn a_calendar_without_entries_excludes_nothing() {
    for definition in [json!({}), json!({"dates": [], "except": ["2026-12-28"]})] {
        let calendar = calendar(&definition);
        assert_eq!(calendar.exclusion_at(at("2026-12-25T12:00")), None);
        assert_eq!(calendar.next_exclusion(at("2026-12-25T12:00")), None);
        assert_eq!(calendar.describe().len(), usize::from(definition.get("except").is_some()));
    }
}

#[test]
fn the_ends_of_the_calendar_are_no_trap() {
    let definition = json!({
        "dates": ["0001-01-01/0001-01-05", "9999-12-31"],
        "yearly": ["12-24/01-02"],
        "weekly": ["SUN", {"days": ["SUN"], "from": "22:00", "until": "21:00"}],
        "rules": ["DTSTART:21001231T220000\nRRULE:FREQ=DAILY", {"rule": "DTSTART:21001231T220000", "duration": "P366D"}],
    });
    let calendar = calendar(&definition);
    assert_eq!(calendar.exclusion_at(NaiveDateTime::MIN), None);
    assert_eq!(calendar.exclusion_at(NaiveDateTime::MAX), None);
    assert_eq!(calendar.next_exclusion(NaiveDateTime::MIN), Some(at("0001-01-01")));
    assert_eq!(calendar.next_exclusion(NaiveDateTime::MAX), None);
    assert_eq!(calendar.exclusion_at(at("0001-01-01")), Some(at("0001-01-06")));
    let last = at("9999-12-31T23:59:59.999999");
    assert!(calendar.exclusion_at(last).is_some_and(|end| end > last && end.year() == 10_000));
    assert_eq!(calendar.next_exclusion(last), Some(last));
    assert_eq!(calendar.next_exclusion(last + TimeDelta::seconds(1)), None);
}

#[test]
fn it_may_name_a_zone() {
    let named = calendar(&json!({"timezone": "europe/berlin", "weekly": ["SUN"]}));
    assert_eq!(named.zone().map(Zone::name), Some("Europe/Berlin"));
    assert_eq!(calendar(&json!({"weekly": ["SUN"]})).zone(), None);
}

#[test]
fn two_are_equal_when_their_definitions_are() {
    let sunday = calendar(&json!({"weekly": ["SUN"]}));
    assert_eq!(sunday, calendar(&json!({"weekly": ["SUN"]})));
    assert_eq!(sunday, sunday.clone());
    assert_ne!(sunday, calendar(&json!({"weekly": ["SAT"]})));
    assert_ne!(sunday, calendar(&json!({"weekly": ["SUN"], "timezone": "UTC"})));
}

#[test]
fn each_kind_of_entry_is_described() {
    let definition = json!({
        "dates": ["2026-12-24", "2026-12-27/2026-12-30"],
        "yearly": ["12-25", "12-24/01-02"],
        "weekly": ["SAT", {"days": ["MON", "FRI"], "from": "02:00", "until": "04:30"}, {"days": ["SUN"], "from": "22:00:30", "until": "04:00"}],
        "windows": [{"from": "2026-12-23T18:00:00", "until": "2027-01-02T06:00:00"}],
        "rules": ["DTSTART;VALUE=DATE:20261126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"],
        "except": ["2026-12-28", "2027-05-01/2027-05-03"],
    });
    assert_eq!(
        calendar(&definition).describe(),
        [
            "on 2026-12-24 and 2026-12-27 to 2026-12-30",
            "every year on 25 December and 24 December to 2 January",
            "every week on Saturday, Monday and Friday from 02:00 to 04:30 and Sunday from 22:00:30 to 04:00 of the next day",
            "from 2026-12-23 18:00 to 2027-01-02 06:00",
            "1 recurrence rule with 75 occurrences up to 2100",
            "but not on 2026-12-28 and 2027-05-01 to 2027-05-03",
        ]
    );
    let many: Vec<String> = (1..=20).map(|day| format!("2026-12-{day:02}")).collect();
    assert_eq!(calendar(&json!({ "dates": many })).describe(), ["on 20 dates or ranges of dates"]);
}

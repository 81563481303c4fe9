//! Rejected definitions, and the low cost of hostile input.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Calendar, from_icalendar};

fn refusal(definition: &Value) -> (String, String) {
    let error = Calendar::parse(definition).expect_err(&format!("{definition} is refused"));
    (error.field().to_owned(), error.message().to_owned())
}

fn assert_refused(cases: &[(Value, &str, &str)]) {
    for (definition, field, message) in cases {
        let (found_field, found_message) = refusal(definition);
        assert_eq!(found_field, *field, "{definition}: {found_message}");
        assert!(found_message.contains(message), "{definition}: {found_message}");
    }
}

#[test]
fn shapes_and_unknown_fields() {
    assert_refused(&[
        (json!([]), "definition", "an object"),
        (json!({"date": []}), "definition", "`date` is not a field here"),
        (json!({"dates": "2026-12-24"}), "definition.dates", "is not a list"),
        (json!({"dates": [20_261_224]}), "definition.dates.0", "is not text"),
        (json!({"timezone": 1}), "definition.timezone", "is not text"),
        (json!({"timezone": "Berlin"}), "definition.timezone", "is not a time zone"),
        (json!({"weekly": [1]}), "definition.weekly.0", "an object"),
        (json!({"weekly": [{"days": ["MON"], "from": "02:00"}]}), "definition.weekly.0.until", "is missing"),
        (
            json!({"weekly": ["SAT", {"days": ["MON"], "at": "02:00"}]}),
            "definition.weekly.1",
            "`at` is not a field",
        ),
        (json!({"windows": [{"from": "2026-12-23T18:00"}]}), "definition.windows.0.until", "is missing"),
        (json!({"rules": [{"duration": "PT2H"}]}), "definition.rules.0.rule", "is missing"),
        (
            json!({"rules": [{"rule": "DTSTART:20260101", "length": "PT2H"}]}),
            "definition.rules.0",
            "`length` is not a field",
        ),
    ]);
}

#[test]
fn invalid_dates_and_times_are_rejected() {
    assert_refused(&[
        (json!({"dates": ["2026-12-24", "2026-02-30"]}), "definition.dates.1", "a day that exists"),
        (json!({"dates": ["2026-1-5"]}), "definition.dates.0", "is not a date"),
        (json!({"dates": ["0000-01-01"]}), "definition.dates.0", "is not a date"),
        (json!({"dates": ["2026-12-30/2026-12-27"]}), "definition.dates.0", "ends before it begins"),
        (json!({"dates": ["2026-12-24/2026-12-25/2026-12-26"]}), "definition.dates.0", "is not a date"),
        (json!({"except": ["24.12.2026"]}), "definition.except.0", "is not a date"),
        (json!({"yearly": ["02-30"]}), "definition.yearly.0", "is not a day of the year"),
        (json!({"yearly": ["12-24/13-02"]}), "definition.yearly.0", "is not a day of the year"),
        (json!({"weekly": ["Saturday"]}), "definition.weekly.0", "use MON, TUE"),
        (
            json!({"weekly": [{"days": ["MON", "X"], "from": "02:00", "until": "04:30"}]}),
            "definition.weekly.0.days.1",
            "is not a day of the week",
        ),
        (
            json!({"weekly": [{"days": [], "from": "02:00", "until": "04:30"}]}),
            "definition.weekly.0.days",
            "names no day",
        ),
        (
            json!({"weekly": ["SAT", {"days": ["MON"], "from": "2:00", "until": "04:30"}]}),
            "definition.weekly.1.from",
            "is not a time of day",
        ),
        (
            json!({"weekly": [{"days": ["MON"], "from": "24:00", "until": "04:30"}]}),
            "definition.weekly.0.from",
            "`00:00` of the day after",
        ),
        (
            json!({"weekly": [{"days": ["MON"], "from": "02:00", "until": "24:01"}]}),
            "definition.weekly.0.until",
            "is not a time of day",
        ),
        (
            json!({"weekly": [{"days": ["MON"], "from": "02:60", "until": "04:00"}]}),
            "definition.weekly.0.from",
            "is not a time of day",
        ),
        (
            json!({"windows": [{"from": "2026-12-23T18:00:00Z", "until": "2027-01-02T06:00"}]}),
            "definition.windows.0.from",
            "without an offset",
        ),
        (
            json!({"windows": [{"from": "2026-12-23T18:00", "until": "2027-01-02T06:00+01:00"}]}),
            "definition.windows.0.until",
            "without an offset",
        ),
        (
            json!({"windows": [{"from": "2026-12-23T18:00", "until": "2026-12-23T18:00"}]}),
            "definition.windows.0.until",
            "is not later than `from`",
        ),
        (
            json!({"windows": [{"from": "2026-12-23T23:59:60", "until": "2027-12-23T18:00"}]}),
            "definition.windows.0.from",
            "is not a local time",
        ),
        (
            json!({"rules": [{"rule": "DTSTART:20260101T100000", "duration": "2 hours"}]}),
            "definition.rules.0.duration",
            "is not a duration",
        ),
        (
            json!({"rules": [{"rule": "DTSTART:20260101T100000", "duration": "PT0S"}]}),
            "definition.rules.0.duration",
            "is not a duration",
        ),
        (
            json!({"rules": [{"rule": "DTSTART:20260101T100000", "duration": "P99999999999999999999W"}]}),
            "definition.rules.0.duration",
            "is not a duration",
        ),
        (
            json!({"rules": [{"rule": "DTSTART:20260101", "duration": "PT2H"}]}),
            "definition.rules.0.duration",
            "whole days",
        ),
    ]);
}

#[test]
fn calendars_that_leave_no_time() {
    let week = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
    assert_refused(&[
        (json!({ "weekly": week }), "definition.weekly", "nothing would ever fire"),
        (json!({ "weekly": week, "except": [] }), "definition.weekly", "nothing would ever fire"),
        (
            json!({"weekly": [{"days": week, "from": "05:00", "until": "05:00"}]}),
            "definition.weekly",
            "nothing would ever fire",
        ),
        (json!({"yearly": ["01-01/12-31"]}), "definition.yearly", "nothing would ever fire"),
        (json!({"yearly": ["07-01/02-28", "02-29/06-30"]}), "definition.yearly", "nothing would ever fire"),
    ]);
    let nearly =
        json!({"weekly": [{"days": week, "from": "05:00", "until": "04:59:59"}], "yearly": ["01-02/12-31"]});
    Calendar::parse(&nearly).expect("a second a day on New Year's Day is left");
}

#[test]
fn limits() {
    let days: Vec<String> = (0..1001).map(|_| "2026-12-24".to_owned()).collect();
    let rules: Vec<&str> = (0..101).map(|_| "DTSTART:20260101").collect();
    let long = "DTSTART:20260101,".to_owned() + &"x".repeat(10_000);
    let often: Vec<&str> = (0..7).map(|_| "DTSTART:19200101\nRRULE:FREQ=WEEKLY").collect();
    assert_refused(&[
        (json!({ "dates": days }), "definition", "1001 entries"),
        (json!({ "rules": rules }), "definition.rules", "101 rules"),
        (json!({ "rules": [long] }), "definition.rules.0", "at most 2000"),
        (json!({ "dates": ["2".repeat(10_000)] }), "definition.dates.0", "at most 2000"),
        (json!({ "rules": often }), "definition.rules.5", "50000 times"),
    ]);
}

#[test]
fn invalid_rules_have_specific_errors() {
    let rule = |line: &str| json!({"rules": [format!("DTSTART:20260105T100000\nRRULE:{line}")]});
    let cases = [
        ("FREQ=SECONDLY", "too fine for a calendar"),
        ("FREQ=MINUTELY;INTERVAL=1440", "too fine for a calendar"),
        ("FREQ=HOURLY", "too fine for a calendar"),
        ("FREQ=SOMETIMES", "use YEARLY, MONTHLY, WEEKLY or DAILY"),
        ("BYDAY=MO", "FREQ=``; use YEARLY"),
        ("FREQ=DAILY", "use `weekly`"),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "10000 times"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "matches no day up to 2100"),
        ("FREQ=YEARLY;UNTIL=20200101", "matches no day up to 2100"),
        ("FREQ=YEARLY;UNTIL=20300101T000000Z", "set the calendar's `timezone`"),
        ("FREQ=YEARLY;UNTIL=2030", "UNTIL has `2030`"),
        ("FREQ=YEARLY;COUNT=1;UNTIL=20300101", "COUNT and UNTIL"),
        ("FREQ=YEARLY;COUNT=0", "COUNT has `0`"),
        ("FREQ=YEARLY;COUNT=99999999999999999999", "COUNT has"),
        ("FREQ=YEARLY;INTERVAL=0", "INTERVAL has `0`"),
        ("FREQ=YEARLY;INTERVAL=+1", "INTERVAL has `+1`"),
        ("FREQ=YEARLY;BYMONTH=13", "BYMONTH has `13`"),
        ("FREQ=YEARLY;BYMONTH=-1", "BYMONTH has `-1`"),
        ("FREQ=YEARLY;BYMONTH=", "BYMONTH has ``"),
        ("FREQ=YEARLY;BYMONTH=1;BYMONTH=2", "BYMONTH twice"),
        ("FREQ=YEARLY;BYMOON=1", "`BYMOON`, which is unknown"),
        ("FREQ=YEARLY;BYDAY=0MO", "BYDAY has `0`"),
        ("FREQ=YEARLY;BYDAY=MONDAY", "BYDAY has `MONDAY`"),
        ("FREQ=WEEKLY;BYDAY=1MO", "numbered in months and years only"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO", "numbered in months and years only"),
        ("FREQ=MONTHLY;BYWEEKNO=20", "BYWEEKNO has no meaning"),
        ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS selects"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=32", "BYSETPOS has `32`"),
        ("FREQ=MONTHLY;BYDAY=-5MO", "BYDAY has `-5`"),
        ("FREQ=MONTHLY;BYEASTER=0", "BYEASTER has no meaning"),
        ("FREQ=DAILY;BYHOUR=1,2,3,4,5;BYMINUTE=1,2,3,4,5", "more than 24 times a day"),
        ("FREQ", "write its parts"),
        ("", "write its parts"),
        ("FREQ=WEEKLY;WKST=X", "WKST has `X`"),
    ];
    for (line, message) in cases {
        assert_refused(&[(rule(line), "definition.rules.0", message)]);
    }
}

#[test]
fn invalid_rule_lines_have_specific_errors() {
    let cases = [
        ("", "has no line DTSTART"),
        ("RRULE:FREQ=YEARLY", "has no line DTSTART"),
        ("FREQ=YEARLY", "is not a line of a rule"),
        ("DTSTART:20260105Z", "write a date that exists"),
        ("DTSTART:20260105T100000Z", "set the calendar's `timezone`"),
        ("DTSTART;TZID=Europe/Berlin:20260105T100000", "set the calendar's `timezone`"),
        ("DTSTART;VALUE=DATE:20260105T100000", "write a date that exists"),
        ("DTSTART;VALUE=PERIOD:20260105T100000/PT1H", "allowed are VALUE=DATE"),
        ("DTSTART:20260230", "write a date that exists"),
        ("DTSTART:20260105,20260106", "DTSTART has several times"),
        ("DTSTART:18991231", "DTSTART must be from 1900 to 2100"),
        ("DTSTART:21010101", "DTSTART must be from 1900 to 2100"),
        ("DTSTART:20260105\nDTSTART:20260106", "two lines DTSTART"),
        ("DTSTART:20260105\nRRULE:FREQ=YEARLY\nRRULE:FREQ=WEEKLY", "two lines RRULE"),
        ("DTSTART:20260105\nEXRULE:FREQ=YEARLY", "allowed are DTSTART, RRULE, RDATE, EXDATE"),
        ("DTSTART:20260105\nDTEND:20260106", "write the length beside the rule"),
        ("DTSTART:20260105\nRDATE:20260106T100000", "write both alike"),
        (
            "DTSTART:20260105\nRRULE:FREQ=YEARLY;BYHOUR=5",
            "BYHOUR cannot be combined with a DTSTART that is a date",
        ),
        ("DTSTART:20260105\nEXDATE:20260105", "matches no day up to 2100"),
        (
            "DTSTART:20260105\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30\nRDATE:20260106",
            "matches no day up to 2100",
        ),
    ];
    for (text, message) in cases {
        assert_refused(&[(json!({ "rules": [text] }), "definition.rules.0", message)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>(), list in prop::sample::select(&["dates", "yearly", "weekly", "windows", "rules", "except", "timezone"][..])) {
        let definition = if list == "timezone" { json!({ list: text }) } else { json!({ list: [text] }) };
        let error = Calendar::parse(&definition).expect_err("no generated text is an entry");
        prop_assert!(error.field().starts_with("definition.") && !error.message().is_empty());
    }

    #[test]
    fn no_rule_of_known_words_panics_or_goes_on_for_ever(
        frequency in prop::sample::select(&["YEARLY", "MONTHLY", "WEEKLY", "DAILY"][..]),
        parts in prop::collection::vec("BY(MONTH|MONTHDAY|YEARDAY|WEEKNO|HOUR|MINUTE|SETPOS|EASTER)=-?[1-9][0-9]?(,-?[1-9][0-9]?){0,3}|BYDAY=-?[1-5]?(MO|TH|SU)(,-?[1-5]?(TU|SA)){0,2}|(COUNT|INTERVAL)=[1-9][0-9]{0,2}|WKST=(SU|TH)|UNTIL=20[3-9]00101", 0..4),
        start in "(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])(T235959)?",
    ) {
        let text = format!("DTSTART:{start}\nRRULE:FREQ={frequency};{}", parts.join(";"));
        if let Err(error) = Calendar::parse(&json!({ "rules": [&text] })) {
            prop_assert!(!error.message().contains("cannot be expanded"), "{}: {}", text, error);
        }
    }

    #[test]
    fn no_file_makes_the_import_panic(text in "(BEGIN:VCALENDAR\r?\n)?(BEGIN:VEVENT\n|END:VEVENT\n|(DTSTART|DTEND|RRULE|RDATE|EXDATE|UID|DURATION|RECURRENCE-ID)(;VALUE=DATE|;TZID=UTC)?:(20260105|20260105T100000Z?|FREQ=YEARLY|PT1H|.{0,8})\n|.{0,20}\n){0,12}(END:VEVENT\nEND:VCALENDAR\n)?") {
        if let Err(error) = from_icalendar(&text) {
            prop_assert_eq!(error.field(), "icalendar");
            prop_assert!(!error.message().is_empty() && !error.message().contains("panicked"));
        }
    }
}

//! The crontab dialect: accepted and rejected texts.

use super::{super::CronSpec, naive, spec};

#[track_caller]
fn assert_next(text: &str, after: &str, expected: &[&str]) {
    let spec = spec(text);
    let mut at = naive(after);
    for expected in expected {
        at = spec.next_naive(at).expect("the engine works").expect("a fire");
        assert_eq!(at, naive(expected), "{text} after {after}");
    }
}

#[test]
fn weekdays_are_numbered_as_in_crontab() {
    // 2026-03-01 is a Sunday.
    for (text, expected) in [
        ("0 0 * * 0", "2026-03-08T00:00"),
        ("0 0 * * 7", "2026-03-08T00:00"),
        ("0 0 * * 1", "2026-03-02T00:00"),
        ("0 0 * * 6", "2026-03-07T00:00"),
        ("0 0 * * sun", "2026-03-08T00:00"),
        ("0 0 * * Sat", "2026-03-07T00:00"),
    ] {
        assert_next(text, "2026-03-01T12:00", &[expected]);
    }
    assert_next("0 0 * * 1-5", "2026-03-05T12:00", &["2026-03-06T00:00", "2026-03-09T00:00"]);
    assert_next(
        "0 0 * * 5-7",
        "2026-03-05T12:00",
        &["2026-03-06T00:00", "2026-03-07T00:00", "2026-03-08T00:00", "2026-03-13T00:00"],
    );
    assert_next(
        "0 0 * * */2",
        "2026-03-01T12:00",
        &["2026-03-03T00:00", "2026-03-05T00:00", "2026-03-07T00:00", "2026-03-08T00:00"],
    );
}

#[test]
fn ranges_that_wrap_mean_what_they_say() {
    assert_next(
        "0 22-2 * * *",
        "2026-03-01T12:00",
        &[
            "2026-03-01T22:00",
            "2026-03-01T23:00",
            "2026-03-02T00:00",
            "2026-03-02T01:00",
            "2026-03-02T02:00",
            "2026-03-02T22:00",
        ],
    );
    assert_next(
        "0 0 * * FRI-MON",
        "2026-03-03T12:00",
        &["2026-03-06T00:00", "2026-03-07T00:00", "2026-03-08T00:00", "2026-03-09T00:00", "2026-03-13T00:00"],
    );
    assert_next(
        "58-1 * * * *",
        "2026-03-01T12:30",
        &["2026-03-01T12:58", "2026-03-01T12:59", "2026-03-01T13:00", "2026-03-01T13:01", "2026-03-01T13:58"],
    );
    assert_next(
        "0 0 1 NOV-FEB *",
        "2026-03-03T00:00",
        &["2026-11-01T00:00", "2026-12-01T00:00", "2027-01-01T00:00", "2027-02-01T00:00", "2027-11-01T00:00"],
    );
    assert_next(
        "0 0 30-2 * *",
        "2026-03-03T00:00",
        &["2026-03-30T00:00", "2026-03-31T00:00", "2026-04-01T00:00", "2026-04-02T00:00", "2026-04-30T00:00"],
    );
}

#[test]
fn a_day_matches_if_either_restricted_day_field_does() {
    assert_next(
        "0 0 13 * FRI",
        "2026-03-01T12:00",
        &[
            "2026-03-06T00:00",
            "2026-03-13T00:00",
            "2026-03-20T00:00",
            "2026-03-27T00:00",
            "2026-04-03T00:00",
            "2026-04-10T00:00",
            "2026-04-13T00:00",
        ],
    );
    assert_next("0 0 31W 4 FRI", "2026-04-01T00:00", &["2026-04-03T00:00", "2026-04-10T00:00"]);
    assert_next("0 0 */1 * FRI", "2026-03-01T12:00", &["2026-03-06T00:00", "2026-03-13T00:00"]);
    assert_next("0 0 1-31 * FRI", "2026-03-01T12:00", &["2026-03-02T00:00"]);
    assert_next("0 0 ? * FRI", "2026-03-01T12:00", &["2026-03-06T00:00", "2026-03-13T00:00"]);
}

#[test]
fn special_days_are_found_alone_and_in_lists() {
    for (text, expected) in [
        ("0 0 L * *", ["2026-01-31T00:00", "2026-02-28T00:00"]),
        ("0 0 L-2 * *", ["2026-01-29T00:00", "2026-02-26T00:00"]),
        ("0 0 LW * *", ["2026-01-30T00:00", "2026-02-27T00:00"]),
        ("0 0 lw * *", ["2026-01-30T00:00", "2026-02-27T00:00"]),
        ("0 0 17W * *", ["2026-01-16T00:00", "2026-02-17T00:00"]),
        ("0 0 1W 2,8 *", ["2026-02-02T00:00", "2026-08-03T00:00"]),
        ("0 0 31W * *", ["2026-01-30T00:00", "2026-03-31T00:00"]),
        ("0 0 29W 2 *", ["2028-02-29T00:00", "2032-02-27T00:00"]),
        ("0 0 * * 5L", ["2026-01-30T00:00", "2026-02-27T00:00"]),
        ("0 0 * * FRIL", ["2026-01-30T00:00", "2026-02-27T00:00"]),
        ("0 0 * * MON#2", ["2026-01-12T00:00", "2026-02-09T00:00"]),
        ("0 0 * * 7#5", ["2026-03-29T00:00", "2026-05-31T00:00"]),
        ("0 0 15,L * *", ["2026-01-15T00:00", "2026-01-31T00:00"]),
        ("0 0 * * MON#1,WED#3", ["2026-01-05T00:00", "2026-01-21T00:00"]),
    ] {
        assert_next(text, "2026-01-01T12:00", &expected);
    }
}

#[test]
fn sparse_expressions_are_searched_to_their_next_fire() {
    assert_next("0 0 29 2 *", "2096-03-01T00:00", &["2104-02-29T00:00"]);
    assert_next("0 0 * 2 FRI#5", "2026-01-01T00:00", &["2036-02-29T00:00"]);
    // The longest gap: 2100 is not a leap year, and none of the next six has a fifth Sunday in
    // February.
    assert_next("0 0 * 2 SUN#5", "2088-03-01T00:00", &["2128-02-29T00:00"]);
}

#[test]
fn a_time_within_a_minute_is_after_that_minute() {
    assert_next("* * * * *", "2026-03-01T12:00:30", &["2026-03-01T12:01", "2026-03-01T12:02"]);
    assert_next("0 12 * * *", "2026-03-01T12:00:00", &["2026-03-02T12:00"]);
}

#[test]
fn expressions_have_one_normal_form() {
    for (text, canonical) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("  5\t4  *  *  ?  ", "5 4 * * *"),
        // A text block of YAML.
        ("5 4 * * *\n", "5 4 * * *"),
        ("00 09 * JAN,mar-Apr 1-5", "0 9 * 1,3,4 MON-FRI"),
        ("*/15 */1 * * 7", "*/15 * * * SUN"),
        ("*/15,7 * * * *", "*/15,7 * * * *"),
        ("7,*/15 * * * *", "0,7,15,30,45 * * * *"),
        ("0,10,20 1-9/4 * * *", "0-20/10 1-9/4 * * *"),
        ("0-59 22-2 * * *", "0-59 0-2,22,23 * * *"),
        ("0 0 L,15w,lw,L-3,15W * 2#1,frIL", "0 0 L,L-3,LW,15W * TUE#1,FRIL"),
    ] {
        let parsed = spec(text);
        assert_eq!(parsed.canonical(), canonical, "{text}");
        assert_eq!(spec(canonical), parsed);
        assert_eq!(parsed.to_string(), canonical);
    }
}

#[test]
fn a_leading_star_in_minute_or_hour_marks_elapsed_time() {
    for (text, wildcard) in [
        ("*/5 2 * * *", true),
        ("0 * * * *", true),
        ("0 ? * * *", true),
        ("0 */2,5 * * *", true),
        ("0 5,*/2 * * *", false),
        ("0-59 2 * * *", false),
        ("30 2 * * *", false),
        ("@hourly", true),
        ("@daily", false),
    ] {
        assert_eq!(spec(text).wildcard_time(), wildcard, "{text}");
    }
}

const REFUSED: [(&str, &str, &str); 46] = [
    ("", "expression", "is empty"),
    ("   ", "expression", "is empty"),
    ("* * * *", "expression", "`* * * *` has 4 fields"),
    ("* * * * * *", "expression", "has 6 fields"),
    ("1, 2 * * * *", "expression", "has 6 fields"),
    ("@reboot", "expression", "`@reboot` is not a nickname; use one of @hourly"),
    ("@", "expression", "not a nickname"),
    ("60 * * * *", "minute", "`60` is not a value of this field; allowed are 0-59"),
    ("-1 * * * *", "minute", "not a value"),
    ("+1 * * * *", "minute", "not a value"),
    ("1.5 * * * *", "minute", "not a value"),
    ("1,,2 * * * *", "minute", "empty place in the list"),
    (",1 * * * *", "minute", "empty place"),
    ("?,5 * * * *", "minute", "must be the whole field"),
    ("5,? * * * *", "minute", "must be the whole field"),
    ("*,60 * * * *", "minute", "`60` is not a value"),
    ("*, * * * *", "minute", "empty place"),
    ("0\n0 * * *", "expression", "neither blank nor tab; separate the fields by blanks or tabs"),
    ("*/0 * * * *", "minute", "from 1 to 59"),
    ("*/60 * * * *", "minute", "from 1 to 59"),
    ("*/ * * * *", "minute", "step"),
    ("*/2/3 * * * *", "minute", "step"),
    ("?/2 * * * *", "minute", "write `*/n`"),
    ("1-2-3 * * * *", "minute", "`1-2-3` has `2-3`"),
    ("1- * * * *", "minute", "not a value"),
    ("99999999999999999999 * * * *", "minute", "not a value"),
    ("0 24 * * *", "hour", "0-23"),
    ("0 L * * *", "hour", "not a value"),
    ("0 0 0 * *", "day", "1-31"),
    ("0 0 32 * *", "day", "1-31"),
    ("0 0 L-31 * *", "day", "1 to 30"),
    ("0 0 L-0 * *", "day", "1 to 30"),
    ("0 0 L-3W * *", "day", "not supported"),
    ("0 0 32W * *", "day", "before `W`"),
    ("0 0 1-5W * *", "day", "before `W`"),
    ("0 0 last * *", "day", "not a value"),
    ("0 0 * 13 *", "month", "1-12 or JAN-DEC"),
    ("0 0 * JANUARY *", "month", "`JANUARY`"),
    ("0 0 * * 8", "day_of_week", "`8` is not a value"),
    ("0 0 * * MONDAY", "day_of_week", "SUN-SAT"),
    ("0 0 * * L", "day_of_week", "write SAT or FRIL"),
    ("0 0 * * MON#6", "day_of_week", "1 to 5"),
    ("0 0 * * é", "day_of_week", "`é`"),
    ("0 0 31 2 *", "expression", "`0 0 31 2 *` never fires"),
    ("0 0 31W 2,4 *", "expression", "never fires"),
    ("0 0 L-30 4 *", "expression", "never fires"),
];

#[test]
fn error_names_field_text_and_allowed_values() {
    for (text, field, part) in REFUSED {
        let error = CronSpec::parse(text).expect_err(text);
        assert_eq!(error.field(), field, "{text}: {error}");
        assert!(error.message().contains(part), "{text}: {error}");
    }
}

#[test]
fn long_text_is_rejected_before_parsing() {
    let error = CronSpec::parse(&"1,".repeat(5_000)).expect_err("10 kB");
    assert_eq!(error.field(), "expression");
    assert_eq!(error.message(), "is 10000 bytes long; at most 256 are allowed");
    let error = CronSpec::parse(&format!("{} * * * *", "x".repeat(200))).expect_err("a long word");
    assert!(error.message().len() < 200, "{error}");
}

#[test]
fn control_characters_are_escaped_in_messages() {
    let error = CronSpec::parse("0 0 * * \u{1b}[31m").expect_err("an escape sequence");
    assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
}

//! Expressions of six fields, the first being the second.

use chrono::{DateTime, NaiveDateTime, TimeDelta};
use proptest::prelude::*;
use serde_json::json;

use super::{
    super::{CronSchedule, CronSpec, Schedule, ScheduleError, cron::CronOptions},
    assert_fires, naive,
    properties::expression,
    reference::Reference,
    spec as five_fields, zone,
};

const OPTIONS: CronOptions<'_> = CronOptions { hash_key: "", seconds: true, day_match: None };

fn parse(text: &str) -> Result<CronSpec, ScheduleError> {
    CronSpec::parse_with(text, &OPTIONS)
}

fn spec(text: &str) -> CronSpec {
    parse(text).unwrap_or_else(|error| panic!("`{text}` is refused: {error}"))
}

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
fn every_listed_second_of_a_matching_minute_matches() {
    assert_next(
        "10,40 30 9 * * *",
        "2026-03-01T09:29:59",
        &["2026-03-01T09:30:10", "2026-03-01T09:30:40", "2026-03-02T09:30:10"],
    );
    assert_next("10,40 30 9 * * *", "2026-03-01T09:30:10", &["2026-03-01T09:30:40"]);
    assert_next("10,40 30 9 * * *", "2026-03-01T09:30:09", &["2026-03-01T09:30:10"]);
    assert_next("58-1 59 23 31 12 *", "2026-12-31T23:59:00", &["2026-12-31T23:59:01", "2026-12-31T23:59:58"]);
    assert_next("* * * * * *", "2026-12-31T23:59:58", &["2026-12-31T23:59:59", "2027-01-01T00:00:00"]);
    assert_next("@daily", "2026-03-01T00:00:00", &["2026-03-02T00:00:00"]);
}

#[test]
fn a_fraction_of_a_second_is_after_that_second() {
    let half = naive("2026-03-01T12:00:00") + TimeDelta::milliseconds(500);
    assert_eq!(spec("* * * * * *").next_naive(half), Ok(Some(naive("2026-03-01T12:00:01"))));
    assert_eq!(spec("0 * * * * *").next_naive(half), Ok(Some(naive("2026-03-01T12:01:00"))));
    let before = naive("2026-03-01T12:00:00") - TimeDelta::microseconds(1);
    assert_eq!(spec("0 * * * * *").next_naive(before), Ok(Some(naive("2026-03-01T12:00:00"))));
}

#[test]
fn a_normal_form_has_six_fields() {
    for (text, canonical) in [
        ("@Weekly", "0 0 0 * * SUN"),
        ("*/10 * * * * ?", "*/10 * * * * *"),
        ("05,1-3 0 0 1 1 *", "1-3,5 0 0 1 1 *"),
    ] {
        assert_eq!(spec(text).canonical(), canonical, "{text}");
        assert_eq!(spec(canonical), spec(text));
    }
    assert_ne!(spec("0 5 * * * *"), five_fields("5 * * * *"));
}

#[test]
fn number_of_fields_follows_the_options() {
    let error = CronSpec::parse("*/10 * * * * *").expect_err("six fields");
    assert_eq!(error.field(), "expression");
    assert_eq!(
        error.message(),
        "`*/10 * * * * *` has 6 fields; exactly five are needed: minute hour day month day_of_week; for six, the first being the second, set `\"seconds\": true` beside the expression"
    );
    for (text, field, part) in [
        (
            "* * * * *",
            "expression",
            "`* * * * *` has 5 fields; with `\"seconds\": true` exactly six are needed: second minute hour day month day_of_week",
        ),
        ("*", "expression", "`*` has 1 field; "),
        ("* * * * * * *", "expression", "has 7 fields"),
        ("", "expression", "is empty; write six fields"),
        ("@reboot", "expression", "not a nickname"),
        ("60 * * * * *", "second", "`60` is not a value of this field; allowed are 0-59"),
        ("*/60 * * * * *", "second", "from 1 to 59"),
        ("L * * * * *", "second", "not a value"),
        ("0 60 * * * *", "minute", "`60` is not a value"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.field(), field, "{text}: {error}");
        assert!(error.message().contains(part), "{text}: {error}");
    }
}

#[test]
fn field_form_has_second_only_when_enabled() {
    for (config, expression) in [
        (json!({"second": "*/10"}), "*/10 * * * * *"),
        (json!({"second": 30, "hour": 9}), "30 * 9 * * *"),
        (json!({"minute": "*/5"}), "0 */5 * * * *"),
        (json!({"second": 15, "day": 1}), "15 * * 1 * *"),
    ] {
        let parsed = CronSpec::from_fields_with(config.as_object().expect("an object"), &OPTIONS);
        assert_eq!(parsed, parse(expression), "{config}");
    }
    // The reader of the whole object rejects the unknown name.
    let config = json!({"second": "nonsense", "minute": 5});
    let parsed = CronSpec::from_fields(config.as_object().expect("an object"));
    assert_eq!(parsed, CronSpec::parse("5 * * * *"));
}

#[test]
fn seconds_do_not_affect_daylight_saving() {
    for (text, wildcard) in
        [("* 30 2 * * *", false), ("*/5 30 2 * * *", false), ("0 * 2 * * *", true), ("0 0 * * * *", true)]
    {
        assert_eq!(spec(text).wildcard_time(), wildcard, "{text}");
    }
    let berlin = |text| Schedule::Cron(CronSchedule::new(spec(text), zone("Europe/Berlin"), None, None));
    // 02:30 does not exist on 29 March and occurs twice on 25 October.
    assert_fires(
        &berlin("15,45 30 2 * * *"),
        "2026-03-29T00:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-30T00:30:15Z", "2026-03-30T00:30:45Z"],
    );
    assert_fires(
        &berlin("15,45 30 2 * * *"),
        "2026-10-25T00:00:00Z",
        &["2026-10-25T00:30:15Z", "2026-10-25T00:30:45Z", "2026-10-26T01:30:15Z"],
    );
    assert_fires(
        &berlin("*/30 */30 * * * *"),
        "2026-10-25T00:59:59Z",
        &["2026-10-25T01:00:00Z", "2026-10-25T01:00:30Z", "2026-10-25T01:30:00Z"],
    );
}

#[test]
fn the_ends_of_the_calendar_are_no_trap() {
    for text in ["* * * * * *", "59 59 23 31 12 *", "0 0 0 29 2 *"] {
        for after in [NaiveDateTime::MIN, NaiveDateTime::MAX] {
            let next = spec(text).next_naive(after).expect("the engine works");
            assert_eq!(next.is_some(), after == NaiveDateTime::MIN, "{text} after {after}");
        }
    }
    assert_next("* * * * * *", "9999-12-31T23:59:58", &["9999-12-31T23:59:59"]);
    assert_eq!(spec("* * * * * *").next_naive(naive("9999-12-31T23:59:59")), Ok(None));
}

pub(super) fn second() -> impl Strategy<Value = String> {
    let item = prop_oneof![
        3 => (0..60_u32).prop_map(|second| second.to_string()),
        1 => (0..60_u32, 0..60_u32).prop_map(|(first, last)| format!("{first}-{last}")),
        1 => (2..60_u32).prop_map(|step| format!("*/{step}")),
    ];
    let list = prop::collection::vec(item, 1..4).prop_map(|items| items.join(","));
    prop_oneof![1 => Just("*".to_owned()), 1 => Just("0".to_owned()), 4 => list]
}

pub(super) fn six_fields() -> impl Strategy<Value = String> {
    (second(), expression()).prop_map(|(second, rest)| format!("{second} {rest}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_run_of_fires_is_every_matching_second(text in six_fields(), start in 788_918_400_i64..4_260_211_200) {
        let Ok(spec) = parse(&text) else { return Ok(()) };
        let reference = Reference::new(&text);
        let at = |second| DateTime::from_timestamp(second, 0).expect("in range").naive_utc();
        // Begins at a match, because most stretches of three hours have none.
        let Some(first) = reference.next_after(at(start), 400) else { return Ok(()) };
        let first = first.and_utc().timestamp();
        let until = first + 3 * 3600;
        let expected: Vec<NaiveDateTime> = (first..=until).map(at).filter(|at| reference.matches(*at)).collect();
        let next = |at: &NaiveDateTime| spec.next_naive(*at).expect("the engine works");
        let fires = std::iter::successors(next(&at(start)), next).take_while(|fire| *fire <= at(until));
        prop_assert_eq!(fires.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_later_question_never_has_an_earlier_answer(
        text in six_fields(), after in 788_918_400_i64..4_260_211_200, later in 0..100_000_i64, micros in 0..1_000_000_u32,
    ) {
        let Ok(spec) = parse(&text) else { return Ok(()) };
        let at = |second| DateTime::from_timestamp(second, micros * 1000).expect("in range").naive_utc();
        let next = |at| spec.next_naive(at).expect("the engine works").expect("a fire within a century");
        prop_assert!(next(at(after)) > at(after));
        prop_assert!(next(at(after + later)) >= next(at(after)));
        prop_assert_eq!(next(at(after)), next(at(after)));
    }
}

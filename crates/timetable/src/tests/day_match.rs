//! The days of a schedule with two day fields, by hand from the rules of Vixie cron.
//!
//! Its `find_jobs` requires both fields to match if one of them starts with `*`, else either.

use chrono::{Datelike as _, NaiveDateTime};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{CronSpec, DayMatch, JobType, Schedule, ScheduleError, cron::CronOptions},
    naive, parse,
    properties::{expression, instant},
    reference::Reference,
};

const MONDAYS: [u32; 5] = [2, 9, 16, 23, 30];
const FRIDAYS: [u32; 4] = [6, 13, 20, 27];

fn cron(config: &Value) -> Result<CronSpec, ScheduleError> {
    match parse(JobType::Cron, config, "UTC")? {
        Schedule::Cron(cron) => Ok(cron.spec().clone()),
        other => panic!("{config}: {other:?}"),
    }
}

/// The first of March 2026 is a Sunday, its last day a Tuesday.
fn days_of_march(spec: &CronSpec) -> Vec<u32> {
    let next = |at: &NaiveDateTime| spec.next_naive(*at).expect("the engine works");
    std::iter::successors(next(&naive("2026-02-28T23:59")), next)
        .take_while(|at| *at < naive("2026-04-01T00:00"))
        .map(|at| at.day())
        .collect()
}

#[track_caller]
fn assert_days(config: &Value, expected: &[u32]) {
    let spec = cron(config).unwrap_or_else(|error| panic!("{config} is refused: {error}"));
    assert_eq!(days_of_march(&spec), expected, "{config}");
}

#[test]
fn day_fields_follow_vixie_cron() {
    let every_day: Vec<u32> = (1..=31).collect();
    for (text, expected) in [
        // Neither field starts with a star: either suffices.
        ("0 0 13 * FRI", &FRIDAYS[..]),
        ("0 0 1,31 * FRI", &[1, 6, 13, 20, 27, 31]),
        ("0 0 1-31 * FRI", &every_day),
        ("0 0 5,* * FRI", &every_day),
        ("0 0 5-11,*/30 * MON", &[1, 2, 5, 6, 7, 8, 9, 10, 11, 16, 23, 30, 31]),
        ("0 0 L * TUE", &[3, 10, 17, 24, 31]),
        ("0 0 L-3 * MON#1", &[2, 28]),
        ("0 0 15W * SUN", &[1, 8, 15, 16, 22, 29]),
        ("0 0 31 * FRI#2,FRIL", &[13, 27, 31]),
        // One of them does: a day must match both.
        ("0 0 */2 * FRI", &[13, 27]),
        ("0 0 */30,5-11 * MON", &[9]),
        ("0 0 1-7 * */3", &[1, 4, 7]),
        ("0 0 */2 * */2", &[1, 3, 5, 7, 15, 17, 19, 21, 29, 31]),
        ("0 0 13 * *", &[13]),
        ("0 0 * * FRI", &FRIDAYS),
        ("0 0 ? * FRI", &FRIDAYS),
        ("0 0 */1 * FRI", &FRIDAYS),
        ("0 0 *,5 * MON", &MONDAYS),
        ("0 0 */1,5 * MON", &MONDAYS),
        ("0 0 5 * *,MON", &[5]),
        ("0 0 L * */2", &[31]),
        ("0 0 LW,L-1 * */3", &[]),
        ("0 0 15W,16W * */2,MON", &[16]),
        ("0 0 * * FRI#2", &[13]),
        ("0 0 */2 * FRI#2", &[13]),
        ("0 0 */2 * MON#1,FRIL", &[27]),
        ("0 0 */2 * MON#1,FRIL,TUE", &[3, 17, 27, 31]),
    ] {
        assert_days(&json!({ "expression": text }), expected);
    }
}

#[test]
fn day_match_overrides_the_star() {
    for (text, either, both) in [
        ("0 0 13 * FRI", &FRIDAYS[..], &[13][..]),
        ("0 0 1-7 * MON", &[1, 2, 3, 4, 5, 6, 7, 9, 16, 23, 30], &[2]),
        ("0 0 */10 * FRI", &[1, 6, 11, 13, 20, 21, 27, 31], &[]),
        ("0 0 1-7 * */3", &[1, 2, 3, 4, 5, 6, 7, 8, 11, 14, 15, 18, 21, 22, 25, 28, 29], &[1, 4, 7]),
        ("0 0 L * TUE", &[3, 10, 17, 24, 31], &[31]),
        ("0 0 15W * MON", &MONDAYS, &[16]),
        ("0 0 1-31 * MON#1", &(1..=31).collect::<Vec<_>>(), &[2]),
        // A field that is `*` restricts nothing.
        ("0 0 * * MON", &MONDAYS, &MONDAYS),
        ("0 0 *,5 * MON", &MONDAYS, &MONDAYS),
        ("0 0 13 * ?", &[13], &[13]),
    ] {
        assert_days(&json!({"expression": text, "day_match": "either"}), either);
        assert_days(&json!({"expression": text, "day_match": "both"}), both);
    }
}

#[test]
fn field_form_requires_both_day_fields() {
    for (config, expected) in [
        (json!({"day": 13, "day_of_week": "fri"}), &[13][..]),
        (json!({"day": "*/2", "day_of_week": "fri"}), &[13, 27]),
        (json!({"day": "1-7", "day_of_week": 0}), &[2]),
        (json!({"day": "last", "day_of_week": "mon-fri"}), &[31]),
        (json!({"day": 13, "day_of_week": "fri", "day_match": "both"}), &[13]),
        (json!({"day": 13, "day_of_week": "fri", "day_match": "either"}), &FRIDAYS),
        (
            json!({"day": "*/30", "day_of_week": "*/6", "day_match": "either"}),
            &[1, 2, 8, 9, 15, 16, 22, 23, 29, 30, 31],
        ),
        // Positions are alternatives within one field.
        (json!({"day": "last sun,1"}), &[1, 29]),
        (json!({"day": "last sun,1", "day_match": "both"}), &[1, 29]),
        (json!({"day": "2nd fri", "day_of_week": "*"}), &[13]),
        (json!({"day": "2nd fri", "day_of_week": "mon", "day_match": "either"}), &[2, 9, 13, 16, 23, 30]),
    ] {
        assert_days(&config, expected);
    }
    let error = cron(&json!({"day": "2nd fri", "day_of_week": "mon"})).expect_err("no expression states it");
    assert_eq!(error.field(), "schedule_config.day");
    assert!(error.message().contains("set day_match to either"), "{error}");
}

#[test]
fn unknown_day_match_is_refused() {
    for config in [
        json!({"expression": "0 0 13 * FRI", "day_match": "any"}),
        json!({"expression": "0 0 13 * FRI", "day_match": true}),
        json!({"day": 13, "day_match": null}),
    ] {
        let error = cron(&config).expect_err("it is refused");
        assert_eq!(error.field(), "schedule_config.day_match", "{error}");
        assert!(error.message().starts_with("is neither `either` nor `both`"), "{error}");
    }
    let error =
        parse(JobType::Interval, &json!({"hours": 1, "day_match": "both"}), "UTC").expect_err("no cron");
    assert!(error.message().contains("`day_match` is not a field"), "{error}");
}

#[test]
fn fields_without_a_common_day_are_refused() {
    for text in ["0 0 1-7 * FRI#5", "0 0 15W * SUN", "0 0 LW * SAT,SUN", "0 0 30 2 FRI", "0 0 L-27 * TUE#2"] {
        let error = cron(&json!({"expression": text, "day_match": "both"})).expect_err(text);
        assert!(matches!(error, ScheduleError::NeverFires { .. }), "{error}");
        assert!(error.message().contains("a day that matches both day fields"), "{error}");
    }
    let error = cron(&json!({"expression": "0 0 31 2 *"})).expect_err("no such day");
    assert!(error.message().ends_with("none of its months has such a day"), "{error}");
}

#[test]
fn rare_common_day_is_found_forty_years_later() {
    for text in ["0 0 29 2 SUN", "0 0 */28 2 SUN#5", "0 0 L 2 SUN#5", "0 0 29 2 SUNL"] {
        let spec = cron(&json!({"expression": text, "day_match": "both"})).expect("a schedule");
        assert_eq!(spec.next_naive(naive("2088-03-01T00:00")), Ok(Some(naive("2128-02-29T00:00"))), "{text}");
    }
}

#[test]
fn star_in_a_time_field_follows_elapsed_time_only_in_front() {
    for (text, canonical, wildcard) in [
        ("*,5 3 * * *", "* 3 * * *", true),
        ("*/1,5 3 * * *", "* 3 * * *", true),
        ("5,* 3 * * *", "0-59 3 * * *", false),
        ("0 7,*/1 * * *", "0 0-23 * * *", false),
        ("0 0 5,* *,3 *", "0 0 1-31 * *", false),
        ("0 0 1 * 3,*", "0 0 1 * SUN-SAT", false),
        ("0 0 1 * *,3", "0 0 1 * *", false),
        ("0 0 1 * */2,MON", "0 0 1 * */2,MON", false),
    ] {
        let spec = super::spec(text);
        assert_eq!((spec.canonical(), spec.wildcard_time()), (canonical, wildcard), "{text}");
        assert_eq!(super::spec(canonical), spec, "{text}");
    }
}

#[test]
fn schedules_with_different_day_matches_are_unequal() {
    let spec = |config: Value| cron(&config).expect("a schedule");
    let default = spec(json!({"expression": "0 0 13 * FRI"}));
    assert_eq!(default, spec(json!({"expression": "0 0 13 * FRI", "day_match": "either"})));
    assert_ne!(default, spec(json!({"expression": "0 0 13 * FRI", "day_match": "both"})));
    assert_eq!(
        spec(json!({"expression": "0 0 * * FRI"})),
        spec(json!({"expression": "0 0 * * FRI", "day_match": "either"}))
    );
    assert_eq!(spec(json!({"day": 13, "day_of_week": "fri"})).day_match(), DayMatch::Both);
    assert_eq!(spec(json!({"day": "last sun,1"})).day_match(), DayMatch::Either);
}

pub(super) fn day_match() -> impl Strategy<Value = Option<DayMatch>> {
    prop_oneof![Just(None), Just(Some(DayMatch::Either)), Just(Some(DayMatch::Both))]
}

pub(super) fn parse_with(text: &str, day_match: Option<DayMatch>) -> Result<CronSpec, ScheduleError> {
    CronSpec::parse_with(text, &CronOptions { day_match, ..CronOptions::default() })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn next_is_the_first_minute_of_the_day_match(text in expression(), chosen in day_match(), after in instant()) {
        let reference = Reference::new(&text).with_day_match(chosen.map(|chosen| chosen == DayMatch::Both));
        let expected = reference.next_after(after, 41 * 366);
        match parse_with(&text, chosen) {
            Ok(spec) => prop_assert_eq!(spec.next_naive(after).expect("the engine works"), expected),
            Err(error) => prop_assert!(expected.is_none(), "{} is refused ({}) but fires at {:?}", text, error, expected),
        }
    }

    #[test]
    fn normal_form_with_its_day_match_is_equal(text in expression(), chosen in day_match()) {
        let Ok(spec) = parse_with(&text, chosen) else { return Ok(()) };
        let again = parse_with(spec.canonical(), Some(spec.day_match())).expect("the normal form is read");
        prop_assert_eq!(again.sentence(), spec.sentence());
        prop_assert_eq!(again, spec);
    }
}

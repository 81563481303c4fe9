//! `H` in expressions: the values of each form, rejected forms, and general rules.

use chrono::{DateTime, NaiveDateTime, TimeDelta};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{CronSpec, ScheduleError, cron::CronOptions},
    naive,
    properties::expression,
    reference::{Reference, without_hashes},
};

/// The hash of this key modulo 60, 24, 28, 12 and 7 is 35, 1, 22, 6 and 1, by `sha256sum`.
const KEY: &str = "acme/backup";

fn parse(text: &str, hash_key: &str) -> Result<CronSpec, ScheduleError> {
    CronSpec::parse_with(
        text,
        &CronOptions { hash_key, seconds: text.split(' ').count() == 6, day_match: None },
    )
}

fn spec(text: &str, hash_key: &str) -> CronSpec {
    parse(text, hash_key).unwrap_or_else(|error| panic!("`{text}` is refused: {error}"))
}

fn from_fields(config: &Value, hash_key: &str) -> CronSpec {
    let options = CronOptions { hash_key, seconds: config.get("second").is_some(), day_match: None };
    let object = config.as_object().expect("an object");
    CronSpec::from_fields_with(object, &options)
        .unwrap_or_else(|error| panic!("{config} is refused: {error}"))
}

fn next(spec: &CronSpec, after: NaiveDateTime) -> NaiveDateTime {
    spec.next_naive(after).expect("the engine works").expect("a fire")
}

fn fires(spec: &CronSpec, count: usize) -> Vec<NaiveDateTime> {
    let after = naive("2026-01-01T00:00:00") - TimeDelta::microseconds(1);
    std::iter::successors(Some(next(spec, after)), |at| Some(next(spec, *at))).take(count).collect()
}

#[test]
fn each_hash_form_follows_its_formula() {
    for (text, plain) in [
        ("H * * * *", "35 * * * *"),
        ("h * * * *", "35 * * * *"),
        ("H H * * *", "35 1 * * *"),
        ("H/15 * * * *", "5,20,35,50 * * * *"),
        ("H/40 * * * *", "15,55 * * * *"),
        ("H/60 * * * *", "35 * * * *"),
        ("H/1 * * * *", "* * * * *"),
        ("H(10-19) * * * *", "15 * * * *"),
        ("H(0-29)/10 * * * *", "5,15,25 * * * *"),
        ("H(0-59)/1 * * * *", "* * * * *"),
        ("H(0-29),H(30-59) * * * *", "5,35 * * * *"),
        ("0,H,30-32 * * * *", "0,30-32,35 * * * *"),
        ("0 H(9-16) * * *", "0 10 * * *"),
        ("0 0 H * *", "0 0 23 * *"),
        ("0 0 H(1-31) * *", "0 0 6 * *"),
        ("0 0 H/7 * *", "0 0 2,9,16,23 * *"),
        ("0 0 L,H * *", "0 0 23,L * *"),
        ("0 0 1 H *", "0 0 1 7 *"),
        ("0 0 1 H(JAN-mar) *", "0 0 1 1 *"),
        ("0 0 * * H", "0 0 * * MON"),
        ("0 0 * * H(1-5)", "0 0 * * TUE"),
        ("0 0 * * H(MON-FRI)", "0 0 * * TUE"),
        ("0 0 * * H(FRI-SUN)", "0 0 * * SUN"),
        ("0 0 * * H(5-7)", "0 0 * * SUN"),
        ("0 0 * * H(5-0)", "0 0 * * SUN"),
        ("0 0 * * H(0-7)", "0 0 * * MON"),
        ("0 0 * * H(7-7)", "0 0 * * SUN"),
        ("0 0 * * H,FRI#2", "0 0 * * MON,FRI#2"),
        ("H * * * * *", "40 * * * * *"),
        ("H/10 * * * * *", "*/10 * * * * *"),
    ] {
        assert_eq!(fires(&spec(text, KEY), 60), fires(&spec(plain, KEY), 60), "{text}");
    }
}

#[test]
fn another_key_has_other_times() {
    let times = ["acme/backup", "acme/report", ""].map(|key| fires(&spec("H H H H *", key), 1));
    assert_eq!(
        times,
        [[naive("2026-07-23T01:35")], [naive("2026-01-04T01:58")], [naive("2026-08-10T11:38")],]
    );
    assert_eq!(spec("H H H H *", ""), CronSpec::parse("H H H H *").expect("a spec"));
}

#[test]
fn jobs_are_spread_over_the_whole_field() {
    let mut jobs_at = [0; 60];
    for job in 0..6_000 {
        let first = fires(&spec("H * * * *", &format!("acme/{job}")), 1);
        jobs_at[first[0].and_utc().timestamp() as usize / 60 % 60] += 1;
    }
    assert!(jobs_at.iter().all(|jobs| (50..=150).contains(jobs)), "{jobs_at:?}");
}

#[test]
fn hash_form_keeps_its_text() {
    for (text, canonical) in [
        ("h h h h h", "H H H H H"),
        ("H/1 h/1 * * *", "* * * * *"),
        ("H(05-9)/02 * * * *", "H(5-9)/2 * * * *"),
        ("H,H,h * * * *", "H * * * *"),
        ("H/5,*/7 * * * *", "H/5,0-56/7 * * * *"),
        ("*/7,H/5,H(1-2),3 * * * *", "*/7,3,H(1-2),H/5 * * * *"),
        ("H(0-9),H/7 * * * *", "H(0-9),H/7 * * * *"),
        ("0 0 * H(1-3) H(1-5)", "0 0 * H(1-3) H(MON-FRI)"),
        ("0 0 * * H(5-7)/2", "0 0 * * H(FRI-SUN)/2"),
        ("0 0 * * H(7-7)", "0 0 * * H(SUN-SUN)"),
        ("0 0 L,H * *", "0 0 H,L * *"),
    ] {
        let parsed = spec(text, KEY);
        assert_eq!(parsed.canonical(), canonical, "{text}");
        assert_eq!(spec(canonical, KEY), parsed, "{text}");
        assert_eq!(parsed.uses_hash(), canonical.contains('H'), "{text}");
    }
    assert_ne!(spec("H * * * *", "acme/backup"), spec("H * * * *", "acme/report"), "one text, two times");
    assert_ne!(spec("H * * * *", KEY), spec("35 * * * *", KEY), "one time, two texts");
    assert!(!spec("0 9 * MAR THU", KEY).uses_hash());
}

#[test]
fn the_field_form_has_the_same_choices() {
    for (config, canonical) in [
        (json!({"minute": "H"}), "H * * * *"),
        (json!({"hour": "h", "minute": "H/15, 3"}), "H/15,3 H * * *"),
        (json!({"day": "H"}), "0 0 H * *"),
        (json!({"day": "H, last fri"}), "0 0 H * FRIL"),
        (json!({"day_of_week": "H"}), "0 0 * * H"),
        (json!({"day_of_week": "H(0-4)"}), "0 0 * * H(MON-FRI)"),
        (json!({"day_of_week": "H(0-6)"}), "0 0 * * H(MON-SUN)"),
        (json!({"day_of_week": "H(sat-sun)"}), "0 0 * * H(SAT-SUN)"),
        (json!({"day_of_week": "H(sun-mon)"}), "0 0 * * H(SUN-MON)"),
        (json!({"second": "H", "minute": "H"}), "H H * * * *"),
    ] {
        let parsed = from_fields(&config, KEY);
        assert_eq!(parsed.canonical(), canonical, "{config}");
        assert_eq!(parsed, spec(canonical, KEY), "{config}");
    }
}

#[test]
fn a_leading_step_of_h_marks_elapsed_time_and_h_alone_does_not() {
    for (text, wildcard) in [
        ("H/15 2 * * *", true),
        ("H/15,7 2 * * *", true),
        ("30 H/2 * * *", true),
        ("H/1 2 * * *", true),
        ("7,H/15 2 * * *", false),
        ("H 2 * * *", false),
        ("H H * * *", false),
        ("H(0-59)/15 2 * * *", false),
        ("H/15 30 2 * * *", false),
        ("0 H/15 2 * * *", true),
    ] {
        let parsed = spec(text, KEY);
        assert_eq!(parsed.wildcard_time(), wildcard, "{text}");
        assert_eq!(spec(parsed.canonical(), KEY).wildcard_time(), wildcard, "{text}");
    }
}

#[test]
fn unknown_hash_form_is_rejected() {
    for (text, field, part) in [
        (
            "HH * * * *",
            "minute",
            "`HH` is not a form of H; use `H`, `H/n`, `H(a-b)` or `H(a-b)/n`; allowed are 0-59",
        ),
        ("H5 * * * *", "minute", "not a form of H"),
        ("H-5 * * * *", "minute", "not a form of H"),
        ("H() * * * *", "minute", "not a form of H"),
        ("H(7) * * * *", "minute", "not a form of H"),
        ("H(1-2 * * * *", "minute", "not a form of H"),
        ("H(1-2)3 * * * *", "minute", "not a form of H"),
        ("H1-2) * * * *", "minute", "not a form of H"),
        ("5-H * * * *", "minute", "`5-H` has `H`"),
        ("H/ * * * *", "minute", "whole number from 1 to 60"),
        ("H/0 * * * *", "minute", "`H/0` has a bad step, which is a whole number from 1 to 60; allowed are"),
        ("H/61 * * * *", "minute", "`H/61` has a bad step"),
        ("H/5/5 * * * *", "minute", "bad step"),
        ("H(5-9)/6 * * * *", "minute", "from 1 to 5"),
        (
            "H(1-70) * * * *",
            "minute",
            "`H(1-70)` has `70`, which is not a value of this field; allowed are 0-59",
        ),
        ("H(50-10) * * * *", "minute", "`H(50-10)` has a range that ends before it begins; allowed are"),
        ("H(-) * * * *", "minute", "which is not a value"),
        ("H(1-2-3) * * * *", "minute", "`2-3`"),
        ("(1-2) * * * *", "minute", "not a value"),
        ("H/1,5 * * * *", "minute", "must be the whole field"),
        ("H(H-5) * * * *", "minute", "has `H`"),
        ("0 H/25 * * *", "hour", "from 1 to 24"),
        ("0 0 H/29 * *", "day", "from 1 to 28"),
        ("0 0 H(0-3) * *", "day", "has `0`"),
        ("0 0 HW * *", "day", "not a form of H"),
        ("0 0 * H(NOV-FEB) *", "month", "ends before it begins"),
        ("0 0 * * H#2", "day_of_week", "not a form of H"),
        ("0 0 * * HL", "day_of_week", "not a form of H"),
        ("0 0 * * H(FRI-MON)", "day_of_week", "ends before it begins"),
        ("0 0 * * H(1-8)", "day_of_week", "has `8`"),
        ("H/61 * * * * *", "second", "from 1 to 60"),
        ("0 0 H(30-31) 2 *", "expression", "never fires with the values that this job has for H"),
    ] {
        let error = parse(text, KEY).expect_err(text);
        assert_eq!(error.field(), field, "{text}: {error}");
        assert!(error.message().contains(part), "{text}: {error}");
    }
}

#[test]
fn sentence_shows_the_hashed_times() {
    for (text, sentence) in [
        ("H H * * *", "At 01:35 every day."),
        ("H * * * *", "At minute 35 of every hour."),
        ("H/15 * * * *", "Every 15 minutes from 00:05 to 23:50."),
        ("H H(9-16) * * H(MON-FRI)", "At 10:35 on Tuesday."),
        ("0 0 H H *", "At 00:00 on day 23 of July."),
        ("H H H * * *", "At 01:35:40 every day."),
    ] {
        assert_eq!(spec(text, KEY).sentence(), sentence, "{text}");
    }
}

fn form(low: u32, high: u32, plain: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        Just("H".to_owned()),
        (2..=plain - low + 1).prop_map(|step| format!("H/{step}")),
        (low..=high, low..=high).prop_map(|(a, b)| format!("H({}-{})", a.min(b), a.max(b))),
        (low..=high, low..=high, 0..1000_u32).prop_map(|(a, b, step)| {
            let (first, last) = (a.min(b), a.max(b));
            format!("H({first}-{last})/{}", step % (last - first + 1) + 1)
        }),
    ]
}

fn forms() -> impl Strategy<Value = [String; 6]> {
    let time = || form(0, 59, 59);
    (time(), time(), form(0, 23, 23), form(1, 31, 28), form(1, 12, 12), form(0, 6, 6))
        .prop_map(|(second, minute, hour, day, month, weekday)| [second, minute, hour, day, month, weekday])
}

fn hashed_expression() -> impl Strategy<Value = String> {
    (expression(), super::seconds::second(), forms(), prop::array::uniform6(0..3)).prop_map(
        |(text, second, forms, how)| {
            let plain = std::iter::once(second.as_str()).chain(text.split(' '));
            let words = plain.zip(forms).zip(how).map(|((plain, form), how)| match (how, plain) {
                (0, _) => plain.to_owned(),
                (1, _) | (_, "*") => form,
                _ => format!("{plain},{form}"),
            });
            words.collect::<Vec<_>>().join(" ")
        },
    )
}

fn instant() -> impl Strategy<Value = NaiveDateTime> {
    (788_918_400_i64..4_260_211_200)
        .prop_map(|seconds| DateTime::from_timestamp(seconds, 0).expect("in range").naive_utc())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn next_is_the_first_second_that_matches(text in hashed_expression(), key in "[a-z/]{0,12}", after in instant()) {
        let plain = without_hashes(&text, &key);
        let expected = Reference::new(&plain).next_after(after, 41 * 366);
        match parse(&text, &key) {
            Ok(spec) => prop_assert_eq!(spec.next_naive(after).expect("the engine works"), expected, "{}", plain),
            Err(error) => prop_assert!(expected.is_none(), "{} is refused ({}) but fires at {:?}", text, error, expected),
        }
    }

    #[test]
    fn the_normal_form_reads_as_the_same_expression(text in hashed_expression(), key in "[a-z/]{0,12}", after in instant()) {
        let Ok(original) = parse(&text, &key) else { return Ok(()) };
        let again = spec(original.canonical(), &key);
        prop_assert_eq!(again.canonical(), original.canonical());
        prop_assert_eq!(again.wildcard_time(), original.wildcard_time());
        prop_assert_eq!(again.uses_hash(), original.uses_hash());
        prop_assert_eq!(again.next_naive(after), original.next_naive(after));
        prop_assert_eq!(again.sentence(), original.sentence());
        prop_assert_eq!(again, original);
    }

    #[test]
    fn no_text_with_h_and_parentheses_makes_anything_panic(
        text in "[0-9*,/#?LWlwHh()a-f@ -]{0,40}", key in any::<String>(), seconds in any::<bool>(), after in instant(),
    ) {
        if let Ok(spec) = CronSpec::parse_with(&text, &CronOptions { hash_key: &key, seconds, day_match: None }) {
            prop_assert!(spec.next_naive(after).is_ok() && !spec.sentence().is_empty());
        }
    }

    #[test]
    fn words_with_h_and_parentheses_make_nothing_panic(
        words in prop::collection::vec(r"[*?LH]|H/[0-9]{1,2}|[hH]\([0-9]{1,2}-[0-9]{1,2}\)(/[0-9])?|[H0-9*/,()-]{1,7}|[0-9]{1,2}[W#L][0-9]?", 5..=6),
        after in instant(),
    ) {
        if let Ok(spec) = parse(&words.join(" "), KEY) {
            prop_assert!(spec.next_naive(after).expect("the engine works").is_none_or(|at| at > after));
        }
    }
}

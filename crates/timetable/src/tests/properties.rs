//! Properties of generated expressions and their next times.

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use proptest::prelude::*;

use super::{super::CronSpec, reference::Reference, spec};

fn item(low: u32, high: u32) -> impl Strategy<Value = String> {
    let value = low..=high;
    let step = 2..=(high - low);
    prop_oneof![
        4 => value.clone().prop_map(|value| value.to_string()),
        2 => (value.clone(), value.clone()).prop_map(|(first, last)| format!("{first}-{last}")),
        1 => (value.clone(), value.clone(), step.clone())
            .prop_map(|(first, last, step)| format!("{first}-{last}/{step}")),
        1 => (value, step.clone()).prop_map(|(first, step)| format!("{first}/{step}")),
        2 => step.prop_map(|step| format!("*/{step}")),
        1 => Just("*".to_owned()),
    ]
}

fn list(item: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::vec(item, 1..4).prop_map(|items| items.join(","))
}

fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    prop_oneof![2 => Just("*".to_owned()), 3 => list(item(low, high))]
}

fn day() -> impl Strategy<Value = String> {
    let special = prop_oneof![
        Just("L".to_owned()),
        Just("LW".to_owned()),
        (1..=30_u32).prop_map(|before| format!("L-{before}")),
        (1..=31_u32).prop_map(|day| format!("{day}W")),
    ];
    prop_oneof![2 => Just("*".to_owned()), 2 => list(item(1, 31)), 2 => list(prop_oneof![special, item(1, 31)])]
}

fn weekday() -> impl Strategy<Value = String> {
    let special = prop_oneof![
        (0..=7_u32, 1..=5_u32).prop_map(|(day, nth)| format!("{day}#{nth}")),
        (0..=7_u32).prop_map(|day| format!("{day}L")),
    ];
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => list(item(0, 6)),
        1 => (0..=7_u32, 0..=7_u32).prop_map(|(first, last)| format!("{first}-{last}")),
        2 => list(prop_oneof![special, item(0, 6)]),
    ]
}

/// Valid, but may never fire.
pub(super) fn expression() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), day(), field(1, 12), weekday())
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

pub(super) fn instant() -> impl Strategy<Value = NaiveDateTime> {
    // 1995 to 2105, with a centenary that is a leap year (2000) and one that is not (2100).
    (788_918_400_i64..4_260_211_200, 0..1_000_000_u32).prop_map(|(seconds, micros)| {
        DateTime::<Utc>::from_timestamp(seconds, micros * 1000).expect("in range").naive_utc()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn next_is_the_first_minute_that_matches(text in expression(), after in instant()) {
        let reference = Reference::new(&text);
        // Rare days of February are 40 years apart at most.
        let expected = reference.next_after(after, 41 * 366);
        match CronSpec::parse(&text) {
            Ok(spec) => prop_assert_eq!(spec.next_naive(after).expect("the engine works"), expected),
            Err(error) => prop_assert!(expected.is_none(), "{} is refused ({}) but fires at {:?}", text, error, expected),
        }
    }

    #[test]
    fn a_run_of_fires_is_every_matching_minute(text in expression(), after in instant()) {
        let Ok(spec) = CronSpec::parse(&text) else { return Ok(()) };
        let reference = Reference::new(&text);
        let until = after + TimeDelta::hours(30);
        let first_minute = (after + TimeDelta::minutes(1)).and_utc().timestamp().div_euclid(60);
        let expected: Vec<NaiveDateTime> = (first_minute..=until.and_utc().timestamp().div_euclid(60))
            .map(|minute| DateTime::from_timestamp(minute * 60, 0).expect("in range").naive_utc())
            .filter(|at| reference.matches(*at))
            .collect();
        let next = |at: &NaiveDateTime| spec.next_naive(*at).expect("the engine works").filter(|at| *at <= until);
        let fires: Vec<NaiveDateTime> = std::iter::successors(next(&after), next).collect();
        prop_assert_eq!(fires, expected);
    }

    #[test]
    fn a_later_question_never_has_an_earlier_answer(text in expression(), after in instant(), later in 0..400_000_i64) {
        let Ok(spec) = CronSpec::parse(&text) else { return Ok(()) };
        let next = |at| spec.next_naive(at).expect("the engine works").expect("a fire within a century");
        let later = after + TimeDelta::minutes(later);
        prop_assert!(next(after) > after);
        prop_assert!(next(later) >= next(after));
        prop_assert_eq!(next(after), next(after));
    }

    #[test]
    fn the_normal_form_reads_as_the_same_expression(text in expression(), after in instant()) {
        let Ok(original) = CronSpec::parse(&text) else { return Ok(()) };
        let again = spec(original.canonical());
        prop_assert_eq!(again.canonical(), original.canonical());
        prop_assert_eq!(again.wildcard_time(), original.wildcard_time());
        prop_assert_eq!(again.next_naive(after), original.next_naive(after));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        if let Err(error) = CronSpec::parse(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn no_text_of_cron_characters_makes_anything_panic(text in "[0-9*,/#?LWlwa-fA-F@ -]{0,40}", after in instant()) {
        if let Ok(spec) = CronSpec::parse(&text) {
            prop_assert!(spec.next_naive(after).is_ok());
        }
    }

    #[test]
    fn five_words_of_cron_characters_make_nothing_panic(
        words in prop::collection::vec("[*?L]|[0-9*/,-]{1,7}|[0-9]{1,2}[W#L][0-9]?|[A-Za-z]{3}(-[A-Za-z]{3})?", 5),
        after in instant(),
    ) {
        if let Ok(spec) = CronSpec::parse(&words.join(" ")) {
            prop_assert!(spec.next_naive(after).expect("the engine works").is_none_or(|at| at > after));
        }
    }
}

#[test]
fn the_ends_of_the_calendar_are_no_trap() {
    for text in ["* * * * *", "0 0 29 2 *", "0 0 29W 2 *", "0 0 L-30 * MON#5", "59 23 31 12 *"] {
        let spec = spec(text);
        for after in [NaiveDateTime::MIN, NaiveDateTime::MAX] {
            let next = spec.next_naive(after).expect("the engine works");
            assert_eq!(next.is_some(), after == NaiveDateTime::MIN, "{text} after {after}");
        }
    }
}

//! The known faults of the pinned saffron release, each beside our result.
//!
//! A failure on saffron's side means that upstream changed; `engine` can then be simplified.

use std::panic::catch_unwind;

use chrono::{DateTime, NaiveDateTime, Utc};
use saffron::{
    Cron,
    parse::{CronExpr, English},
};

use super::CronSpec;

fn at(text: &str) -> NaiveDateTime {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M").expect("a local time")
}

/// `None` if it panics.
fn saffron(text: &str, after: &str) -> Option<Option<NaiveDateTime>> {
    let (text, after): (_, DateTime<Utc>) = (text.to_owned(), at(after).and_utc());
    let answer = catch_unwind(move || text.parse::<Cron>().expect("saffron accepts it").next_after(after));
    answer.ok().map(|next| next.map(|next| next.naive_utc()))
}

fn ours(text: &str, after: &str) -> Option<NaiveDateTime> {
    let spec = CronSpec::parse(text).unwrap_or_else(|error| panic!("`{text}` is refused: {error}"));
    spec.next_naive(at(after)).expect("the engine works")
}

#[test]
fn fault_1_a_wrapping_range_also_matches_the_value_before_it() {
    for (text, after, wrong, right) in [
        ("0 0 * * FRI-SUN", "2026-03-02T00:00", "2026-03-05T00:00", "2026-03-06T00:00"),
        ("0 0 * * SAT-SUN", "2026-03-02T00:00", "2026-03-06T00:00", "2026-03-07T00:00"),
        ("0 22-2 * * *", "2026-03-02T12:00", "2026-03-02T21:00", "2026-03-02T22:00"),
        ("50-10 0 * * *", "2026-03-02T00:30", "2026-03-02T00:49", "2026-03-02T00:50"),
        ("0 0 1 12-1 *", "2026-03-02T00:00", "2026-11-01T00:00", "2026-12-01T00:00"),
        ("0 0 29-2 * *", "2026-03-12T00:00", "2026-03-28T00:00", "2026-03-29T00:00"),
    ] {
        assert_eq!(saffron(text, after), Some(Some(at(wrong))), "{text}");
        assert_eq!(ours(text, after), Some(at(right)), "{text}");
    }
}

#[test]
fn fault_2_a_wrapping_step_in_the_month_panics() {
    for (text, right) in [("0 0 1 11-1/2 *", "2026-11-01T00:00"), ("0 0 1 10-2/3 *", "2026-10-01T00:00")] {
        assert_eq!(saffron(text, "2026-02-02T00:00"), None, "{text}");
        assert_eq!(ours(text, "2026-02-02T00:00"), Some(at(right)), "{text}");
    }
}

#[test]
fn fault_3_a_wrapping_step_loses_the_first_value() {
    // A panic with overflow checks, else silent.
    assert_ne!(saffron("0 0 30-3/2 * *", "2026-03-31T00:00"), Some(Some(at("2026-04-01T00:00"))));
    assert_eq!(ours("0 0 30-3/2 * *", "2026-03-31T00:00"), Some(at("2026-04-01T00:00")));
    // Friday and Sunday, 6 and 1 for saffron.
    assert_ne!(saffron("0 0 * * 6-2/2", "2026-03-06T00:00"), Some(Some(at("2026-03-08T00:00"))));
    assert_eq!(ours("0 0 * * 5-1/2", "2026-03-06T00:00"), Some(at("2026-03-08T00:00")));
}

#[test]
fn fault_4_a_star_in_a_list_is_the_least_value() {
    assert_eq!(saffron("5,* * * * *", "2026-03-02T12:10"), Some(Some(at("2026-03-02T13:00"))));
    assert_eq!(ours("5,* * * * *", "2026-03-02T12:10"), Some(at("2026-03-02T12:11")));
}

#[test]
fn fault_5_the_nearest_workday_before_the_last_day_contains_wrong_days() {
    // A Monday three days after the Friday that `L-4W` means.
    let cron: Cron = "0 0 L-4W * *".parse().expect("saffron accepts it");
    let contains = |text: &str| catch_unwind(|| cron.contains(at(text).and_utc()));
    let wrong = (1..=31).any(|day| {
        let text = format!("2026-03-{day:02}T00:00");
        contains(&text).ok() != Some(saffron("0 0 L-4W * *", "2026-03-01T00:00") == Some(Some(at(&text))))
    });
    assert!(wrong, "`contains` and `next_after` agree about L-4W");
    assert_eq!(CronSpec::parse("0 0 L-4W * *").expect_err("L-nW").field(), "day");
}

#[test]
fn fault_6_the_nearest_workday_to_a_day_that_a_month_lacks() {
    // The imaginary 31 April 2027 and 30 February 2036 are Saturdays.
    assert_eq!(saffron("0 0 31W 4 *", "2026-01-01T00:00"), Some(Some(at("2027-04-30T00:00"))));
    assert_eq!(CronSpec::parse("0 0 31W 4 *").expect_err("no 31 April").field(), "expression");
    assert_eq!(saffron("0 0 30W 2 *", "2026-01-01T00:00"), Some(Some(at("2036-02-29T00:00"))));
    assert_eq!(CronSpec::parse("0 0 30W 2 *").expect_err("no 30 February").field(), "expression");
    assert_eq!(saffron("0 0 29W 2 *", "2030-01-01T00:00"), Some(Some(at("2031-02-28T00:00"))));
    assert_eq!(ours("0 0 29W 2 *", "2030-01-01T00:00"), Some(at("2032-02-27T00:00")));
}

#[test]
fn fault_7_endless_search_is_never_started() {
    let cron: Cron = "0 0 31W 2 *".parse().expect("saffron accepts it");
    assert!(cron.any(), "saffron knows that 31W never falls in February");
    let error = CronSpec::parse("0 0 31W 2 *").expect_err("no 31 February");
    assert!(error.message().contains("never fires"), "{error}");
}

#[test]
fn fault_8_next_from_goes_back_within_a_minute() {
    let cron: Cron = "* * * * *".parse().expect("saffron accepts it");
    let half_past = at("2026-03-02T12:00").and_utc() + chrono::TimeDelta::seconds(30);
    assert_eq!(cron.next_from(half_past), Some(at("2026-03-02T12:00").and_utc()));
    let spec = CronSpec::parse("* * * * *").expect("a spec");
    assert_eq!(spec.next_naive(half_past.naive_utc()), Ok(Some(at("2026-03-02T12:01"))));
}

#[test]
fn fault_9_the_description_of_a_union_says_and() {
    let expression: CronExpr = "0 0 13 * FRI".parse().expect("saffron accepts it");
    let words = expression.describe(English::default()).to_string();
    assert!(words.contains("and on Friday"), "{words}");
}

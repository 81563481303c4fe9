//! Any text, read as a cron expression and asked for its next times.
//!
//! If there is a line break, what `H` stands for is computed from the first line, and the rest is the expression.
//!
//! A refusal must name a field and say something fit for one line. What is accepted must print and read back as itself,
//! have a sentence, and name times that are later than the question, on whole minutes or seconds, and those that a slow and
//! independent reading of the expression finds, with none left out in between. A panic is a finding wherever it starts:
//! libFuzzer ends the process in the panic hook, before the guard around the engine could turn it into an error. For
//! the same reason an error of the kind `Engine` is a finding.

#![no_main]

mod reading;
#[path = "../../crates/timetable/src/tests/reference.rs"]
mod reference;

use chrono::{Datelike, NaiveDate, NaiveDateTime, TimeDelta, Timelike};
use libfuzzer_sys::fuzz_target;
use sched_timetable::{CronOptions, CronSpec, ScheduleError, cron::MAX_EXPRESSION_LENGTH};

use self::{reading::slowly, reference::Reference};

/// What errors about an expression may be about.
const FIELDS: [&str; 7] = ["expression", "second", "minute", "hour", "day", "month", "day_of_week"];

/// How many times are asked for from each instant.
const CHAIN: usize = 3;

/// How far the slow reading looks. A time further away is only checked to be one.
const NEAR_DAYS: u64 = 40;

/// From here on an expression may have no time left: forty years, and some, before the end of the year 9999.
const LAST_CERTAIN_YEAR: i32 = 9950;

fuzz_target!(|text: &str| {
    let (hash_key, text) = text.split_once('\n').unwrap_or(("", text));
    for seconds in [false, true] {
        let options = CronOptions { hash_key, seconds };
        match CronSpec::parse_with(text, &options) {
            Err(error) => refused(&error),
            Ok(spec) => accepted(&spec, text, &options),
        }
    }
});

fn refused(error: &ScheduleError) {
    assert!(!matches!(error, ScheduleError::Engine { .. }), "the engine is at fault: {error}");
    assert!(FIELDS.contains(&error.field()), "{:?} is no field", error.field());
    assert!(!error.message().is_empty() && !error.message().contains(char::is_control), "{error:?}");
    assert!(error.message().len() < 1000, "{} bytes of message", error.message().len());
}

fn accepted(spec: &CronSpec, text: &str, options: &CronOptions<'_>) {
    let printed = spec.canonical();
    assert!(printed.is_ascii() && printed.len() <= MAX_EXPRESSION_LENGTH, "{printed}");
    let again = CronSpec::parse_with(printed, options)
        .unwrap_or_else(|error| panic!("`{printed}` is refused: {error}"));
    assert_eq!(again.canonical(), printed, "the normal form has another normal form");
    assert_eq!((&again, again.wildcard_time()), (spec, spec.wildcard_time()));
    let sentence = spec.sentence();
    assert!(sentence.ends_with('.') && !sentence.contains(char::is_control), "{sentence:?}");
    assert_eq!(again.sentence(), sentence);

    // A nickname is spelled out in the normal form only; all other text is read by both.
    let nickname = text.trim_start().starts_with('@');
    let reference = slowly(if nickname { printed } else { text }, options.hash_key);
    let laws = Laws { spec, reference: &reference, seconds: options.seconds };
    for start in starts() {
        let mut after = start;
        for _ in 0..CHAIN {
            let next = asked(spec, after);
            assert_eq!(asked(&again, after), next, "`{printed}` after {after}, printed and read back");
            let Some(next) = next else {
                assert!(after.year() > LAST_CERTAIN_YEAR, "`{printed}` ends after {after}");
                break;
            };
            laws.hold(after, next);
            after = next;
        }
    }
}

fn asked(spec: &CronSpec, after: NaiveDateTime) -> Option<NaiveDateTime> {
    spec.next_naive(after).unwrap_or_else(|error| panic!("`{spec}` after {after}: {error}"))
}

/// The laws of the answers of one expression.
struct Laws<'a> {
    spec: &'a CronSpec,
    reference: &'a Reference,
    /// Whether the expression may have a field for seconds.
    seconds: bool,
}

impl Laws<'_> {
    /// The time after `after` is `next`.
    fn hold(&self, after: NaiveDateTime, next: NaiveDateTime) {
        let Self { spec, reference, seconds } = *self;
        assert!(next > after, "`{spec}` goes back from {after} to {next}");
        assert!(
            next.nanosecond() == 0 && (seconds || next.second() == 0),
            "`{spec}` after {after} names {next}"
        );
        assert!(reference.matches(next), "`{spec}` after {after} names {next}, which does not match");
        // Asked again on the way, it must not have passed over a time nor change its mind.
        for between in [next - TimeDelta::microseconds(1), after + (next - after) / 2] {
            assert_eq!(
                asked(spec, between),
                Some(next),
                "`{spec}` after {between}, asked on the way from {after}"
            );
        }
        if (1..LAST_CERTAIN_YEAR).contains(&after.year()) {
            let first = reference.next_after(after, NEAR_DAYS);
            let near = next.date() <= after.date() + chrono::Days::new(NEAR_DAYS);
            assert_eq!(first, near.then_some(next), "`{spec}` after {after} within {NEAR_DAYS} days");
        }
    }
}

/// An ordinary day, the eve of the longest gap there is (leap days on one weekday across 2100), turns of years,
/// fractions of a minute, and the ends of every calendar involved.
fn starts() -> [NaiveDateTime; 8] {
    let at = |year, month, day, hour, minute, second, micro| {
        NaiveDate::from_ymd_opt(year, month, day)
            .and_then(|date| date.and_hms_micro_opt(hour, minute, second, micro))
            .expect("a date that exists")
    };
    [
        at(2026, 3, 2, 11, 59, 30, 0),
        at(2072, 2, 29, 23, 58, 59, 999_999),
        at(1999, 12, 31, 23, 59, 59, 999_999),
        at(2027, 12, 31, 23, 59, 0, 0),
        at(0, 12, 31, 23, 59, 59, 0),
        at(9999, 11, 30, 23, 59, 59, 0),
        NaiveDateTime::MIN,
        NaiveDateTime::MAX,
    ]
}

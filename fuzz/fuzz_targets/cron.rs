//! Any text as a cron expression. If the text has a line break, the first line is the key of `H`.
//!
//! A rejection must name a field in one line. An accepted expression must print, read back as
//! itself and have a sentence. Its times must be later than the start, on whole minutes or seconds,
//! and equal those of a slow independent reading. A panic is a finding anywhere: libFuzzer ends the
//! process in the panic hook, before the engine's guard could return an error. So an error of the
//! kind `Engine` is one too.

#![no_main]

mod reading;
#[path = "../../crates/timetable/src/tests/reference.rs"]
mod reference;

use chrono::{Datelike, NaiveDate, NaiveDateTime, TimeDelta, Timelike};
use libfuzzer_sys::fuzz_target;
use sched_timetable::{CronOptions, CronSpec, DayMatch, ScheduleError, cron::MAX_EXPRESSION_LENGTH};

use self::{reading::slowly, reference::Reference};

/// Fields that an error may name.
const FIELDS: [&str; 7] = ["expression", "second", "minute", "hour", "day", "month", "day_of_week"];

/// Number of times from each instant.
const CHAIN: usize = 3;

/// Limit of the slow reading. Later times are only checked for membership.
const NEAR_DAYS: u64 = 40;

/// From this year on, an expression may have no time left: about forty years before the end of the
/// year 9999.
const LAST_CERTAIN_YEAR: i32 = 9950;

fuzz_target!(|text: &str| {
    let (hash_key, text) = text.split_once('\n').unwrap_or(("", text));
    for seconds in [false, true] {
        for day_match in [None, Some(DayMatch::Either), Some(DayMatch::Both)] {
            let options = CronOptions { hash_key, seconds, day_match };
            match CronSpec::parse_with(text, &options) {
                Err(error) => refused(&error),
                Ok(spec) => accepted(&spec, text, &options),
            }
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

    // Only the normal form spells out a nickname.
    let nickname = text.trim_start().starts_with('@');
    let reference = slowly(if nickname { printed } else { text }, options);
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

struct Laws<'a> {
    spec: &'a CronSpec,
    reference: &'a Reference,
    seconds: bool,
}

impl Laws<'_> {
    fn hold(&self, after: NaiveDateTime, next: NaiveDateTime) {
        let Self { spec, reference, seconds } = *self;
        assert!(next > after, "`{spec}` goes back from {after} to {next}");
        assert!(
            next.nanosecond() == 0 && (seconds || next.second() == 0),
            "`{spec}` after {after} names {next}"
        );
        assert!(reference.matches(next), "`{spec}` after {after} names {next}, which does not match");
        // From any instant in between, the next time is the same.
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

/// An ordinary day, the eve of the longest gap (leap days on one weekday across 2100), turns of
/// years, fractions of a minute, and the ends of every calendar.
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

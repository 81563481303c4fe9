//! The expansion of an `RRULE` into its occurrences, with the rrule crate.
//!
//! The only module that uses rrule. It passes a rule that `frequency` has checked, and local times
//! labelled as UTC. So the crate's own zone tables (frozen at an old release) and the host's zone
//! are never used. It avoids the crate's parser of whole sets, which reads times without a zone in
//! the host's zone.
//!
//! For a rule without a match, the crate searches for tens of milliseconds. The caller rejects such
//! a rule, so a definition pays for at most one. A panic, or an occurrence out of order, becomes an
//! error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use chrono::{DateTime, NaiveDateTime, TimeZone as _};
use rrule::{RRule, RRuleError, RRuleSet, Tz, Unvalidated};

use super::super::error::{QuotedText, ScheduleError};

pub(super) const MAX_OCCURRENCES: usize = 10_000;

/// Ascending, from `start` to `last`; one more than allowed if there are too many.
pub(super) fn expand(
    field: &str,
    start: NaiveDateTime,
    rule: &str,
    last: NaiveDateTime,
) -> Result<Vec<NaiveDateTime>, ScheduleError> {
    if last < start {
        return Ok(Vec::new());
    }
    // No state outlives a panic.
    let answer = catch_unwind(AssertUnwindSafe(|| occurrences(start, rule, last)));
    let fault = |what: &str| {
        ScheduleError::invalid(field, format!("cannot be expanded: {what} at RRULE {}", QuotedText(rule)))
    };
    match answer {
        Ok(Ok(times)) if times.is_sorted() && times.first().is_none_or(|first| *first >= start) => Ok(times),
        Ok(Ok(_)) => Err(fault("the engine went back in time")),
        Ok(Err(error)) => Err(fault(&error.to_string())),
        Err(_panic) => Err(fault("the engine panicked")),
    }
}

fn occurrences(
    start: NaiveDateTime,
    rule: &str,
    last: NaiveDateTime,
) -> Result<Vec<NaiveDateTime>, RRuleError> {
    let start = dressed(start);
    let rule: RRule<Unvalidated> = rule.parse()?;
    let set = RRuleSet::new(start).rrule(rule.until(dressed(last)).validate(start)?).limit();
    let times = set.into_iter().map(|at| at.naive_utc()).take_while(|at| *at <= last);
    Ok(times.take(MAX_OCCURRENCES + 1).collect())
}

fn dressed(local: NaiveDateTime) -> DateTime<Tz> {
    Tz::UTC.from_utc_datetime(&local)
}

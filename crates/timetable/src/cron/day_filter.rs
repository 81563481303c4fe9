//! Whether a date matches one of the day fields, without the engine.
//!
//! The engine finds the dates of one day field; a filter drops those that the other field excludes.
//! A filter sees of a date only its day, its weekday and the length of its month.

use chrono::{Datelike as _, NaiveDate, Weekday};

use super::{field::Field, special_day::Special, values::ValueSet};

#[derive(Clone)]
pub(super) enum DayFilter {
    /// Weekdays count from Sunday = 0.
    Weekdays(ValueSet),
    /// Days of the month and special days.
    Days(ValueSet, Vec<Special>),
}

impl DayFilter {
    pub(super) fn days(field: &Field) -> Self {
        Self::Days(field.values, field.specials.clone())
    }

    pub(super) fn matches(&self, date: NaiveDate) -> bool {
        match self {
            Self::Weekdays(weekdays) => weekdays.contains(weekday(date)),
            Self::Days(days, specials) => {
                days.contains(day(date)) || specials.iter().any(|special| is_special(*special, date))
            }
        }
    }
}

fn is_special(special: Special, date: NaiveDate) -> bool {
    let (today, length) = (day(date), length(date));
    match special {
        Special::LastDay(before) => today + before == length,
        Special::LastWorkday => nearest_workday(date, length) == Some(today),
        Special::NearestWorkday(target) => nearest_workday(date, target) == Some(today),
        Special::NthWeekday(named, nth) => weekday(date) == named && (today - 1) / 7 + 1 == nth,
        Special::LastWeekday(named) => weekday(date) == named && today + 7 > length,
    }
}

/// In the month of `date`; `None` if that has no day `target`.
fn nearest_workday(date: NaiveDate, target: u8) -> Option<u8> {
    let last = length(date);
    let named = date.with_day(target.into())?;
    Some(match named.weekday() {
        Weekday::Sat if target == 1 => 3,
        Weekday::Sat => target - 1,
        Weekday::Sun if target == last => target - 2,
        Weekday::Sun => target + 1,
        _ => target,
    })
}

// Days and weekdays are below 256.
fn day(date: NaiveDate) -> u8 {
    u8::try_from(date.day()).unwrap_or_default()
}

fn weekday(date: NaiveDate) -> u8 {
    u8::try_from(date.weekday().num_days_from_sunday()).unwrap_or_default()
}

fn length(date: NaiveDate) -> u8 {
    date.num_days_in_month()
}

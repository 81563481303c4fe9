//! The notation of dates, times and durations in a calendar.
//!
//! Two notations: the definition's own (`2026-12-24`, `18:00`) and RFC 5545 (`20261224T180000`,
//! `PT2H`). Only exact shapes are accepted, so that a text never has an unexpected meaning. All
//! times are local. Pure.

use chrono::{Datelike as _, NaiveDate, NaiveDateTime, TimeDelta, Weekday};

use super::{
    super::error::{QuotedText, ScheduleError},
    weekly::DAY,
    yearly::MonthDay,
};

const LAST_YEAR: i32 = 9999;

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("MON", Weekday::Mon),
    ("TUE", Weekday::Tue),
    ("WED", Weekday::Wed),
    ("THU", Weekday::Thu),
    ("FRI", Weekday::Fri),
    ("SAT", Weekday::Sat),
    ("SUN", Weekday::Sun),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// `20261224`.
    Day(NaiveDate),
    /// `20261224T180000`.
    Local(NaiveDateTime),
    /// `20261224T180000Z`.
    Utc(NaiveDateTime),
}

/// The message for a time with a zone.
pub(super) fn no_zone(name: &str, text: &str) -> String {
    format!(
        "{name} has {}; write local times without `Z` and TZID, and set the calendar's `timezone`",
        QuotedText(text)
    )
}

/// A digit where `example` has one, elsewhere the same character.
fn shaped(text: &str, example: &str) -> bool {
    text.len() == example.len()
        && text.bytes().zip(example.bytes()).all(|(byte, example)| {
            if example.is_ascii_digit() { byte.is_ascii_digit() } else { byte == example }
        })
}

fn date(text: &str) -> Option<NaiveDate> {
    let date = shaped(text, "2026-12-24").then(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok())?;
    date.filter(|date| (1..=LAST_YEAR).contains(&date.year()))
}

/// `2026-12-24` or `2026-12-27/2026-12-30`.
pub(super) fn days(field: &str, text: &str) -> Result<(NaiveDate, NaiveDate), ScheduleError> {
    let (first, last) = text.split_once('/').unwrap_or((text, text));
    let (Some(first), Some(last)) = (date(first), date(last)) else {
        return Err(ScheduleError::invalid(
            field,
            format!(
                "{} is not a date; write a day that exists such as `2026-12-24`, or the first and the last day of \
                 several such as `2026-12-27/2026-12-30`",
                QuotedText(text)
            ),
        ));
    };
    if last < first {
        return Err(ScheduleError::invalid(field, format!("{} ends before it begins", QuotedText(text))));
    }
    Ok((first, last))
}

/// `12-25` or `12-24/01-02`.
pub(super) fn month_days(field: &str, text: &str) -> Result<(MonthDay, MonthDay), ScheduleError> {
    let month_day = |text: &str| {
        let (month, day) = shaped(text, "12-25").then(|| text.split_once('-')).flatten()?;
        MonthDay::new(month.parse().ok()?, day.parse().ok()?)
    };
    let (first, last) = text.split_once('/').unwrap_or((text, text));
    month_day(first).zip(month_day(last)).ok_or_else(|| {
        ScheduleError::invalid(
            field,
            format!(
                "{} is not a day of the year; write month and day such as `12-25`, or the first and the last day of \
                 several such as `12-24/01-02`",
                QuotedText(text)
            ),
        )
    })
}

pub(super) fn weekday(field: &str, text: &str) -> Result<Weekday, ScheduleError> {
    let found = WEEKDAYS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, day)| *day).ok_or_else(|| {
        let names: Vec<&str> = WEEKDAYS.iter().map(|(name, _)| *name).collect();
        ScheduleError::invalid(
            field,
            format!("{} is not a day of the week; use {}", QuotedText(text), names.join(", ")),
        )
    })
}

/// In seconds from midnight; `24:00` is the end of the day.
pub(super) fn clock(field: &str, text: &str) -> Result<u32, ScheduleError> {
    let seconds = || {
        let text = if shaped(text, "18:00") { format!("{text}:00") } else { text.to_owned() };
        if !shaped(&text, "18:00:00") {
            return None;
        }
        let mut parts = text.split(':').map(|part| part.parse::<u32>().ok());
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
        let seconds = hour * 3600 + minute * 60 + second;
        (minute < 60 && second < 60 && seconds <= DAY).then_some(seconds)
    };
    seconds().ok_or_else(|| {
        ScheduleError::invalid(
            field,
            format!(
                "{} is not a time of day; write it from `00:00` to `24:00`, such as `18:30`",
                QuotedText(text)
            ),
        )
    })
}

/// `2026-12-23T18:00:00`; the seconds are optional.
pub(super) fn local_time(field: &str, text: &str) -> Result<NaiveDateTime, ScheduleError> {
    let time = || {
        let text = if shaped(text, "2026-12-23T18:00") { format!("{text}:00") } else { text.to_owned() };
        let (day, time) = text.split_once('T')?;
        if !shaped(time, "18:00:00") {
            return None;
        }
        date(day)?.and_time(chrono::NaiveTime::parse_from_str(time, "%H:%M:%S").ok()?).into()
    };
    time().filter(no_leap_second).ok_or_else(|| {
        ScheduleError::invalid(
            field,
            format!(
                "{} is not a local time; write it without an offset, such as `2026-12-23T18:00:00`: the zone is the \
                 calendar's `timezone`, or else each job's own",
                QuotedText(text)
            ),
        )
    })
}

/// Chrono reads `:60` as a leap second.
fn no_leap_second(time: &NaiveDateTime) -> bool {
    time.and_utc().timestamp_subsec_nanos() < 1_000_000_000
}

pub(super) fn moment(text: &str) -> Option<Moment> {
    let day = |text: &str| {
        let day = shaped(text, "20261224").then(|| NaiveDate::parse_from_str(text, "%Y%m%d").ok())?;
        day.filter(|day| (1..=LAST_YEAR).contains(&day.year()))
    };
    let Some((date, time)) = text.split_once('T') else { return day(text).map(Moment::Day) };
    let (time, utc) = time.strip_suffix('Z').map_or((time, false), |time| (time, true));
    if !shaped(time, "180000") {
        return None;
    }
    let at = day(date)?.and_time(chrono::NaiveTime::parse_from_str(time, "%H%M%S").ok()?);
    let at = Some(at).filter(no_leap_second)?;
    Some(if utc { Moment::Utc(at) } else { Moment::Local(at) })
}

/// The longest duration of an occurrence: a leap year.
const LONGEST: TimeDelta = TimeDelta::days(366);

/// RFC 5545: `P1D`, `PT2H30M`, `P1DT12H`, `P2W`.
pub(super) fn length(field: &str, text: &str) -> Result<TimeDelta, ScheduleError> {
    let seconds = parse_length(text).and_then(|seconds| i64::try_from(seconds).ok());
    let length = seconds.and_then(TimeDelta::try_seconds);
    length.filter(|length| TimeDelta::zero() < *length && *length <= LONGEST).ok_or_else(|| {
        ScheduleError::invalid(
            field,
            format!(
                "{} is not a duration from a second to {} days; write it such as `PT2H`, `P1D` or `P1DT12H30M`",
                QuotedText(text),
                LONGEST.num_days()
            ),
        )
    })
}

fn parse_length(text: &str) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text).strip_prefix('P')?;
    let (days, times) = text.split_once('T').map_or((text, None), |(days, times)| (days, Some(times)));
    let days = sum(days, &[('W', 7 * u64::from(DAY)), ('D', DAY.into())])?;
    let times = match times {
        Some("") => return None,
        Some(times) => sum(times, &[('H', 3600), ('M', 60), ('S', 1)])?,
        None => 0,
    };
    days.checked_add(times)
}

/// Each unit once at most, and in this order.
fn sum(mut text: &str, units: &[(char, u64)]) -> Option<u64> {
    let mut total = 0_u64;
    for (unit, seconds) in units {
        if let Some((number, rest)) = text.split_once(*unit) {
            if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*seconds)?)?;
            text = rest;
        }
    }
    text.is_empty().then_some(total)
}

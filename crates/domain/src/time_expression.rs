//! Instants as people write them: in RFC 3339, on the clock of a zone, or as a distance from now.
//!
//! A query about the past accepts a nearby instant ([`moment`]). A future action needs exactly one
//! instant ([`exact`]). Pure.

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeDelta, Utc};

use sched_timetable::Zone;

const FORMATS: [&str; 4] = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    At(DateTime<Utc>),
    Distance(TimeDelta),
    OnClock(NaiveDateTime),
}

impl Moment {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(distance) = text.strip_prefix('-') {
            return length(distance).map(|length| Self::Distance(-length));
        }
        if let Some(distance) = text.strip_prefix('+') {
            return length(distance).map(Self::Distance);
        }
        let at = DateTime::parse_from_rfc3339(text).map(|at| Self::At(at.to_utc()));
        at.ok().or_else(|| local(text).map(Self::OnClock))
    }
}

/// An instant nearby for a time that clocks show twice or not at all. The error names the accepted
/// forms.
pub fn moment(text: &str, now: DateTime<Utc>, timezone: &str) -> Result<DateTime<Utc>, String> {
    let found = Moment::parse(text).and_then(|moment| match moment {
        Moment::At(at) => Some(at),
        Moment::Distance(distance) => now.checked_add_signed(distance),
        Moment::OnClock(local) => Some(nearby(local, timezone)),
    });
    found.filter(|at| (1..=9999).contains(&at.year())).ok_or_else(|| {
        "is not a valid time; use RFC 3339 such as `2026-11-21T10:00:00Z`, a time such as `2026-11-21 10:00` on the clock of the job's zone \
         (UTC where it is about no one job), or a distance from now such as `-2h` or `+90min` (s, min, h, d, w; in an address `+` is `%2B`)"
            .to_owned()
    })
}

/// The only instant at which the clocks of a zone show `local`; otherwise the error names the
/// alternatives.
pub fn exact(local: NaiveDateTime, zone: &Zone) -> Result<DateTime<Utc>, String> {
    let guess = local.and_utc();
    // No zone is more than a day from UTC, and none changes its offset twice within two days.
    let around = [-1, 1].map(|days| guess.checked_add_signed(TimeDelta::days(days)).unwrap_or(guess));
    let offsets: BTreeSet<TimeDelta> = around.iter().map(|at| zone.offset_at(*at)).collect();
    let instants = offsets
        .iter()
        .filter_map(|offset| guess.checked_sub_signed(*offset).filter(|at| zone.offset_at(*at) == *offset));
    let instants: BTreeSet<DateTime<Utc>> = instants.collect();
    let utc = |at: &DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    match instants.iter().collect::<Vec<_>>().as_slice() {
        [at] => Ok(**at),
        [first, second, ..] => Err(format!(
            "occurs twice on the clock of {zone}; write which one is meant: `{}` or `{}`",
            utc(first),
            utc(second)
        )),
        [] => Err(format!(
            "is skipped by the clock of {zone}; write a time that it shows, or one with an offset"
        )),
    }
}

/// In the units of other durations, such as `90m` or `1d12h`.
fn length(text: &str) -> Option<TimeDelta> {
    let mut seconds = 0_i64;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let after = after.trim_start();
        let (unit, after) =
            after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let unit = match unit {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3600,
            "d" | "day" | "days" => 86_400,
            "w" | "week" | "weeks" => 604_800,
            _ => return None,
        };
        seconds = seconds.checked_add(digits.parse::<i64>().ok()?.checked_mul(unit)?)?;
        rest = after.trim_start();
    }
    TimeDelta::try_seconds(seconds).filter(|_| !text.trim().is_empty())
}

fn local(text: &str) -> Option<NaiveDateTime> {
    let mut formats = FORMATS.iter();
    let time = formats.find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    time.or_else(|| Some(NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_time(NaiveTime::MIN)))
}

fn nearby(local: NaiveDateTime, timezone: &str) -> DateTime<Utc> {
    // UTC replaces a zone whose table no longer exists.
    let zone = Zone::parse(timezone).unwrap_or_else(|_gone| Zone::utc());
    let guess = local.and_utc();
    let nearby = guess.checked_sub_signed(zone.offset_at(guess)).unwrap_or(guess);
    guess.checked_sub_signed(zone.offset_at(nearby)).unwrap_or(guess)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn instants_are_read_in_every_form() {
        let now = at("2026-11-21T12:00:00Z");
        for (text, expected) in [
            ("2026-11-21T10:00:00+01:00", "2026-11-21T09:00:00Z"),
            ("2026-11-21 10:00", "2026-11-21T09:00:00Z"),
            ("2026-07-01T10:00:30", "2026-07-01T08:00:30Z"),
            ("2026-07-01", "2026-06-30T22:00:00Z"),
            (" -2h", "2026-11-21T10:00:00Z"),
            ("-1d12h", "2026-11-20T00:00:00Z"),
            ("+90m", "2026-11-21T13:30:00Z"),
            ("-1w 30s", "2026-11-14T11:59:30Z"),
            ("-5min", "2026-11-21T11:55:00Z"),
            ("-1 day 2 hours", "2026-11-20T10:00:00Z"),
        ] {
            assert_eq!(moment(text, now, "Europe/Berlin"), Ok(at(expected)), "{text}");
        }
    }

    #[test]
    fn a_time_on_the_clock_is_one_instant_or_refused() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let exact = |text: &str| exact(local(text).unwrap(), &berlin);
        assert_eq!(exact("2026-11-21 10:00"), Ok(at("2026-11-21T09:00:00Z")));
        assert_eq!(exact("2026-07-01 10:00"), Ok(at("2026-07-01T08:00:00Z")));
        assert_eq!(exact("2026-03-29 03:00"), Ok(at("2026-03-29T01:00:00Z")));
        let twice = exact("2026-10-25 02:30").unwrap_err();
        assert!(twice.contains("`2026-10-25T00:30:00Z` or `2026-10-25T01:30:00Z`"), "{twice}");
        assert!(exact("2026-03-29 02:30").unwrap_err().contains("is skipped by the clock of Europe/Berlin"));
    }

    #[test]
    fn invalid_instant_error_names_accepted_forms() {
        let now = at("2026-11-21T12:00:00Z");
        let endless = format!("-{}w", i64::MAX);
        for bad in
            ["", "yesterday", "2h", "-2", "-h", "+2y", "-", "2026-13-01", "10:00", &endless, "-9000000d"]
        {
            let message = moment(bad, now, "UTC").unwrap_err();
            assert!(message.contains("RFC 3339"), "{bad}: {message}");
        }
    }
}

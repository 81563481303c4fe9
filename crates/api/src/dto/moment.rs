//! Instants as people write them: in RFC 3339, on the clock of a zone, or as a distance from now.
//!
//! What "now" is, the caller says, from the database. Pure.

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};
use sched_model::domain::schedule::Zone;

use crate::error::ApiError;

/// How times on a clock may be written.
const FORMATS: [&str; 4] = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"];

/// The instant that a text names, or what is wrong with it. Of a time that clocks show twice, or not at all, an instant nearby.
pub(crate) fn moment(text: &str, now: DateTime<Utc>, timezone: &str) -> Result<DateTime<Utc>, String> {
    let text = text.trim();
    let found = match text.strip_prefix('-').or(text.strip_prefix('+')) {
        Some(distance) => {
            let distance = length(distance);
            let distance = if text.starts_with('-') { distance.map(|length| -length) } else { distance };
            distance.and_then(|distance| now.checked_add_signed(distance))
        }
        None => DateTime::parse_from_rfc3339(text)
            .map(|at| at.to_utc())
            .ok()
            .or_else(|| local(text).map(|local| on_clock(local, timezone))),
    };
    found.filter(|at| (1..=9999).contains(&at.year())).ok_or_else(|| {
        "is no instant; write RFC 3339 such as `2026-11-21T10:00:00Z`, a time such as `2026-11-21 10:00` on the clock of the job's zone \
         (UTC where it is about no one job), or a distance from now such as `-2h` or `+90min` (s, min, h, d, w; in an address `+` is `%2B`)"
            .to_owned()
    })
}

/// An instant that a parameter names, on the clock of UTC.
pub(crate) fn parameter(
    name: &str,
    text: Option<&str>,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, ApiError> {
    let at = text.map(|text| moment(text, now, "UTC")).transpose();
    at.map_err(|message| ApiError::parameter(name, message))
}

/// A length such as `90m` or `1d12h`, in the units that durations have elsewhere.
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

fn on_clock(local: NaiveDateTime, timezone: &str) -> DateTime<Utc> {
    // A job's zone has been checked; if its table is gone since, UTC is as good as anything.
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
    fn what_is_no_instant_is_answered_with_what_would_be_one() {
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

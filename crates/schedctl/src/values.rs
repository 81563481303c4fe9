//! Parsers of arguments. Errors report the expected form. Pure.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sched_model::domain::time_expression::{Moment, exact};
use sched_model::domain::timetable::Zone;
use uuid::Uuid;

pub(crate) fn id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_not_said| {
        "must be an id as the lists show it, such as `01936f0a-5a3c-7c11-9d0e-4b6f1f0e8a55`".to_owned()
    })
}

/// The caller checks the bounds.
pub(crate) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_not_said| match text.parse::<i128>() {
        Ok(_) => "is out of range".to_owned(),
        Err(_) => "must be a whole number".to_owned(),
    })
}

/// Both bounds included.
pub(crate) fn within<T: FromStr + PartialOrd + Display + Copy>(
    least: T,
    most: T,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("must be a whole number from {least} to {most}"))
    }
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "must be a whole number, 1 or more".to_owned())
}

pub(crate) fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    DateTime::parse_from_rfc3339(text).map(|at| at.to_utc()).map_err(|_not_said| {
        "is not an instant; write RFC 3339 with an offset, such as `2030-01-31T09:00:00Z`".to_owned()
    })
}

/// The caller resolves a distance from now.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text).ok_or_else(|| {
        "is not a valid time; use RFC 3339 such as `2030-01-31T09:00:00Z`, a time such as `2030-01-31 09:00` on the clock of the zone, or a \
         distance from now such as `+10m` or `+2h30m`"
            .to_owned()
    })
}

/// A wall-clock time requires a time zone.
pub(crate) fn instant_of(
    moment: Moment,
    zone: Option<&str>,
    now: DateTime<Utc>,
) -> Result<DateTime<Utc>, String> {
    match moment {
        Moment::At(at) => Ok(at),
        Moment::Distance(distance) => now
            .checked_add_signed(distance)
            .ok_or_else(|| "--at: is out of the range of the calendar".to_owned()),
        Moment::OnClock(local) => {
            let text = local.format("%Y-%m-%dT%H:%M:%S");
            let zone = zone.ok_or_else(|| {
                format!("--at: {text} has no time zone; add --timezone, or an offset, as in `{text}Z`")
            })?;
            let zone = Zone::parse(zone).map_err(|error| format!("--timezone: {}", error.message()))?;
            exact(local, &zone).map_err(|message| format!("--at: {text} {message}"))
        }
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_not_said| "must be a duration such as `90s`, `5min` or `1h 30m`".to_owned())
}

/// Whole seconds, at least 1.
pub(crate) fn seconds(text: &str) -> Result<i32, String> {
    let length = duration(text)?;
    let whole =
        i32::try_from(length.as_secs()).ok().filter(|seconds| *seconds > 0 && length.subsec_nanos() == 0);
    whole.ok_or_else(|| "must be a whole number of seconds, 1 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_somewhere_is_said_in_words() {
        let count = within(1_u16, 32);
        assert_eq!(
            (count("1"), count("32"), whole("-7"), at_least_one("2")),
            (Ok(1), Ok(32), Ok(-7_i16), Ok(2))
        );
        for (error, said) in [
            (count("33").unwrap_err(), "from 1 to 32"),
            (count("x").unwrap_err(), "from 1 to 32"),
            (at_least_one("0").unwrap_err(), "1 or more"),
            (whole::<i32>("x").unwrap_err(), "a whole number"),
            (whole::<i32>("1.5").unwrap_err(), "a whole number"),
            (whole::<i32>("9999999999").unwrap_err(), "out of range"),
            (id("nope").unwrap_err(), "must be an id"),
            (instant("tomorrow").unwrap_err(), "2030-01-31T09:00:00Z"),
            (duration("soon").unwrap_err(), "`5min`"),
            (seconds("soon").unwrap_err(), "`5min`"),
            (seconds("1500ms").unwrap_err(), "a whole number of seconds"),
            (seconds("100years").unwrap_err(), "a whole number of seconds"),
        ] {
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn an_instant_is_written_by_itself_on_a_clock_or_as_a_distance() {
        let now = instant("2026-11-21T12:00:00Z").unwrap();
        let of = |text: &str, zone| instant_of(moment(text).unwrap(), zone, now);
        for (text, zone, at) in [
            ("2026-11-21T10:00:00+01:00", None, "2026-11-21T09:00:00Z"),
            ("2026-11-21 10:00", Some("Europe/Berlin"), "2026-11-21T09:00:00Z"),
            ("2026-07-01T10:00", Some("Europe/Berlin"), "2026-07-01T08:00:00Z"),
            ("+10m", None, "2026-11-21T12:10:00Z"),
            ("+2h30m", Some("Europe/Berlin"), "2026-11-21T14:30:00Z"),
        ] {
            assert_eq!(of(text, zone), instant(at), "{text}");
        }
        for (text, zone, said) in [
            ("2026-11-21 10:00", None, "--timezone"),
            ("2026-11-21 10:00", Some("Mars/Base"), "--timezone: `Mars/Base` is not a time zone"),
            ("2026-10-25 02:30", Some("Europe/Berlin"), "occurs twice"),
            ("2026-03-29 02:30", Some("Europe/Berlin"), "is skipped"),
        ] {
            let error = of(text, zone).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(moment("tomorrow").unwrap_err().contains("`+10m`"));
    }

    #[test]
    fn instants_and_lengths_of_time_are_read() {
        assert_eq!(instant("2030-01-31T10:00:00+01:00"), instant("2030-01-31T09:00:00Z"));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(seconds("5min"), Ok(300));
    }
}

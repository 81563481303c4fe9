//! A schedule as one English sentence.
//!
//! On a 24-hour clock and in its own zone, which the sentence does not name. `cron::sentence`
//! describes a cron expression.

use chrono::{DateTime, Datelike as _, SecondsFormat, TimeDelta, Utc};

use super::{LAST_YEAR, Schedule, interval::Interval};

/// 90 minutes, not 1 hour and 30 minutes.
const PLAIN_LIMIT: i64 = 120;

const ELAPSED_UNITS: [(&str, i64); 3] = [("hour", 3600), ("minute", 60), ("second", 1)];
const CALENDAR_UNITS: [(&str, i64); 2] = [("week", 604_800), ("day", 86_400)];

pub fn describe(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Cron(cron) => cron.spec().sentence(),
        Schedule::Interval(interval) => describe_interval(interval),
        Schedule::OneOff(at) => format!("Once, at {}.", instant(*at)),
        Schedule::Manual => "Only when triggered.".to_owned(),
        Schedule::Union(members) => members.iter().map(describe).collect::<Vec<_>>().join(" Also: "),
    }
}

/// The anchor of a calendar period is shown on the clock of its zone.
fn describe_interval(interval: &Interval) -> String {
    let every = period(interval.period(), interval.is_calendar());
    let anchor = match interval.wall_clock() {
        // At the limits of the calendar, the local time may have no text form.
        Some(clock) if (0..=LAST_YEAR).contains(&interval.anchor().year()) => {
            super::preview::in_zone(interval.anchor(), &clock.zone)
                .to_rfc3339_opts(SecondsFormat::AutoSi, false)
        }
        _ => instant(interval.anchor()),
    };
    format!("Every {every}, counted from {anchor}.")
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// In the largest unit that measures it, or as a sum of units if that would be a large number.
fn period(period: TimeDelta, calendar: bool) -> String {
    let seconds = period.num_seconds();
    let units = if calendar { &CALENDAR_UNITS[..] } else { &ELAPSED_UNITS[..] };
    let measure = units.iter().find(|(_, length)| seconds % length == 0);
    if let Some((unit, length)) = measure {
        match seconds / length {
            1 => return (*unit).to_owned(),
            number if number <= PLAIN_LIMIT => return format!("{number} {unit}s"),
            _ => {}
        }
    }
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, length) in units {
        match rest / length {
            0 => {}
            1 => parts.push(format!("1 {unit}")),
            number => parts.push(format!("{number} {unit}s")),
        }
        rest %= length;
    }
    super::cron::enumeration(&parts, "and")
}

//! Calendars: the local times at which nothing may fire.
//!
//! A calendar is a definition in JSON: dates, days of the year, days and windows of the week,
//! single windows, and RFC 5545 rules; and exceptions, which are days without any exclusion. This
//! module decides whether a local time is excluded, until when, and where the next exclusion
//! begins. It does not decide about an excluded fire. It knows no zones: a definition may name a
//! zone, but callers pass that zone's local time. A day is the day of the local calendar, however
//! long daylight saving makes it.
//!
//! ```json
//! {
//!   "timezone": "Europe/Berlin",
//!   "dates":    ["2026-12-24", "2026-12-27/2026-12-30"],
//!   "yearly":   ["12-25", "12-24/01-02"],
//!   "weekly":   ["SAT", {"days": ["MON", "FRI"], "from": "22:00", "until": "04:30"}],
//!   "windows":  [{"from": "2026-12-23T18:00:00", "until": "2027-01-02T06:00:00"}],
//!   "rules":    ["DTSTART;VALUE=DATE:20261126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH",
//!                {"rule": "DTSTART:20260105T220000\nRRULE:FREQ=MONTHLY;BYDAY=1MO", "duration": "PT2H"}],
//!   "except":   ["2026-12-28"]
//! }
//! ```
//!
//! Ranges of days include their end, an `until` is excluded. Rules are expanded up to the end of
//! the year 2100; the other entries hold from the year 1 to 9999. Parsing is bounded in time and
//! memory and fails with the path of the wrong entry; after that nothing fails. Immutable and cheap
//! to clone.

mod definition;
mod description;
mod frequency;
mod import;
mod notation;
mod recurrence;
mod rule;
mod stretches;
#[cfg(test)]
mod tests;
mod weekly;
mod yearly;

use std::{fmt, sync::Arc};

use chrono::{Datelike as _, NaiveDate, NaiveDateTime};
use serde_json::Value;

use self::{
    definition::{DEFINITION, Definition},
    rule::Rule,
    stretches::{Stretch, Stretches, midnight},
    weekly::Weekly,
    yearly::Yearly,
};
use super::{LAST_YEAR, error::ScheduleError, zone::Zone};

pub use self::import::from_icalendar;

const FIRST_DAY: NaiveDate = match NaiveDate::from_ymd_opt(1, 1, 1) {
    Some(day) => day,
    None => panic!("chrono has the first day of the year 1"),
};

/// Equal when their definitions are.
#[derive(Clone)]
pub struct Calendar(Arc<Compiled>);

struct Compiled {
    definition: Value,
    zone: Option<Zone>,
    /// Dates, windows and occurrences of rules.
    fixed: Stretches,
    yearly: Yearly,
    weekly: Weekly,
    except: Stretches,
    description: Vec<String>,
}

impl Calendar {
    /// Errors have the path of the entry, such as `definition.weekly.1.from`.
    pub fn parse(definition: &Value) -> Result<Self, ScheduleError> {
        let parsed = Definition::parse(definition)?;
        let days = |(first, last): &(NaiveDate, NaiveDate)| Stretch::days(*first, *last);
        let dates = parsed.dates.iter().map(days);
        let rules = parsed.rules.iter().flat_map(Rule::stretches);
        let compiled = Compiled {
            definition: definition.clone(),
            fixed: Stretches::merged(dates.chain(parsed.windows.iter().copied()).chain(rules).collect()),
            yearly: Yearly::merged(&parsed.yearly),
            weekly: Weekly::merged(&parsed.weekly),
            except: Stretches::merged(parsed.except.iter().map(days).collect()),
            description: description::describe(&parsed),
            zone: parsed.zone,
        };
        // Every day of the year falls on every day of the week in some year. So only one list alone
        // can exclude everything.
        let list = if compiled.weekly.is_everything() {
            "weekly"
        } else if compiled.yearly.is_everything() {
            "yearly"
        } else {
            return Ok(Self(Arc::new(compiled)));
        };
        if parsed.except.is_empty() {
            return Err(ScheduleError::invalid(
                format!("{DEFINITION}.{list}"),
                "excludes every time, so that nothing would ever fire; leave some out, or give `except`",
            ));
        }
        Ok(Self(Arc::new(compiled)))
    }

    /// `None` means the zone of each job.
    pub fn zone(&self) -> Option<&Zone> {
        self.0.zone.as_ref()
    }

    /// The end of an excluded stretch that covers `local`; `None` if it is not excluded.
    ///
    /// Another entry may exclude the end itself.
    pub fn exclusion_at(&self, local: NaiveDateTime) -> Option<NaiveDateTime> {
        if !in_range(local) || self.0.except.covering(local).is_some() {
            return None;
        }
        let end = self.0.covering(local)?;
        Some(self.0.except.next_start(local).map_or(end, |except| end.min(except)))
    }

    /// The first excluded local time at or after `after`, up to the year 9999.
    pub fn next_exclusion(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        let mut at = after.max(midnight(FIRST_DAY));
        // At least every second iteration passes a stretch of `except`, so the loop ends.
        while in_range(at) {
            at = match (self.0.except.covering(at), self.0.covering(at)) {
                (Some(end), _) => end,
                (None, Some(_)) => return Some(at),
                (None, None) => self.0.next_start(at)?,
            };
        }
        None
    }

    pub fn describe(&self) -> Vec<String> {
        self.0.description.clone()
    }
}

impl Compiled {
    /// Without regard to `except`.
    fn covering(&self, at: NaiveDateTime) -> Option<NaiveDateTime> {
        self.fixed.covering(at).max(self.yearly.covering(at)).max(self.weekly.covering(at))
    }

    /// `after` is uncovered. Without regard to `except`.
    fn next_start(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        let starts =
            [self.fixed.next_start(after), self.yearly.next_start(after), self.weekly.next_start(after)];
        starts.into_iter().flatten().min()
    }
}

fn in_range(local: NaiveDateTime) -> bool {
    (FIRST_DAY.year()..=LAST_YEAR).contains(&local.year())
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.0.definition == other.0.definition
    }
}

impl Eq for Calendar {}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Calendar").field(&self.0.definition).finish()
    }
}

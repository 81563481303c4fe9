//! How long finished rows are kept: ages in days, and the cutoff instants.
//!
//! Instants are truncated to the hour. So a row that one run removed counts as removed for the next
//! runs. The retention record (see `sched_model::retention::retain`) is written once an hour. Pure.

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use sched_vocabulary::text_enum;

text_enum! {
    #[derive(Default)]
    pub enum HistoryExpiry {
        #[default]
        Drop = "drop",
        /// They stay in the schema `history_archive` until an operator archives and drops them.
        Detach = "detach",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Days for finished dispatches, skips, history and events.
    pub finished_days: u32,
    /// Days for dead letters, which an operator must review.
    pub dead_letter_days: u32,
    /// Days for the audit log and the terms of leadership.
    pub audit_days: u32,
}

/// Rows that ended before these instants may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cutoffs {
    pub finished: DateTime<Utc>,
    pub dead_letters: DateTime<Utc>,
    pub audit: DateTime<Utc>,
}

impl Retention {
    #[must_use]
    pub fn cutoffs(&self, now: DateTime<Utc>) -> Cutoffs {
        let before = |days: u32| whole_hour(now - TimeDelta::days(days.into()));
        Cutoffs {
            finished: before(self.finished_days),
            dead_letters: before(self.dead_letter_days),
            audit: before(self.audit_days),
        }
    }
}

/// The start of the hour of an instant; the instant itself at the limits of the calendar.
fn whole_hour(at: DateTime<Utc>) -> DateTime<Utc> {
    at.duration_trunc(TimeDelta::hours(1)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn cutoffs_are_whole_hours() {
        let retention = Retention { finished_days: 30, dead_letter_days: 90, audit_days: 365 };
        let cutoffs = retention.cutoffs(at("2026-11-21T10:59:59.999Z"));
        let expected = Cutoffs {
            finished: at("2026-10-22T10:00:00Z"),
            dead_letters: at("2026-08-23T10:00:00Z"),
            audit: at("2025-11-21T10:00:00Z"),
        };
        assert_eq!(cutoffs, expected);
        assert_eq!(retention.cutoffs(at("2026-11-21T10:00:00Z")), expected, "the same for a whole hour");
        assert!(retention.cutoffs(at("2026-11-21T11:00:00Z")).finished > expected.finished);
    }

    #[test]
    fn nothing_is_removed_before_its_age() {
        let retention = Retention { finished_days: 1, dead_letter_days: 1, audit_days: 1 };
        for minutes in 0..180 {
            let now = at("2026-03-29T00:30:00Z") + TimeDelta::minutes(minutes);
            assert!(now - retention.cutoffs(now).finished >= TimeDelta::days(1));
        }
    }
}

//! Stretches of local time with a fixed beginning and end, for one binary search per query.
//!
//! Merges dates, windows and expanded rules into a sorted list of disjoint stretches.

use chrono::{Days, NaiveDate, NaiveDateTime, NaiveTime};

/// `until` is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stretch {
    pub(super) from: NaiveDateTime,
    pub(super) until: NaiveDateTime,
}

impl Stretch {
    /// The last included.
    pub(super) fn days(first: NaiveDate, last: NaiveDate) -> Self {
        Self { from: midnight(first), until: midnight(day_after(last)) }
    }
}

pub(super) fn midnight(day: NaiveDate) -> NaiveDateTime {
    day.and_time(NaiveTime::MIN)
}

/// Saturates at the end of chrono's calendar.
pub(super) fn day_after(day: NaiveDate) -> NaiveDate {
    day.checked_add_days(Days::new(1)).unwrap_or(day)
}

/// Ascending; stretches that overlap or touch are one.
#[derive(Debug, Default)]
pub(super) struct Stretches(Vec<Stretch>);

impl Stretches {
    pub(super) fn merged(mut stretches: Vec<Stretch>) -> Self {
        stretches.sort_unstable();
        let mut merged: Vec<Stretch> = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            match merged.last_mut() {
                Some(last) if stretch.from <= last.until => last.until = last.until.max(stretch.until),
                _ => merged.push(stretch),
            }
        }
        merged.shrink_to_fit();
        Self(merged)
    }

    pub(super) fn covering(&self, at: NaiveDateTime) -> Option<NaiveDateTime> {
        let first_open = self.0.partition_point(|stretch| stretch.until <= at);
        self.0.get(first_open).filter(|stretch| stretch.from <= at).map(|stretch| stretch.until)
    }

    pub(super) fn next_start(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        self.0.get(self.0.partition_point(|stretch| stretch.from <= after)).map(|stretch| stretch.from)
    }
}

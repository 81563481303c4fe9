//! Stretches of local time with a fixed beginning and end, in a form for one binary search per
//! query.
//!
//! Merges the input into a sorted list of disjoint stretches. Dates, windows and expanded rules all
//! end up here. Immutable after `merged`; nothing can fail.

use chrono::{Days, NaiveDate, NaiveDateTime, NaiveTime};

/// Local times from `from`, up to but not including `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stretch {
    pub(super) from: NaiveDateTime,
    pub(super) until: NaiveDateTime,
}

impl Stretch {
    /// Whole days, the last included.
    pub(super) fn days(first: NaiveDate, last: NaiveDate) -> Self {
        Self { from: midnight(first), until: midnight(day_after(last)) }
    }
}

/// The beginning of a day.
pub(super) fn midnight(day: NaiveDate) -> NaiveDateTime {
    day.and_time(NaiveTime::MIN)
}

/// Saturates at the end of chrono's calendar, which is far behind the years a calendar can name.
pub(super) fn day_after(day: NaiveDate) -> NaiveDate {
    day.checked_add_days(Days::new(1)).unwrap_or(day)
}

/// Disjoint stretches in ascending order; ones that overlap or touch have become one.
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

    /// The end of the stretch that covers a time.
    pub(super) fn covering(&self, at: NaiveDateTime) -> Option<NaiveDateTime> {
        let first_open = self.0.partition_point(|stretch| stretch.until <= at);
        self.0.get(first_open).filter(|stretch| stretch.from <= at).map(|stretch| stretch.until)
    }

    /// The first beginning after a time.
    pub(super) fn next_start(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        self.0.get(self.0.partition_point(|stretch| stretch.from <= after)).map(|stretch| stretch.from)
    }
}

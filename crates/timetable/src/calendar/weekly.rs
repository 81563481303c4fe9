//! Weekly exclusions: a repeated pattern of seconds from Monday.
//!
//! Arithmetic, so the cost is the same in every year. A window that passes midnight on Sunday
//! reaches into the next Monday.

use chrono::{Datelike as _, Days, NaiveDateTime, TimeDelta, Timelike as _, Weekday};

use super::stretches::midnight;

pub(super) const DAY: u32 = 24 * 60 * 60;
const WEEK: u32 = 7 * DAY;

/// In seconds from midnight. A part whose end is not later than its start continues into the next
/// day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WeeklyEntry {
    pub(super) days: Vec<Weekday>,
    pub(super) from: u32,
    pub(super) until: u32,
}

/// Disjoint runs `(from, until)`, ascending, in seconds from the beginning of Monday.
#[derive(Debug, Default)]
pub(super) struct Weekly(Vec<(u32, u32)>);

impl Weekly {
    pub(super) fn merged(entries: &[WeeklyEntry]) -> Self {
        let mut runs = Vec::new();
        for entry in entries {
            let length = if entry.until > entry.from {
                entry.until - entry.from
            } else {
                (DAY + entry.until).saturating_sub(entry.from)
            };
            for day in &entry.days {
                let from = day.num_days_from_monday() * DAY + entry.from;
                let until = from + length;
                runs.push((from, until.min(WEEK)));
                if until > WEEK {
                    runs.push((0, until - WEEK));
                }
            }
        }
        runs.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(runs.len());
        for (from, until) in runs {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => merged.push((from, until)),
            }
        }
        Self(merged)
    }

    pub(super) fn is_everything(&self) -> bool {
        self.0 == [(0, WEEK)]
    }

    pub(super) fn covering(&self, at: NaiveDateTime) -> Option<NaiveDateTime> {
        let second = second_of_week(at);
        let first_open = self.0.partition_point(|run| run.1 <= second);
        let (_, until) = self.0.get(first_open).filter(|run| run.0 <= second)?;
        let until = match self.0.first() {
            // The run continues over the end of the week; a run of the whole week is returned week
            // by week.
            Some((0, monday)) if *until == WEEK => WEEK + monday,
            _ => *until,
        };
        time_of_week(at, until)
    }

    pub(super) fn next_start(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        let second = second_of_week(after);
        let this_week = self.0.get(self.0.partition_point(|run| run.0 <= second)).map(|run| run.0);
        let from = this_week.or_else(|| self.0.first().map(|run| WEEK + run.0))?;
        time_of_week(after, from)
    }
}

fn second_of_week(at: NaiveDateTime) -> u32 {
    at.weekday().num_days_from_monday() * DAY + at.num_seconds_from_midnight()
}

fn time_of_week(at: NaiveDateTime, seconds: u32) -> Option<NaiveDateTime> {
    let monday = at.date().checked_sub_days(Days::new(at.weekday().num_days_from_monday().into()))?;
    midnight(monday).checked_add_signed(TimeDelta::seconds(seconds.into()))
}

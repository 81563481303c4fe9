//! Yearly exclusions: days by month and day, in every year that has them.
//!
//! The days of a leap year are numbered from 0; the 29th of February has a number in every year.
//! Two tables give the next day in one step.

use chrono::{Datelike as _, NaiveDate, NaiveDateTime};

use super::stretches::midnight;

const DAYS: usize = 366;
const LEAP_DAY: u16 = 59;

/// The longest distance of leap years: from 1896 to 1904.
const YEARS_BETWEEN_LEAP_DAYS: i32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MonthDay {
    pub(super) month: u32,
    pub(super) day: u32,
    number: u16,
}

impl MonthDay {
    pub(super) fn new(month: u32, day: u32) -> Option<Self> {
        let date = NaiveDate::from_ymd_opt(2000, month, day)?;
        Some(Self { month, day, number: number(date) })
    }
}

#[derive(Debug)]
pub(super) struct Yearly {
    /// Per day, the first excluded day at or after it; `DAYS` if none follows.
    next_excluded: [u16; DAYS],
    /// For days that are not excluded.
    next_free: [u16; DAYS],
}

impl Yearly {
    /// The last day is included; a range that ends before it begins wraps at new year.
    pub(super) fn merged(ranges: &[(MonthDay, MonthDay)]) -> Self {
        let mut excluded = [false; DAYS];
        for (first, last) in ranges {
            for (day, excluded) in (0..).zip(&mut excluded) {
                *excluded |= if first.number <= last.number {
                    (first.number..=last.number).contains(&day)
                } else {
                    day >= first.number || day <= last.number
                };
            }
        }
        Self { next_excluded: next_table(&excluded, true), next_free: next_table(&excluded, false) }
    }

    pub(super) fn is_everything(&self) -> bool {
        self.next_free.first().is_none_or(|next| usize::from(*next) == DAYS)
    }

    pub(super) fn covering(&self, at: NaiveDateTime) -> Option<NaiveDateTime> {
        let today = number(at.date());
        if self.next_excluded.get(usize::from(today)) != Some(&today) {
            return None;
        }
        let end = match next(&self.next_free, at.date()) {
            Some(end) => end,
            // Every day is excluded; no entry reaches further.
            None => NaiveDate::from_ymd_opt(at.year() + 2, 1, 1)?,
        };
        Some(midnight(end))
    }

    pub(super) fn next_start(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        next(&self.next_excluded, after.date()).map(midnight)
    }
}

fn next_table(excluded: &[bool; DAYS], wanted: bool) -> [u16; DAYS] {
    let mut table = [0; DAYS];
    let mut next = DAYS as u16;
    for (day, (entry, excluded)) in (0..DAYS as u16).zip(table.iter_mut().zip(excluded)).rev() {
        if *excluded == wanted {
            next = day;
        }
        *entry = next;
    }
    table
}

fn next(table: &[u16; DAYS], from: NaiveDate) -> Option<NaiveDate> {
    let mut day = number(from);
    for year in from.year()..=from.year() + YEARS_BETWEEN_LEAP_DAYS {
        let mut found = table.get(usize::from(day)).copied()?;
        if found == LEAP_DAY && !leap(year) {
            found = table.get(usize::from(LEAP_DAY) + 1).copied()?;
        }
        if usize::from(found) < DAYS {
            let ordinal = if leap(year) || found < LEAP_DAY { found + 1 } else { found };
            return NaiveDate::from_yo_opt(year, ordinal.into());
        }
        day = 0;
    }
    None
}

/// In a leap year.
fn number(date: NaiveDate) -> u16 {
    // 365 at most.
    let ordinal = u16::try_from(date.ordinal0()).unwrap_or(0);
    if date.leap_year() || ordinal < LEAP_DAY { ordinal } else { ordinal + 1 }
}

fn leap(year: i32) -> bool {
    NaiveDate::from_yo_opt(year, 366).is_some()
}

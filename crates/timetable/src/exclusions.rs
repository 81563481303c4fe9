//! All calendars of a job together: the instants they exclude.
//!
//! A calendar has local times, in its own zone or else in the job's. This module converts them to
//! instants, one stretch of constant offset at a time, so that a clock change inside an excluded
//! time neither opens nor lengthens it. Cost per query: one lookup in the zone and one in each
//! calendar.

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};

use sched_vocabulary::schedule::{DstGap, DstOverlap};

use super::{Calendar, wall_clock::WallClock, zone::Zone};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exclusions {
    calendars: Vec<Calendar>,
    /// For calendars without a zone, and for days.
    clock: WallClock,
}

impl Exclusions {
    pub(super) fn new(calendars: Vec<Calendar>, zone: Zone) -> Self {
        let clock = WallClock { zone, gap: DstGap::Shift, overlap: DstOverlap::First };
        Self { calendars, clock }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calendars.is_empty()
    }

    /// If `at` is excluded, a later instant up to which every instant is excluded.
    pub(super) fn until(&self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let ends = self.calendars.iter().filter_map(|calendar| {
            let span = calendar.zone().unwrap_or(&self.clock.zone).span_at(at);
            let end =
                span.instant(calendar.exclusion_at(span.local(at))?).unwrap_or(DateTime::<Utc>::MAX_UTC);
            Some(span.end.map_or(end, |(change, _)| end.min(change)))
        });
        ends.max()
    }

    pub(super) fn touch(&self, day: NaiveDate) -> bool {
        let (from, until) = (self.start_of(day), self.end_of(day));
        // A day that clocks skip is not a free day: an exclusion that passes it continues.
        if from >= until {
            return true;
        }
        self.calendars.iter().any(|calendar| {
            let zone = calendar.zone().unwrap_or(&self.clock.zone);
            let mut at = from;
            while at < until {
                let span = zone.span_at(at);
                let end = span.end.map_or(until, |(change, _)| until.min(change));
                if calendar.next_exclusion(span.local(at)).is_some_and(|local| local < span.local(end)) {
                    return true;
                }
                at = end;
            }
            false
        })
    }

    pub(super) fn day_of(&self, at: DateTime<Utc>) -> NaiveDate {
        self.clock.zone.span_at(at).local(at).date()
    }

    pub(super) fn start_of(&self, day: NaiveDate) -> DateTime<Utc> {
        self.clock.instant_of(day.and_time(NaiveTime::MIN))
    }

    /// The first instant of the day after.
    pub(super) fn end_of(&self, day: NaiveDate) -> DateTime<Utc> {
        day.succ_opt().map_or(DateTime::<Utc>::MAX_UTC, |next| self.start_of(next))
    }

    /// The same time on the clock; `days` may be negative.
    pub(super) fn days_later(&self, at: DateTime<Utc>, days: i64) -> Option<DateTime<Utc>> {
        let local = self.clock.zone.span_at(at).local(at).checked_add_signed(TimeDelta::days(days))?;
        Some(self.clock.instant_of(local))
    }
}

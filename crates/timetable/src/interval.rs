//! Intervals: fires at a fixed distance from an anchor.
//!
//! A period of hours, minutes and seconds is elapsed time: fires are `anchor + k * period` for
//! every whole k. A period of only days and weeks is calendar time: fires keep the anchor's local
//! time in the job's zone (a time that does not exist fires at the change, one that occurs twice at
//! its first pass). Days beside hours count 24 hours each.
//!
//! Constant in time. The next fire is `None` only at the end of the calendar.

use chrono::{DateTime, Datelike as _, NaiveDateTime, TimeDelta, Utc};

use sched_vocabulary::schedule::{DstGap, DstOverlap};

use super::{LAST_YEAR, wall_clock::WallClock, zone::Zone};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    pub weeks: u32,
    pub days: u32,
    pub hours: u32,
    pub minutes: u32,
    pub seconds: u32,
}

impl Period {
    /// A hundred years.
    pub const LONGEST: TimeDelta = TimeDelta::days(36_525);

    /// A day is 24 hours.
    pub fn total(&self) -> TimeDelta {
        TimeDelta::weeks(self.weeks.into())
            + TimeDelta::days(self.days.into())
            + TimeDelta::hours(self.hours.into())
            + TimeDelta::minutes(self.minutes.into())
            + TimeDelta::seconds(self.seconds.into())
    }

    pub fn is_calendar(&self) -> bool {
        self.hours == 0 && self.minutes == 0 && self.seconds == 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    period: TimeDelta,
    anchor: DateTime<Utc>,
    /// With the local time of the anchor.
    calendar: Option<(WallClock, NaiveDateTime)>,
}

impl Interval {
    /// `None` below a second or beyond [`Period::LONGEST`].
    pub fn new(period: Period, anchor: DateTime<Utc>, zone: &Zone) -> Option<Self> {
        let total = period.total();
        if total < TimeDelta::seconds(1) || total > Period::LONGEST {
            return None;
        }
        let anchor = super::whole_microseconds(anchor);
        let calendar = period.is_calendar().then(|| {
            let clock = WallClock { zone: zone.clone(), gap: DstGap::Shift, overlap: DstOverlap::First };
            (clock, zone.span_at(anchor).local(anchor))
        });
        Some(Self { period: total, anchor, calendar })
    }

    pub fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let Some((clock, anchor)) = &self.calendar else {
            return next_in_lattice(self.anchor.naive_utc(), self.period, after.naive_utc())
                .map(|utc| utc.and_utc());
        };
        let next_local =
            |after| Ok::<_, std::convert::Infallible>(next_in_lattice(*anchor, self.period, after));
        match clock.next_after(after, next_local) {
            Ok(next) => next,
            Err(never) => match never {},
        }
    }

    pub(super) fn is_calendar(&self) -> bool {
        self.calendar.is_some()
    }

    /// Most fires of one day: as many as 24 hours hold, rounded up.
    pub(super) fn most_per_day(&self) -> u64 {
        let period = u64::try_from(self.period.num_seconds()).unwrap_or(1).max(1);
        86_400_u64.div_ceil(period)
    }

    pub(super) fn period(&self) -> TimeDelta {
        self.period
    }

    pub(super) fn anchor(&self) -> DateTime<Utc> {
        self.anchor
    }

    pub(super) fn wall_clock(&self) -> Option<&WallClock> {
        self.calendar.as_ref().map(|(clock, _)| clock)
    }

    /// The zone may lack that local time.
    pub(super) fn next_named(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        self.calendar.as_ref().and_then(|(_, anchor)| next_in_lattice(*anchor, self.period, after))
    }

    /// The number of fires in `(after, until]`; `None` for a calendar period.
    pub(super) fn count_between(&self, after: DateTime<Utc>, until: DateTime<Utc>) -> Option<u64> {
        if self.calendar.is_some() {
            return None;
        }
        let steps = |at: DateTime<Utc>| floor_steps(self.anchor.naive_utc(), self.period, at.naive_utc());
        u64::try_from(steps(until).saturating_sub(steps(after))).ok()
    }

    /// `None` for a calendar period.
    pub(super) fn latest(&self, until: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let next = if self.is_calendar() { None } else { self.next_after(until) };
        // No fires exist after the last year, though the lattice continues.
        next.and_then(|next| next.checked_sub_signed(self.period)).filter(|last| last.year() <= LAST_YEAR)
    }

    /// `None` for a calendar period.
    pub(super) fn earlier(&self, fire: DateTime<Utc>, back: usize) -> Option<DateTime<Utc>> {
        let back = if self.is_calendar() { None } else { i32::try_from(back).ok() };
        self.period.checked_mul(back?).and_then(|distance| fire.checked_sub_signed(distance))
    }
}

/// Rounded down. In microseconds, which hold 292,000 years.
fn floor_steps(anchor: NaiveDateTime, period: TimeDelta, at: NaiveDateTime) -> i64 {
    let (micros, period) = (micros(at - anchor), micros(period).max(1));
    micros.div_euclid(period)
}

fn micros(delta: TimeDelta) -> i64 {
    let saturated = if delta < TimeDelta::zero() { i64::MIN } else { i64::MAX };
    // Rounded down, so that a fraction of a microsecond never skips a fire.
    let whole = delta.num_microseconds().unwrap_or(saturated);
    if delta.subsec_nanos() % 1000 < 0 { whole.saturating_sub(1) } else { whole }
}

fn next_in_lattice(anchor: NaiveDateTime, period: TimeDelta, after: NaiveDateTime) -> Option<NaiveDateTime> {
    let steps = floor_steps(anchor, period, after).checked_add(1)?;
    let distance = micros(period).checked_mul(steps)?;
    anchor.checked_add_signed(TimeDelta::microseconds(distance))
}

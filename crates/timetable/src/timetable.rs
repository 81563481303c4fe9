//! A timetable: a schedule within its bounds and calendars. A job fires by its timetable.
//!
//! The schedule names *nominal* fire times. Those before `start_at`, or at or after `end_at`, do
//! not exist. A fire that a calendar excludes is skipped, or rolled: moved to the same local time
//! of the next (or the latest earlier) *business day*, on which that time is not excluded. A roll
//! goes at most [`LONGEST_ROLL`] days far and does not leave the bounds; a fire without such a day
//! is skipped. Two fires at one instant are one fire.
//!
//! `next_after` is the least element after its argument of a fixed set of instants, so it is later
//! than its argument and monotone. A search that finds only excluded fires for decades ends with an
//! error. Rolling checks the days around the argument as long as they touch an exclusion; hence it
//! is limited to schedules of at most [`MOST_ROLLED_PER_DAY`] fires a day.

mod rolling;

use chrono::{DateTime, Datelike as _, TimeDelta, Utc};

use sched_vocabulary::schedule::{CalendarRoll, SkipReason};

use super::{
    Calendar, Schedule, ScheduleError, ScheduleSource,
    exclusions::Exclusions,
    interval::Interval,
    misfire::{COUNT_LIMIT, Count, Occurrences, SkippedRange, TICK, latest_until},
    whole_microseconds,
    zone::Zone,
};

/// Longest move of a fire, in days.
pub(super) const LONGEST_ROLL: i64 = 60;

pub(super) const MOST_ROLLED_PER_DAY: u64 = 4;

/// Limit of excluded stretches without a fire in a search: 27 years of daily fires.
const MOST_JUMPS: usize = 10_000;

/// Limit of nominal fires without a day to move to in a search: more than a year of them, beside
/// stretches that are passed over as a whole.
const MOST_STEPS: usize = 2_000;

/// Instants outside these years are mistakes: the database and RFC 3339 cannot hold all of them.
const YEARS: std::ops::RangeInclusive<i32> = 1..=9999;

#[derive(Debug, Clone, Copy)]
pub struct TimetableSource<'a> {
    pub schedule: ScheduleSource<'a>,
    /// No fire before this instant.
    pub start_at: Option<DateTime<Utc>>,
    /// No fire at or after this instant.
    pub end_at: Option<DateTime<Utc>>,
    pub calendars: &'a [Calendar],
    pub roll: CalendarRoll,
}

impl<'a> From<ScheduleSource<'a>> for TimetableSource<'a> {
    /// Without bounds and calendars.
    fn from(schedule: ScheduleSource<'a>) -> Self {
        Self { schedule, start_at: None, end_at: None, calendars: &[], roll: CalendarRoll::Skip }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Timetable {
    schedule: Schedule,
    start_at: Option<DateTime<Utc>>,
    end_at: Option<DateTime<Utc>>,
    exclusions: Exclusions,
    roll: CalendarRoll,
}

/// A fire with its nominal time, before a calendar moved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fire {
    pub at: DateTime<Utc>,
    pub nominal: DateTime<Utc>,
}

impl From<Schedule> for Timetable {
    /// Without bounds and calendars.
    fn from(schedule: Schedule) -> Self {
        let exclusions = Exclusions::new(Vec::new(), Zone::utc());
        Self { schedule, start_at: None, end_at: None, exclusions, roll: CalendarRoll::Skip }
    }
}

impl Timetable {
    /// Errors have the path of the field.
    pub fn parse(source: &TimetableSource<'_>) -> Result<Self, ScheduleError> {
        let schedule = Schedule::parse(&source.schedule)?;
        let zone = Zone::parse(source.schedule.timezone)?;
        let (start_at, end_at) = (bound("start_at", source.start_at)?, bound("end_at", source.end_at)?);
        if let (Some(start), Some(end)) = (start_at, end_at)
            && end <= start
        {
            return Err(ScheduleError::invalid("end_at", "must be later than start_at"));
        }
        let rolls = source.roll != CalendarRoll::Skip;
        if rolls && schedule.most_per_day() > MOST_ROLLED_PER_DAY {
            return Err(ScheduleError::invalid(
                "calendar_roll",
                format!(
                    "`{}` is for schedules of at most {MOST_ROLLED_PER_DAY} fires a day, and this one has up to {}; use `skip`",
                    source.roll,
                    schedule.most_per_day()
                ),
            ));
        }
        let exclusions = Exclusions::new(source.calendars.to_vec(), zone);
        Ok(Self { schedule, start_at, end_at, exclusions, roll: source.roll })
    }

    /// Without bounds and calendars.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub fn next_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        if self.exclusions.is_empty() {
            return self.nominal_after(after);
        }
        Ok(self.next_fire(after)?.map(|fire| fire.at))
    }

    pub(super) fn next_fire(&self, after: DateTime<Utc>) -> Result<Option<Fire>, ScheduleError> {
        match self.roll {
            CalendarRoll::Skip => {
                let kept = self.next_kept(after)?;
                Ok(kept.map(|at| Fire { at, nominal: at }))
            }
            CalendarRoll::NextBusinessDay => self.next_rolled_forward(after),
            CalendarRoll::PreviousBusinessDay => self.next_rolled_back(after),
        }
    }

    pub fn is_list(&self) -> bool {
        self.schedule.is_list()
    }

    pub fn next_but(
        &self,
        after: DateTime<Utc>,
        decided: &[DateTime<Utc>],
    ) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        let mut from = after;
        while let Some(fire) = self.next_fire(from)? {
            if !decided.contains(&fire.nominal) {
                return Ok(Some(fire.at));
            }
            from = fire.at;
        }
        Ok(None)
    }

    pub(super) fn is_finite(&self) -> bool {
        self.end_at.is_some() || self.schedule.is_list()
    }

    /// Nominal fires strictly between two instants that never fire, because a calendar excludes
    /// them.
    pub(super) fn excluded_between(
        &self,
        after: DateTime<Utc>,
        before: DateTime<Utc>,
    ) -> Result<Option<SkippedRange>, ScheduleError> {
        if self.exclusions.is_empty() {
            return Ok(None);
        }
        let last = before.checked_sub_signed(TICK).unwrap_or(before);
        let nominal = Nominal(self);
        let (mut found, mut count, mut from) = (None::<(DateTime<Utc>, DateTime<Utc>)>, 0, after);
        for _ in 0..MOST_STEPS {
            let Some(fire) = nominal.next_after(from)?.filter(|fire| *fire <= last) else {
                return Ok(found.map(|(first, last)| excluded(first, last, Count::Exact(count))));
            };
            if count == COUNT_LIMIT {
                break;
            }
            if self.moved(fire).is_none() {
                found = Some((found.map_or(fire, |(first, _)| first), fire));
                count += 1;
            }
            from = fire;
        }
        // Too many to list. Where fires are skipped and nothing fires in between, all that follow are excluded too.
        let Some((first, seen)) = found else { return Ok(None) };
        let end = if self.roll == CalendarRoll::Skip { latest_until(&nominal, seen, last)? } else { seen };
        Ok(Some(excluded(first, end, Count::AtLeast(count))))
    }

    /// The last visit of a job without further fires, so that fires excluded before its end get a
    /// record: its last nominal fire, if that is excluded and later than `after`.
    pub fn last_visit(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        if self.exclusions.is_empty() || !self.is_finite() {
            return Ok(None);
        }
        let nominal = Nominal(self);
        let Some(first) = nominal.next_after(after)? else { return Ok(None) };
        let end = self.end_at.unwrap_or(DateTime::<Utc>::MAX_UTC);
        let last = latest_until(&nominal, first, end.checked_sub_signed(TICK).unwrap_or(end))?;
        Ok(Some(last).filter(|last| self.is_excluded(*last)))
    }

    pub fn is_excluded(&self, nominal: DateTime<Utc>) -> bool {
        !self.exclusions.is_empty() && self.moved(nominal).is_none()
    }

    /// The fires whose nominal time and moved time lie on different sides of `now`.
    pub fn moving_across(&self, now: DateTime<Utc>) -> Result<Vec<Fire>, ScheduleError> {
        if self.exclusions.is_empty() || self.roll == CalendarRoll::Skip {
            return Ok(Vec::new());
        }
        let reach = TimeDelta::days(LONGEST_ROLL + 1);
        let (mut from, until) = match self.roll {
            CalendarRoll::PreviousBusinessDay => (now, now.checked_add_signed(reach).unwrap_or(now)),
            _ => (now.checked_sub_signed(reach).unwrap_or(now), now),
        };
        let mut found = Vec::new();
        while let Some(nominal) = self.nominal_after(from)?.filter(|nominal| *nominal <= until) {
            if let Some(moved) = self.moved(nominal)
                && (nominal <= now) != (moved <= now)
            {
                found.push(Fire { at: moved, nominal });
            }
            from = nominal;
        }
        Ok(found)
    }

    /// The first nominal fire after an instant, whether or not a calendar excludes or moves it.
    pub fn nominal_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        let from =
            self.start_at.map_or(after, |start| after.max(start.checked_sub_signed(TICK).unwrap_or(start)));
        Ok(self.schedule.next_after(from)?.filter(|at| self.end_at.is_none_or(|end| *at < end)))
    }

    fn next_kept(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        let mut from = after;
        for _ in 0..MOST_JUMPS {
            let Some(fire) = self.nominal_after(from)? else { return Ok(None) };
            match self.exclusions.until(fire) {
                None => return Ok(Some(fire)),
                Some(end) => from = fire.max(end - TICK),
            }
        }
        Err(gave_up())
    }

    pub(super) fn bounds_hold(&self, at: DateTime<Utc>) -> bool {
        self.start_at.is_none_or(|start| start <= at) && self.end_at.is_none_or(|end| at < end)
    }

    /// The instant at which a nominal fire fires; `None` if a calendar excludes it.
    pub fn moved(&self, nominal: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let direction = match self.roll {
            CalendarRoll::Skip => return self.exclusions.until(nominal).is_none().then_some(nominal),
            CalendarRoll::NextBusinessDay => 1,
            CalendarRoll::PreviousBusinessDay => -1,
        };
        if self.exclusions.until(nominal).is_none() {
            return Some(nominal);
        }
        (1..=LONGEST_ROLL).find_map(|days| {
            let at = self.exclusions.days_later(nominal, direction * days)?;
            (self.bounds_hold(at) && self.exclusions.until(at).is_none()).then_some(at)
        })
    }
}

fn bound(field: &str, at: Option<DateTime<Utc>>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
    match at {
        Some(at) if !YEARS.contains(&at.year()) => {
            Err(ScheduleError::invalid(field, "must lie in the years 0001 to 9999"))
        }
        at => Ok(at.map(whole_microseconds)),
    }
}

fn gave_up() -> ScheduleError {
    ScheduleError::NeverFires {
        field: "calendars".to_owned(),
        message: "exclude every fire for years on end; nothing would ever fire".to_owned(),
    }
}

fn excluded(first: DateTime<Utc>, last: DateTime<Utc>, count: Count) -> SkippedRange {
    SkippedRange { first, last, count, reason: SkipReason::Calendar }
}

impl Occurrences for Timetable {
    fn next_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        Self::next_after(self, after)
    }

    fn as_interval(&self) -> Option<&Interval> {
        let is_bare = self.start_at.is_none() && self.end_at.is_none() && self.exclusions.is_empty();
        self.schedule.as_interval().filter(|_| is_bare)
    }
}

struct Nominal<'a>(&'a Timetable);

impl Occurrences for Nominal<'_> {
    fn next_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        self.0.nominal_after(after)
    }

    fn as_interval(&self) -> Option<&Interval> {
        None
    }
}

//! Schedules: when a job fires.
//!
//! A [`Schedule`] is a pure function from an instant to the next fire time, a [`Timetable`] a
//! schedule within its bounds and calendars. [`decide()`] decides about due fire times: the fires
//! to dispatch, the skips to record, and the next cursor. This crate reads no clock, and stores and
//! dispatches nothing; it reads only the zone tables (`zone`).
//!
//! `next_after` is total, later than its argument, monotone, and exact to the microsecond, the
//! resolution of the database. Parsing fails with the path of the wrong field. After that only a
//! defect in the cron engine can fail, as an error and not as a panic.

pub mod calendar;
mod config;
pub mod cron;
mod decide;
mod describe;
mod error;
mod exclusions;
pub mod interval;
mod jitter;
pub mod misfire;
pub mod overlap;
mod preview;
mod suppressed;
#[cfg(test)]
mod tests;
mod timetable;
mod wall_clock;
mod warnings;
pub mod zone;

use chrono::{DateTime, Datelike as _, NaiveDateTime, Timelike as _, Utc};

use self::{interval::Interval, wall_clock::WallClock};

pub use sched_vocabulary::schedule::{
    CalendarRoll, DayMatch, DstGap, DstOverlap, FireNote, JobType, OverlapPolicy, SkipReason,
};

pub use self::{
    calendar::Calendar,
    config::{ScheduleSource, hash_key},
    cron::{CronOptions, CronSpec},
    decide::{Decision, Situation, decide, settle_quiet},
    describe::describe,
    error::ScheduleError,
    jitter::jitter,
    misfire::{Count, MisfirePolicy, MisfireRules, Plan, SkippedRange, plan},
    preview::{FireTime, MAX_FIRE_TIMES, Preview, preview},
    timetable::{Fire, Timetable, TimetableSource},
    warnings::warnings,
    zone::{Zone, tzdata_version},
};

/// The last year that RFC 3339 can write and the zone tables reach.
const LAST_YEAR: i32 = 9999;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    Cron(CronSchedule),
    Interval(Interval),
    OneOff(DateTime<Utc>),
    Manual,
    /// Several of the same kind; two that fire at one instant are one fire.
    Union(Vec<Self>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSchedule {
    spec: CronSpec,
    clock: WallClock,
}

impl CronSchedule {
    /// `None` follows the expression. A fixed time of day is moved out of a gap and fires at the
    /// first pass of an overlap. A leading `*` in minute or hour follows elapsed time.
    pub fn new(spec: CronSpec, zone: Zone, gap: Option<DstGap>, overlap: Option<DstOverlap>) -> Self {
        let (default_gap, default_overlap) = if spec.wildcard_time() {
            (DstGap::Skip, DstOverlap::Both)
        } else {
            (DstGap::Shift, DstOverlap::First)
        };
        let clock =
            WallClock { zone, gap: gap.unwrap_or(default_gap), overlap: overlap.unwrap_or(default_overlap) };
        Self { spec, clock }
    }

    pub fn spec(&self) -> &CronSpec {
        &self.spec
    }

    pub fn zone(&self) -> &Zone {
        &self.clock.zone
    }

    fn next_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        self.clock.next_after(after, |local| self.spec.next_naive(local))
    }
}

impl Schedule {
    /// Errors have the path of the field, such as `timezone` or `schedule_config.minute`.
    pub fn parse(source: &ScheduleSource<'_>) -> Result<Self, ScheduleError> {
        config::parse(source)
    }

    /// `None` if there is none before the year 10000.
    pub fn next_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        let next = match self {
            Self::Cron(cron) => cron.next_after(after)?,
            Self::Interval(interval) => interval.next_after(after),
            Self::OneOff(at) => Some(*at).filter(|at| *at > after),
            Self::Manual => None,
            Self::Union(members) => {
                let mut earliest = None;
                for next in members.iter().map(|member| member.next_after(after)) {
                    earliest = [earliest, next?].into_iter().flatten().min();
                }
                earliest
            }
        };
        Ok(next.filter(|at| at.year() <= LAST_YEAR))
    }

    pub fn job_type(&self) -> JobType {
        match self {
            Self::Cron(_) => JobType::Cron,
            Self::Interval(_) => JobType::Interval,
            Self::OneOff(_) => JobType::OneOff,
            Self::Manual => JobType::Manual,
            Self::Union(members) => members.first().map_or(JobType::Manual, Self::job_type),
        }
    }

    /// The release of the zone tables that its fire times depend on, to be stored beside them.
    pub fn tzdata_version(&self) -> Option<&'static str> {
        match self {
            Self::Cron(_) => Some(tzdata_version()),
            Self::Interval(interval) => interval.is_calendar().then(tzdata_version),
            Self::OneOff(_) | Self::Manual => None,
            Self::Union(members) => members.iter().find_map(Self::tzdata_version),
        }
    }

    /// Itself alone, unless it is a union.
    fn members(&self) -> &[Self] {
        match self {
            Self::Union(members) => members,
            single => std::slice::from_ref(single),
        }
    }

    /// An upper bound; a schedule without a daily bound counts by its shortest distance.
    fn most_per_day(&self) -> u64 {
        match self {
            Self::Cron(cron) => cron.spec().most_per_day(),
            Self::Interval(interval) => interval.most_per_day(),
            Self::OneOff(_) => 1,
            Self::Manual => 0,
            Self::Union(members) => members.iter().map(Self::most_per_day).sum(),
        }
    }

    fn is_list(&self) -> bool {
        self.members().iter().all(|member| matches!(member, Self::OneOff(_) | Self::Manual))
    }

    /// `None` without times of day, and for a union, whose members have their own.
    fn wall_clock(&self) -> Option<&WallClock> {
        match self {
            Self::Cron(cron) => Some(&cron.clock),
            Self::Interval(interval) => interval.wall_clock(),
            Self::OneOff(_) | Self::Manual | Self::Union(_) => None,
        }
    }

    /// The zone may lack that local time.
    fn next_named(&self, after: NaiveDateTime) -> Result<Option<NaiveDateTime>, ScheduleError> {
        match self {
            Self::Cron(cron) => cron.spec.next_naive(after),
            Self::Interval(interval) => Ok(interval.next_named(after)),
            Self::OneOff(_) | Self::Manual | Self::Union(_) => Ok(None),
        }
    }
}

/// Truncated to a microsecond, the resolution of the database.
fn whole_microseconds(at: DateTime<Utc>) -> DateTime<Utc> {
    at.with_nanosecond(at.nanosecond() / 1000 * 1000).unwrap_or(at)
}

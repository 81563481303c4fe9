//! Simulation: the combined load of many schedules over a window of time.
//!
//! [`simulate`] walks the starts of all jobs once, in the order of time. It reports the starts per
//! minute, the busiest minutes, the concurrent runs for the declared durations, the jobs that
//! overlap themselves, and the schedules that could move to reduce collisions.
//!
//! A *start* is a fire time plus its jitter. The effect of overlap policies is reported apart from
//! the starts, because it depends on declared durations. Nothing runs when the window begins.
//!
//! Pure: no clock, and no randomness except hashes (`hash`). The jobs, the minutes of the window
//! and the concurrent runs bound the memory; [`Options::most_starts`] bounds the time.

mod hash;
mod load;
mod moment;
mod report;
mod running;
mod spread;
mod starts;
mod suggest;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::job::OverlapPolicy;
use load::Load;
use report::Results;
use running::Running;
use sched_timetable::ScheduleError;
use starts::Starts;

pub use load::Histogram;
pub use moment::Moment;
pub use report::{Hour, JobReport, Peak, Report};
pub use spread::{SpreadExpression, spread_expression};
pub use suggest::{Change, Suggestion};

pub const MOST_STARTS: u64 = 5_000_000;

pub struct Timing<'a> {
    next_after: Box<NextAfter<'a>>,
}

type NextAfter<'a> = dyn Fn(DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> + 'a;

impl<'a> Timing<'a> {
    /// Each result of `next_after` must be later than its argument.
    pub fn new(
        next_after: impl Fn(DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> + 'a,
    ) -> Self {
        Self { next_after: Box::new(next_after) }
    }

    fn next_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        (self.next_after)(after)
    }
}

impl fmt::Debug for Timing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timing").finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Simulated<'a> {
    pub name: &'a str,
    pub timing: Timing<'a>,
    pub jitter_seconds: u32,
    /// `None` counts as no time.
    pub duration: Option<Duration>,
    /// At least one.
    pub max_instances: u32,
    pub overlap_policy: OverlapPolicy,
    pub spread: Option<Spread<'a>>,
}

#[derive(Debug)]
pub struct Spread<'a> {
    pub expression: String,
    pub timing: Timing<'a>,
}

/// The end is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
}

impl Window {
    pub const MOST_DAYS: i64 = 366;

    /// Fails if the window is empty or longer than [`Window::MOST_DAYS`].
    pub fn new(from: DateTime<Utc>, to: DateTime<Utc>) -> Result<Self, SimulationError> {
        if to <= from {
            return Err(SimulationError::EmptyWindow);
        }
        if to - from > TimeDelta::days(Self::MOST_DAYS) {
            return Err(SimulationError::LongWindow);
        }
        Ok(Self { from, to })
    }

    pub fn from(self) -> DateTime<Utc> {
        self.from
    }

    pub fn to(self) -> DateTime<Utc> {
        self.to
    }

    fn contains(self, at: DateTime<Utc>) -> bool {
        self.from <= at && at < self.to
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Busiest minutes that are reported with their jobs.
    pub peaks: usize,
    pub most_starts: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    #[error("the window is empty; its end must be after its beginning")]
    EmptyWindow,
    #[error("the window is longer than {} days", Window::MOST_DAYS)]
    LongWindow,
    #[error(
        "there are more than {limit} starts; job {job:?} has most, {starts} up to {}; choose a shorter window",
        until.to_rfc3339_opts(SecondsFormat::Secs, true)
    )]
    TooManyStarts { limit: u64, job: String, starts: u64, until: DateTime<Utc> },
    /// Only by a defect of the cron engine.
    #[error("the schedule of job {job:?} failed")]
    Schedule {
        job: String,
        #[source]
        source: ScheduleError,
    },
}

/// Fails on too many starts, or as a schedule fails.
pub fn simulate(jobs: &[Simulated<'_>], window: Window, options: Options) -> Result<Report, SimulationError> {
    let mut load = Load::new(jobs.len(), window, options.peaks);
    let mut running = Running::new(jobs, window);
    let mut streams = Vec::with_capacity(jobs.len());
    // The earliest start on top; equal ones in the order of the jobs.
    let mut upcoming = BinaryHeap::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        let failed = |source| SimulationError::Schedule { job: job.name.to_owned(), source };
        let mut stream = Starts::new(&job.timing, job.name, job.jitter_seconds, window).map_err(failed)?;
        upcoming.extend(stream.next().map_err(failed)?.map(|at| Reverse((at, index))));
        streams.push((job, stream));
    }
    while let Some(Reverse((at, index))) = upcoming.pop() {
        let Some((job, stream)) = streams.get_mut(index) else { break };
        load.start(index, at);
        running.start(index, at);
        if load.total() > options.most_starts {
            return Err(too_many(jobs, &load, options.most_starts, at));
        }
        let failed = |source| SimulationError::Schedule { job: job.name.to_owned(), source };
        upcoming.extend(stream.next().map_err(failed)?.map(|at| Reverse((at, index))));
    }
    let load = load.finish();
    let runs = running.finish();
    let closest: Vec<Option<TimeDelta>> = streams.iter().map(|(_, stream)| stream.closest()).collect();
    let advice = suggest::suggest(jobs, &closest, &load, window)?;
    Ok(Results { load, runs, advice }.report(jobs, window))
}

fn too_many(jobs: &[Simulated<'_>], load: &Load, limit: u64, until: DateTime<Utc>) -> SimulationError {
    let (job, starts) = jobs
        .iter()
        .zip(load.starts_by_job())
        .max_by_key(|(_, starts)| **starts)
        .map_or_else(Default::default, |(job, starts)| (job.name.to_owned(), *starts));
    SimulationError::TooManyStarts { limit, job, starts, until }
}

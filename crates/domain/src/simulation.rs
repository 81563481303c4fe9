//! Simulation: the combined load of many schedules over a window of time.
//!
//! [`simulate`] walks the starts of all jobs once, in the order of time. It reports the starts per
//! minute, the busiest minutes, the concurrent runs if every run takes its declared duration, the
//! jobs that overlap themselves, and the schedules that could move to reduce collisions. It does
//! the arithmetic only; the caller reads the schedules and prints the report.
//!
//! A *start* is a fire time of the schedule plus its jitter. The effect of overlap policies is
//! reported apart from the starts, because it depends on declared durations. Nothing runs when the
//! window begins.
//!
//! Pure: no clock, and no randomness except hashes (`hash`). Memory is bounded by the jobs, the
//! minutes of the window and the concurrent runs, never by all starts; time by
//! [`Options::most_starts`]. Fails when that is exceeded, or as a schedule fails.

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

/// Most starts of a simulation, unless the caller wants fewer.
pub const MOST_STARTS: u64 = 5_000_000;

/// When something fires: a function from an instant to the first fire time after it.
pub struct Timing<'a> {
    next_after: Box<NextAfter<'a>>,
}

type NextAfter<'a> = dyn Fn(DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> + 'a;

impl<'a> Timing<'a> {
    /// The fire times that `next_after` returns; each must be later than its argument.
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

/// A job as a simulation sees it.
#[derive(Debug)]
pub struct Simulated<'a> {
    /// Its name, which is also the key of its hashes.
    pub name: &'a str,
    pub timing: Timing<'a>,
    /// Longest delay between a fire time and its start, in seconds.
    pub jitter_seconds: u32,
    /// How long a run is expected to take; `None` counts as no time.
    pub duration: Option<Duration>,
    /// How many runs may be open before the overlap policy applies; at least one.
    pub max_instances: u32,
    /// Policy for a start while that many runs are open.
    pub overlap_policy: OverlapPolicy,
    /// The same schedule at job-specific minutes, if it has such a form.
    pub spread: Option<Spread<'a>>,
}

/// A schedule with the same meaning that starts at job-specific minutes.
#[derive(Debug)]
pub struct Spread<'a> {
    /// What to write, see [`spread_expression`].
    pub expression: String,
    pub timing: Timing<'a>,
}

/// A stretch of time, its end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
}

impl Window {
    /// The longest window, in days.
    pub const MOST_DAYS: i64 = 366;

    /// From one instant up to another.
    ///
    /// # Errors
    /// When it is empty or longer than [`Window::MOST_DAYS`].
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

    /// The first instant after it.
    pub fn to(self) -> DateTime<Utc> {
        self.to
    }

    fn contains(self, at: DateTime<Utc>) -> bool {
        self.from <= at && at < self.to
    }
}

/// How much to simulate and to report.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many of the busiest minutes are reported with their jobs.
    pub peaks: usize,
    /// Fail when there are more starts than this.
    pub most_starts: u64,
}

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The window ends where it begins, or before.
    #[error("the window is empty; its end must be after its beginning")]
    EmptyWindow,
    /// The window is too long.
    #[error("the window is longer than {} days", Window::MOST_DAYS)]
    LongWindow,
    /// There are too many starts in the window.
    #[error(
        "there are more than {limit} starts; job {job:?} has most, {starts} up to {}; choose a shorter window",
        until.to_rfc3339_opts(SecondsFormat::Secs, true)
    )]
    TooManyStarts {
        /// How many are allowed.
        limit: u64,
        /// The job with most starts so far.
        job: String,
        /// How many it has so far.
        starts: u64,
        /// How far the simulation came.
        until: DateTime<Utc>,
    },
    /// A schedule failed, which only a defect of the cron engine makes it do.
    #[error("the schedule of job {job:?} failed")]
    Schedule {
        job: String,
        #[source]
        source: ScheduleError,
    },
}

/// Simulates all jobs over a window.
///
/// # Errors
/// When there are more starts than allowed, or a schedule fails.
pub fn simulate(jobs: &[Simulated<'_>], window: Window, options: Options) -> Result<Report, SimulationError> {
    let mut load = Load::new(jobs.len(), window, options.peaks);
    let mut running = Running::new(jobs, window);
    let mut streams = Vec::with_capacity(jobs.len());
    // The next start of every job, the earliest on top, jobs in their order where they meet.
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

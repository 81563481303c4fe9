//! Which schedules could move so that fewer jobs start together.
//!
//! The search moves one job after the other, those with most collisions first, and keeps a move
//! that reduces the job's collisions noticeably. A cron job moves by `H`, if its expression allows
//! that; any other job by jitter, if its fires are far enough apart. A schedule does not show
//! whether its time is deliberate, so these are suggestions. Pure.

use chrono::TimeDelta;

use super::load::{Histogram, Load, mean};
use super::moment::Moment;
use super::starts::Starts;
use super::{Simulated, SimulationError, Timing, Window};
use sched_timetable::ScheduleError;

/// In colliding starts.
const LEAST_GAIN: f64 = 2.0;
/// As a share of the busiest minute.
const LEAST_SHARE: f64 = 0.1;
/// In seconds: more delay would surprise.
const MOST_JITTER: u32 = 900;
/// In seconds; still spreads over minutes.
const LEAST_JITTER: u32 = 120;

#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    pub job: String,
    pub change: Change,
    /// Average starts, its own included, in the minutes of its starts, after all earlier
    /// suggestions.
    pub company_before: f64,
    /// After this suggestion.
    pub company_after: f64,
}

impl Suggestion {
    pub fn gain(&self) -> f64 {
        self.company_before - self.company_after
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Expression(String),
    Jitter(u32),
}

#[derive(Debug)]
pub(super) struct Advice {
    pub(super) suggestions: Vec<Suggestion>,
    pub(super) peak: Option<Moment>,
}

/// `closest` has the shortest distance between two fires of each job.
pub(super) fn suggest(
    jobs: &[Simulated<'_>],
    closest: &[Option<TimeDelta>],
    load: &Load,
    window: Window,
) -> Result<Advice, SimulationError> {
    let minutes = load.histogram.clone();
    let busiest = f64::from(minutes.busiest().map_or(0, |minute| minute.count));
    let enough = LEAST_GAIN.max(LEAST_SHARE * busiest);
    let mut search = Search { minutes, window, enough };
    let mut candidates: Vec<(f64, &Simulated<'_>, Move<'_>)> = jobs
        .iter()
        .zip(closest)
        .enumerate()
        .filter_map(|(index, (job, closest))| Some((load.company(index), job, Move::of(job, *closest)?)))
        // At best it is alone in its minutes.
        .filter(|(company, ..)| company - 1.0 >= enough)
        .collect();
    candidates.sort_by(|(left, ..), (right, ..)| right.total_cmp(left));
    let mut suggestions = Vec::new();
    for (_, job, moved) in candidates {
        let failed = |source| SimulationError::Schedule { job: job.name.to_owned(), source };
        let tried = search.try_move(job, &moved).map_err(failed)?;
        suggestions.extend(tried);
    }
    suggestions.sort_by(|left, right| right.gain().total_cmp(&left.gain()));
    Ok(Advice { suggestions, peak: search.minutes.busiest() })
}

struct Move<'a> {
    change: Change,
    timing: &'a Timing<'a>,
    jitter_seconds: u32,
}

impl<'a> Move<'a> {
    fn of(job: &'a Simulated<'a>, closest: Option<TimeDelta>) -> Option<Self> {
        if let Some(spread) = &job.spread {
            return Some(Self {
                change: Change::Expression(spread.expression.clone()),
                timing: &spread.timing,
                jitter_seconds: job.jitter_seconds,
            });
        }
        if job.jitter_seconds > 0 {
            return None;
        }
        let room = closest.map_or(i64::MAX, |distance| distance.num_seconds() / 2);
        let jitter_seconds = u32::try_from(room).unwrap_or(u32::MAX).min(MOST_JITTER);
        (jitter_seconds >= LEAST_JITTER).then_some(Self {
            change: Change::Jitter(jitter_seconds),
            timing: &job.timing,
            jitter_seconds,
        })
    }
}

/// The state of a search.
struct Search {
    /// The starts with all moves that were kept.
    minutes: Histogram,
    window: Window,
    /// The least reduction in colliding starts for which a move is kept.
    enough: f64,
}

impl Search {
    /// Without enough gain, restores the histogram and returns `None`.
    fn try_move(
        &mut self,
        job: &Simulated<'_>,
        moved: &Move<'_>,
    ) -> Result<Option<Suggestion>, ScheduleError> {
        let Self { minutes, window, enough } = self;
        let list = |timing, jitter| indices(minutes, Starts::new(timing, job.name, jitter, *window)?);
        let old = list(&job.timing, job.jitter_seconds)?;
        let new = list(moved.timing, moved.jitter_seconds)?;
        // A job that moves out of the window proves nothing.
        if new.is_empty() {
            return Ok(None);
        }
        let company_before = company(minutes, &old);
        old.iter().for_each(|index| minutes.remove(*index));
        new.iter().for_each(|index| minutes.add(*index));
        let suggestion = Suggestion {
            job: job.name.to_owned(),
            change: moved.change.clone(),
            company_before,
            company_after: company(minutes, &new),
        };
        if suggestion.gain() >= *enough {
            return Ok(Some(suggestion));
        }
        new.iter().for_each(|index| minutes.remove(*index));
        old.iter().for_each(|index| minutes.add(*index));
        Ok(None)
    }
}

fn indices(minutes: &Histogram, mut starts: Starts<'_>) -> Result<Vec<usize>, ScheduleError> {
    let mut found = Vec::new();
    while let Some(at) = starts.next()? {
        found.extend(minutes.index(at));
    }
    Ok(found)
}

fn company(minutes: &Histogram, starts: &[usize]) -> f64 {
    let sum = starts.iter().map(|index| u64::from(minutes.count(*index))).sum();
    mean(sum, u64::try_from(starts.len()).unwrap_or(u64::MAX))
}

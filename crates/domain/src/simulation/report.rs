//! The report of a simulation: plain data in instants and counts.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::load::{BusyMinute, Histogram, Load};
use super::moment::Moment;
use super::running::{Runs, Tally};
use super::suggest::{Advice, Suggestion};
use super::{Simulated, Window};

#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub window: Window,
    pub starts: u64,
    pub minutes: Histogram,
    pub hours: Vec<Hour>,
    /// Most starts first, and the earlier of equals.
    pub peaks: Vec<Peak>,
    /// The first of equal ones.
    pub busiest_second: Option<Moment>,
    pub jobs: Vec<JobReport>,
    /// The slots that all workers together need; `None` if nothing takes time.
    pub most_running: Option<Moment>,
    /// Sum over all runs within the window.
    pub busy: TimeDelta,
    pub suggestions: Vec<Suggestion>,
    pub spread_peak: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hour {
    pub at: DateTime<Utc>,
    pub starts: u64,
    /// The first of equal ones.
    pub busiest: Option<Moment>,
    pub most_running: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peak {
    pub minute: DateTime<Utc>,
    pub starts: u64,
    pub in_a_second: u32,
    /// By name, most starts first.
    pub jobs: Vec<(String, u32)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReport {
    pub name: String,
    pub starts: u64,
    pub duration: Option<Duration>,
    pub busy: TimeDelta,
    pub most_running: u32,
    /// Starts during an earlier run.
    pub overlapping: u64,
    pub skipped: u64,
    pub queued: u64,
    pub cancelled: u64,
}

/// The results of a simulation's parts, from which its report is built.
pub(super) struct Results {
    pub(super) load: Load,
    pub(super) runs: Runs,
    pub(super) advice: Advice,
}

impl Results {
    pub(super) fn report(self, jobs: &[Simulated<'_>], window: Window) -> Report {
        let Self { load, runs, advice } = self;
        let starts = load.total();
        let (minutes, starts_by_job, busiest_second, peaks) = load.into_parts();
        let reports = jobs.iter().zip(starts_by_job).zip(runs.jobs);
        let reports: Vec<_> = reports.map(|((job, starts), tally)| job_report(job, starts, &tally)).collect();
        Report {
            window,
            starts,
            hours: hours(&minutes, &runs.hours),
            peaks: peaks.into_iter().map(|minute| peak(jobs, &minutes, minute)).collect(),
            minutes,
            busiest_second,
            busy: reports.iter().fold(TimeDelta::zero(), |sum, job| sum + job.busy),
            jobs: reports,
            most_running: runs.most,
            suggestions: advice.suggestions,
            spread_peak: advice.peak,
        }
    }
}

fn job_report(job: &Simulated<'_>, starts: u64, tally: &Tally) -> JobReport {
    JobReport {
        name: job.name.to_owned(),
        starts,
        duration: job.duration,
        busy: tally.busy,
        most_running: tally.most_running,
        overlapping: tally.overlapping,
        skipped: tally.skipped,
        queued: tally.queued,
        cancelled: tally.cancelled,
    }
}

fn peak(jobs: &[Simulated<'_>], minutes: &Histogram, minute: BusyMinute) -> Peak {
    let named = minute.jobs.iter().filter_map(|(job, starts)| Some((jobs.get(*job)?.name, *starts)));
    let mut named: Vec<(String, u32)> = named.map(|(name, starts)| (name.to_owned(), starts)).collect();
    named.sort_by(|(name, starts), (other, others)| others.cmp(starts).then_with(|| name.cmp(other)));
    Peak {
        minute: minutes.instant(minute.index.0),
        starts: minute.starts,
        in_a_second: minute.in_a_second,
        jobs: named,
    }
}

/// Both are sorted.
fn hours(minutes: &Histogram, running: &[Moment]) -> Vec<Hour> {
    let mut minutes = minutes.minutes().peekable();
    let hour = |running: &Moment| {
        let end = running.at + TimeDelta::hours(1);
        let mut hour = Hour { at: running.at, starts: 0, busiest: None, most_running: running.count };
        while let Some(minute) = minutes.next_if(|minute| minute.at < end) {
            hour.starts += u64::from(minute.count);
            if hour.busiest.is_none_or(|busiest| busiest.count < minute.count) {
                hour.busiest = Some(minute);
            }
        }
        hour
    };
    running.iter().map(hour).collect()
}

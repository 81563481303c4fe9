//! Concurrent runs if each takes the declared duration of its job.
//!
//! A start at the instant of an end does not overlap that run. Overlap policies apply as in the
//! scheduler, in the order of the starts. Runs without a declared duration take no time and overlap
//! nothing. Retries and waits for a worker are not modelled. Pure.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use chrono::{DateTime, TimeDelta, Utc};

use super::super::job::OverlapPolicy;
use super::moment::Moment;
use super::{Simulated, Window};

const HOUR: i64 = 3600;

#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) busy: TimeDelta,
    pub(super) most_running: u32,
    pub(super) overlapping: u64,
    pub(super) skipped: u64,
    pub(super) queued: u64,
    pub(super) cancelled: u64,
}

#[derive(Debug)]
pub(super) struct Runs {
    pub(super) jobs: Vec<Tally>,
    /// At the first instant with that many.
    pub(super) most: Option<Moment>,
    pub(super) hours: Vec<Moment>,
}

#[derive(Debug)]
struct Job {
    /// `None` if no time.
    duration: Option<TimeDelta>,
    max_instances: usize,
    policy: OverlapPolicy,
    /// Oldest first. All take the same time, so the oldest also ends first.
    open: VecDeque<Run>,
    waiting: u64,
    runs: u64,
    tally: Tally,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    number: u64,
    start: DateTime<Utc>,
}

#[derive(Debug)]
pub(super) struct Running {
    window: Window,
    jobs: Vec<Job>,
    /// Job and run. Entries of cancelled runs stay and are skipped.
    ends: BinaryHeap<Reverse<(DateTime<Utc>, usize, u64)>>,
    level: Level,
}

impl Running {
    pub(super) fn new(jobs: &[Simulated<'_>], window: Window) -> Self {
        let jobs = jobs.iter().map(|job| Job {
            duration: job.duration.filter(|duration| !duration.is_zero()).map(time_of),
            max_instances: usize::try_from(job.max_instances.max(1)).unwrap_or(usize::MAX),
            policy: job.overlap_policy,
            open: VecDeque::new(),
            waiting: 0,
            runs: 0,
            tally: Tally::default(),
        });
        Self { window, jobs: jobs.collect(), ends: BinaryHeap::new(), level: Level::new(window) }
    }

    /// Must not be earlier than any start before.
    pub(super) fn start(&mut self, index: usize, at: DateTime<Utc>) {
        self.settle(at);
        let Some(job) = self.jobs.get_mut(index).filter(|job| job.duration.is_some()) else { return };
        if !job.open.is_empty() {
            job.tally.overlapping += 1;
        }
        if job.open.len() >= job.max_instances {
            match job.policy {
                OverlapPolicy::Skip => {
                    job.tally.skipped += 1;
                    return;
                }
                OverlapPolicy::Queue => {
                    job.tally.queued += 1;
                    job.waiting += 1;
                    return;
                }
                OverlapPolicy::CancelOldest => {
                    job.tally.cancelled += 1;
                    job.close_oldest(at);
                    self.level.change(at, -1);
                }
                OverlapPolicy::Allow => {}
            }
        }
        self.open(index, at);
    }

    /// A run beyond the window counts up to the end of the window.
    pub(super) fn finish(mut self) -> Runs {
        let end = self.window.to;
        self.settle(end);
        for job in &mut self.jobs {
            while !job.open.is_empty() {
                job.close_oldest(end);
            }
        }
        self.level.hold_until(end);
        Runs {
            jobs: self.jobs.into_iter().map(|job| job.tally).collect(),
            most: self.level.most,
            hours: self.level.hours,
        }
    }

    /// Ends the runs up to an instant and starts the runs that were queued behind them.
    fn settle(&mut self, until: DateTime<Utc>) {
        while let Some(Reverse((end, index, number))) = self.ends.peek().copied()
            && end <= until
        {
            self.ends.pop();
            let Some(job) = self.jobs.get_mut(index) else { continue };
            if job.open.front().is_none_or(|run| run.number != number) {
                continue;
            }
            job.close_oldest(end);
            self.level.change(end, -1);
            if job.waiting > 0 {
                job.waiting -= 1;
                self.open(index, end);
            }
        }
    }

    fn open(&mut self, index: usize, at: DateTime<Utc>) {
        let Some(job) = self.jobs.get_mut(index) else { return };
        let Some(end) = job.duration.and_then(|duration| at.checked_add_signed(duration)) else { return };
        self.ends.push(Reverse((end, index, job.runs)));
        job.open.push_back(Run { number: job.runs, start: at });
        job.runs += 1;
        let open = u32::try_from(job.open.len()).unwrap_or(u32::MAX);
        job.tally.most_running = job.tally.most_running.max(open);
        self.level.change(at, 1);
    }
}

impl Job {
    fn close_oldest(&mut self, at: DateTime<Utc>) {
        if let Some(run) = self.open.pop_front() {
            self.tally.busy += at - run.start;
        }
    }
}

/// A duration that chrono cannot hold outlasts every window.
fn time_of(duration: std::time::Duration) -> TimeDelta {
    let longest = TimeDelta::days(2 * Window::MOST_DAYS);
    TimeDelta::from_std(duration).map_or(longest, |duration| duration.min(longest))
}

#[derive(Debug)]
struct Level {
    count: u32,
    since: DateTime<Utc>,
    most: Option<Moment>,
    hours: Vec<Moment>,
}

impl Level {
    fn new(window: Window) -> Self {
        let first = hour(window.from);
        let last = hour(window.to - TimeDelta::nanoseconds(1));
        let hours = (first..=last).filter_map(|hour| {
            Some(Moment { at: DateTime::from_timestamp(hour.checked_mul(HOUR)?, 0)?, count: 0 })
        });
        Self { count: 0, since: window.from, most: None, hours: hours.collect() }
    }

    fn change(&mut self, at: DateTime<Utc>, by: i32) {
        self.hold_until(at);
        self.count = self.count.saturating_add_signed(by);
    }

    /// A level without duration, as between an end and a start at one instant, does not count.
    fn hold_until(&mut self, at: DateTime<Utc>) {
        if at <= self.since {
            return;
        }
        if self.count > 0 {
            if self.most.is_none_or(|most| most.count < self.count) {
                self.most = Some(Moment { at: self.since, count: self.count });
            }
            let first = self.hours.first().map_or(0, |first| hour(first.at));
            let skipped = usize::try_from(hour(self.since) - first).unwrap_or(0);
            let touched = self.hours.iter_mut().skip(skipped).take_while(|hour| hour.at < at);
            touched.for_each(|hour| hour.count = hour.count.max(self.count));
        }
        self.since = at;
    }
}

fn hour(at: DateTime<Utc>) -> i64 {
    at.timestamp().div_euclid(HOUR)
}

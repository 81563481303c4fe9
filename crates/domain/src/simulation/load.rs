//! Counts starts per minute, second and job; finds the busiest minutes.
//!
//! Starts arrive in the order of time, so only the current minute has full detail. Past minutes
//! keep the number of starts, and the busiest few keep their jobs. Pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use chrono::{DateTime, Utc};

use super::Window;
use super::moment::Moment;

const SECONDS: i64 = 60;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Counted from the epoch.
    first: i64,
    counts: Vec<u32>,
}

impl Histogram {
    fn new(window: Window) -> Self {
        let first = minute(window.from);
        let size = usize::try_from(minute(window.to) - first + 1).unwrap_or(0);
        Self { first, counts: vec![0; size] }
    }

    pub fn minutes(&self) -> impl Iterator<Item = Moment> {
        let busy = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        busy.map(|(index, count)| Moment { at: self.instant(index), count: *count })
    }

    /// The first of equal ones.
    pub fn busiest(&self) -> Option<Moment> {
        self.minutes().max_by_key(|minute| (minute.count, Reverse(minute.at)))
    }

    pub(super) fn index(&self, at: DateTime<Utc>) -> Option<usize> {
        usize::try_from(minute(at) - self.first).ok().filter(|index| *index < self.counts.len())
    }

    pub(super) fn count(&self, index: usize) -> u32 {
        self.counts.get(index).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, index: usize) {
        if let Some(count) = self.counts.get_mut(index) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        if let Some(count) = self.counts.get_mut(index) {
            *count = count.saturating_sub(1);
        }
    }

    pub(super) fn instant(&self, index: usize) -> DateTime<Utc> {
        let minute = i64::try_from(index).ok().and_then(|index| self.first.checked_add(index));
        minute
            .and_then(|minute| DateTime::from_timestamp(minute.checked_mul(SECONDS)?, 0))
            .unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

fn minute(at: DateTime<Utc>) -> i64 {
    at.timestamp().div_euclid(SECONDS)
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BusyMinute {
    // Field order: more starts first, and the earlier of equals.
    pub(super) starts: u64,
    pub(super) index: Reverse<usize>,
    pub(super) in_a_second: u32,
    pub(super) jobs: Vec<(usize, u32)>,
}

#[derive(Debug)]
pub(super) struct Load {
    pub(super) histogram: Histogram,
    pub(super) busiest_second: Option<Moment>,
    starts: Vec<u64>,
    /// Per job, the sum over its starts of the starts in that minute.
    company: Vec<u64>,
    total: u64,
    most_peaks: usize,
    peaks: BinaryHeap<Reverse<BusyMinute>>,
    present: Present,
}

#[derive(Debug, Default)]
struct Present {
    index: usize,
    starts: Vec<u32>,
    jobs: Vec<usize>,
    second: i64,
    in_this_second: u32,
    in_a_second: u32,
}

impl Load {
    pub(super) fn new(jobs: usize, window: Window, most_peaks: usize) -> Self {
        Self {
            histogram: Histogram::new(window),
            busiest_second: None,
            starts: vec![0; jobs],
            company: vec![0; jobs],
            total: 0,
            most_peaks,
            peaks: BinaryHeap::new(),
            present: Present { starts: vec![0; jobs], ..Present::default() },
        }
    }

    /// A start must not be earlier than any before.
    pub(super) fn start(&mut self, job: usize, at: DateTime<Utc>) {
        let Some(index) = self.histogram.index(at) else { return };
        if index != self.present.index {
            self.close_minute();
            self.present.index = index;
        }
        self.histogram.add(index);
        self.total += 1;
        if let Some(starts) = self.starts.get_mut(job) {
            *starts += 1;
        }
        let in_this_second = self.present.start(job, at.timestamp());
        if self.busiest_second.is_none_or(|second| second.count < in_this_second) {
            let at = DateTime::from_timestamp(at.timestamp(), 0).unwrap_or(at);
            self.busiest_second = Some(Moment { at, count: in_this_second });
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn starts_by_job(&self) -> &[u64] {
        &self.starts
    }

    /// Average starts, its own included, in the minutes of this job's starts; 0 without starts.
    pub(super) fn company(&self, job: usize) -> f64 {
        let of = |values: &[u64]| values.get(job).copied().unwrap_or(0);
        mean(of(&self.company), of(&self.starts))
    }

    pub(super) fn finish(mut self) -> Self {
        self.close_minute();
        self
    }

    pub(super) fn into_parts(self) -> (Histogram, Vec<u64>, Option<Moment>, Vec<BusyMinute>) {
        let peaks = self.peaks.into_sorted_vec().into_iter().map(|Reverse(minute)| minute).collect();
        (self.histogram, self.starts, self.busiest_second, peaks)
    }

    fn close_minute(&mut self) {
        let index = self.present.index;
        let starts = u64::from(self.histogram.count(index));
        let jobs: Vec<(usize, u32)> = self.present.take();
        for (job, own) in &jobs {
            if let Some(company) = self.company.get_mut(*job) {
                *company = company.saturating_add(starts * u64::from(*own));
            }
        }
        let in_a_second = std::mem::take(&mut self.present.in_a_second);
        let full = self.peaks.len() >= self.most_peaks;
        if starts == 0 || full && self.peaks.peek().is_none_or(|Reverse(least)| least.starts >= starts) {
            return;
        }
        if full {
            self.peaks.pop();
        }
        self.peaks.push(Reverse(BusyMinute { starts, index: Reverse(index), in_a_second, jobs }));
    }
}

impl Present {
    /// This start included.
    fn start(&mut self, job: usize, second: i64) -> u32 {
        if let Some(starts) = self.starts.get_mut(job) {
            if *starts == 0 {
                self.jobs.push(job);
            }
            *starts += 1;
        }
        if second != self.second {
            self.second = second;
            self.in_this_second = 0;
        }
        self.in_this_second += 1;
        self.in_a_second = self.in_a_second.max(self.in_this_second);
        self.in_this_second
    }

    fn take(&mut self) -> Vec<(usize, u32)> {
        let starts = &mut self.starts;
        self.jobs.drain(..).map(|job| (job, starts.get_mut(job).map_or(0, std::mem::take))).collect()
    }
}

/// For display; the sums stay far below the exact range of a float.
pub(super) fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

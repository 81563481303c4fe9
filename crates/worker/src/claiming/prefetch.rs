//! How far ahead of its free slots a worker claims.
//!
//! With attempts of seconds, a worker claims only for its free slots: other workers can start the
//! remaining runs sooner. With attempts of microseconds, this would be one round trip per handful
//! of runs. So a worker claims as many runs as its slots will start within [`WINDOW`]. A run that
//! has not started after [`SLOT_WAIT`] is released, which does not count as an attempt.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Prefetched runs start within this time, if attempts keep their mean duration.
const WINDOW: Duration = Duration::from_millis(100);
/// Maximum runs claimed ahead of the free slots.
pub(crate) const MAX_AHEAD: usize = 1_000;
/// A claimed run that has not started after this time is released.
pub(crate) const SLOT_WAIT: Duration = Duration::from_secs(1);
/// Attempts may take long.
const UNKNOWN: u64 = u64::MAX;
/// Attempts with a smaller mean duration, in nanoseconds, run in place. The limit was not tuned.
const TINY: u64 = 200_000;
/// Each attempt moves the mean by 1/WEIGHT of the difference.
const WEIGHT: u64 = 16;

#[derive(Debug)]
pub(crate) struct Prefetch {
    concurrency: usize,
    /// Moving mean of the durations of attempts, in nanoseconds.
    mean: AtomicU64,
    waiting: AtomicUsize,
    claimed_ahead: metrics::Gauge,
    /// A claimed run has started or was released.
    pub(crate) moved: Notify,
}

impl Prefetch {
    pub(crate) fn new(concurrency: u32) -> Self {
        Self {
            concurrency: usize::try_from(concurrency).unwrap_or(1),
            mean: AtomicU64::new(UNKNOWN),
            waiting: AtomicUsize::new(0),
            claimed_ahead: metrics::gauge!("sched_claimed_ahead"),
            moved: Notify::new(),
        }
    }

    /// Records the duration of an attempt, or of a wait for a slot that timed out.
    pub(crate) fn ended(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(UNKNOWN - 1);
        let (Ok(_) | Err(_)) = self.mean.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |mean| {
            // A long attempt counts at once: with a short estimate, claimed runs would wait too
            // long.
            Some(if mean == UNKNOWN || took > mean { took } else { mean - mean / WEIGHT + took / WEIGHT })
        });
    }

    pub(crate) fn claimed(&self, runs: usize) {
        self.waiting.fetch_add(runs, Ordering::Relaxed);
        self.claimed_ahead.increment(u32::try_from(runs).map_or(0.0, f64::from));
    }

    /// Records that claimed runs have started or were released.
    pub(crate) fn record_starts(&self, runs: usize) {
        self.waiting.fetch_sub(runs, Ordering::Relaxed);
        self.claimed_ahead.decrement(u32::try_from(runs).map_or(0.0, f64::from));
        self.moved.notify_one();
    }

    /// Claimed runs that have not started.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Attempts are so short that the start of a task for each is a part of their cost that counts. Also before the first
    /// attempt has ended: if the first ones are long, their driver takes them over.
    pub(crate) fn are_tiny(&self) -> bool {
        let mean = self.mean.load(Ordering::Relaxed);
        mean == UNKNOWN || mean < TINY
    }

    /// 0 while a statement would not pay.
    pub(crate) fn room(&self, free_slots: usize) -> usize {
        let ahead = self.ahead();
        let room = (free_slots + ahead).saturating_sub(self.waiting.load(Ordering::Relaxed));
        // A free slot without a run is filled at once.
        if room < ahead / 2 { 0 } else { room }
    }

    fn ahead(&self) -> usize {
        let mean = self.mean.load(Ordering::Relaxed).max(1);
        let each = u64::try_from(WINDOW.as_nanos()).unwrap_or(u64::MAX) / mean;
        usize::try_from(each).unwrap_or(MAX_AHEAD).saturating_mul(self.concurrency).min(MAX_AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(durations: impl IntoIterator<Item = Duration>) -> Prefetch {
        let prefetch = Prefetch::new(10);
        durations.into_iter().for_each(|took| prefetch.ended(took));
        prefetch
    }

    #[test]
    fn new_worker_claims_for_its_free_slots() {
        let prefetch = Prefetch::new(10);
        assert_eq!(prefetch.room(10), 10);
        prefetch.claimed(4);
        assert_eq!((prefetch.room(10), prefetch.room(3)), (6, 0));
    }

    #[test]
    fn short_attempts_are_prefetched_and_long_ones_are_not() {
        let short = after(std::iter::repeat_n(Duration::from_micros(20), 1_000));
        assert_eq!(short.room(10), MAX_AHEAD + 10);
        let middling = after(std::iter::repeat_n(Duration::from_millis(10), 1_000));
        assert_eq!(middling.room(0), 100, "ten slots start ten each within the window");
        let long = after(std::iter::repeat_n(Duration::from_millis(101), 1_000));
        assert_eq!((long.room(0), long.room(7)), (0, 7));
    }

    #[test]
    fn one_long_attempt_ends_prefetching() {
        let prefetch = after(std::iter::repeat_n(Duration::from_micros(20), 1_000));
        prefetch.ended(Duration::from_secs(1));
        assert_eq!(prefetch.room(3), 3);
    }

    #[test]
    fn prefetched_runs_are_refilled_at_half() {
        let prefetch = after(std::iter::repeat_n(Duration::from_micros(20), 1_000));
        prefetch.claimed(MAX_AHEAD);
        assert_eq!(prefetch.room(0), 0);
        prefetch.record_starts(MAX_AHEAD / 2 - 1);
        assert_eq!(prefetch.room(0), 0);
        prefetch.record_starts(1);
        assert_eq!(prefetch.room(0), MAX_AHEAD / 2);
    }
}

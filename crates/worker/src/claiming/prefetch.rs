//! How far ahead of its free slots a worker claims.
//!
//! Where attempts take seconds, a worker claims for the slots that are free: what it cannot start at once is better left to others. Where
//! they take microseconds, a claim for each free slot would be one round trip for each handful of work. So the worker learns how long
//! its attempts take and claims as many as its slots will have begun within [`WINDOW`]. It may be wrong: what has not been started
//! after [`PATIENCE`] is handed back, and costs its dispatch no attempt; and the attempts that hold the slots are known to be long then.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// What is claimed ahead is begun within this, if attempts go on taking as long as they do.
const WINDOW: Duration = Duration::from_millis(100);
/// Most dispatches claimed ahead of the free slots.
pub(crate) const MOST_AHEAD: usize = 1_000;
/// A claimed dispatch that has not been started after this is handed back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// No attempt has ended yet: they may take long.
const UNKNOWN: u64 = u64::MAX;
/// Each attempt moves the mean by one part in so many.
const WEIGHT: u64 = 16;

/// What is known of the attempts of this worker.
#[derive(Debug)]
pub(crate) struct Pace {
    concurrency: usize,
    /// Mean duration of attempts in nanoseconds, of the latest most.
    mean: AtomicU64,
    /// Claimed, not started.
    waiting: AtomicUsize,
    /// Something was started, or handed back.
    pub(crate) moved: Notify,
}

impl Pace {
    pub(crate) fn new(concurrency: u32) -> Self {
        Self {
            concurrency: usize::try_from(concurrency).unwrap_or(1),
            mean: AtomicU64::new(UNKNOWN),
            waiting: AtomicUsize::new(0),
            moved: Notify::new(),
        }
    }

    /// Notes how long an attempt took, or how long a slot was waited for in vain.
    pub(crate) fn ended(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(UNKNOWN - 1);
        let (Ok(_) | Err(_)) = self.mean.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |mean| {
            // A long attempt counts at once and in full: being wrong in this direction strands work.
            Some(if mean == UNKNOWN || took > mean { took } else { mean - mean / WEIGHT + took / WEIGHT })
        });
    }

    /// Notes claims.
    pub(crate) fn claimed(&self, dispatches: usize) {
        self.waiting.fetch_add(dispatches, Ordering::Relaxed);
        metrics::gauge!("sched_claimed_ahead").increment(u32::try_from(dispatches).map_or(0.0, f64::from));
    }

    /// Notes that a claimed dispatch was started or handed back.
    pub(crate) fn begun(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        metrics::gauge!("sched_claimed_ahead").decrement(1.0);
        self.moved.notify_one();
    }

    /// How many may be claimed now with so many free slots; 0 while that is not worth a statement.
    pub(crate) fn room(&self, free_slots: usize) -> usize {
        let ahead = self.ahead();
        let room = (free_slots + ahead).saturating_sub(self.waiting.load(Ordering::Relaxed));
        // Ahead of the slots there is time to gather; a free slot with nothing to start is served at once.
        if room < ahead / 2 { 0 } else { room }
    }

    /// How many to claim ahead of the free slots.
    fn ahead(&self) -> usize {
        let mean = self.mean.load(Ordering::Relaxed).max(1);
        let each = u64::try_from(WINDOW.as_nanos()).unwrap_or(u64::MAX) / mean;
        usize::try_from(each).unwrap_or(MOST_AHEAD).saturating_mul(self.concurrency).min(MOST_AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(durations: impl IntoIterator<Item = Duration>) -> Pace {
        let pace = Pace::new(10);
        durations.into_iter().for_each(|took| pace.ended(took));
        pace
    }

    #[test]
    fn a_worker_that_knows_nothing_claims_for_its_free_slots() {
        let pace = Pace::new(10);
        assert_eq!(pace.room(10), 10);
        pace.claimed(4);
        assert_eq!((pace.room(10), pace.room(3)), (6, 0));
    }

    #[test]
    fn short_attempts_are_claimed_ahead_and_long_ones_are_not() {
        let short = after(std::iter::repeat_n(Duration::from_micros(20), 1_000));
        assert_eq!(short.room(10), MOST_AHEAD + 10);
        let middling = after(std::iter::repeat_n(Duration::from_millis(10), 1_000));
        assert_eq!(middling.room(0), 100, "ten slots begin ten each within the window");
        let long = after(std::iter::repeat_n(Duration::from_millis(101), 1_000));
        assert_eq!((long.room(0), long.room(7)), (0, 7));
    }

    #[test]
    fn one_long_attempt_ends_claiming_ahead() {
        let pace = after(std::iter::repeat_n(Duration::from_micros(20), 1_000));
        pace.ended(Duration::from_secs(1));
        assert_eq!(pace.room(3), 3);
    }

    #[test]
    fn what_waits_is_refilled_when_half_of_it_was_begun() {
        let pace = after(std::iter::repeat_n(Duration::from_micros(20), 1_000));
        pace.claimed(MOST_AHEAD);
        assert_eq!(pace.room(0), 0);
        (0..MOST_AHEAD / 2 - 1).for_each(|_| pace.begun());
        assert_eq!(pace.room(0), 0);
        pace.begun();
        assert_eq!(pace.room(0), MOST_AHEAD / 2);
    }
}

//! Overlap: which fires of a job may be dispatched while other runs of the job are open.
//!
//! Up to `max_instances` runs of a job may run at once. [`admit`] decides about further fires:
//!
//! - `skip`: they are skipped; of fires that come due together the latest are dispatched;
//! - `queue`: they are dispatched and queued, oldest first; a queue of [`LONGEST_LINE`] admits no
//!   more, so that a slow job does not pile up work without a bound;
//! - `cancel_oldest`: the latest are dispatched, and the oldest open runs that take their room are
//!   cancelled;
//! - `allow`: all are dispatched.
//!
//! The scheduler cancels runs and releases queued ones.

use std::ops::Range;

use super::OverlapPolicy;

pub const LONGEST_LINE: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub open: usize,
    /// Zero counts as one.
    pub max_instances: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The remaining ones are skipped.
    pub dispatched: Range<usize>,
    /// Number of the last dispatched fires that are queued until other runs have ended.
    pub waiting: usize,
    /// Number of the oldest open dispatches to cancel.
    pub cancelled: usize,
}

pub fn admit(policy: OverlapPolicy, load: Load, due: usize) -> Admission {
    let max = load.max_instances.max(1);
    let all = Admission { dispatched: 0..due, waiting: 0, cancelled: 0 };
    match policy {
        OverlapPolicy::Allow => all,
        OverlapPolicy::Skip => {
            let room = max.saturating_sub(load.open).min(due);
            Admission { dispatched: due - room..due, ..all }
        }
        OverlapPolicy::Queue => {
            let room = max.saturating_add(LONGEST_LINE).saturating_sub(load.open).min(due);
            let beyond = load.open.saturating_add(room).saturating_sub(max);
            Admission { dispatched: 0..room, waiting: beyond.min(room), cancelled: 0 }
        }
        OverlapPolicy::CancelOldest => {
            let room = max.min(due);
            let beyond = load.open.saturating_add(room).saturating_sub(max);
            let cancelled = if room == 0 { 0 } else { beyond.min(load.open) };
            Admission { dispatched: due - room..due, waiting: 0, cancelled }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn admitted(policy: OverlapPolicy, open: usize, max_instances: usize, due: usize) -> Admission {
        admit(policy, Load { open, max_instances }, due)
    }

    #[test]
    fn skip_dispatches_the_latest_that_fit() {
        let skip = |open, max, due| admitted(OverlapPolicy::Skip, open, max, due).dispatched;
        assert_eq!((skip(0, 1, 1), skip(1, 1, 1), skip(0, 1, 3)), (0..1, 1..1, 2..3));
        assert_eq!((skip(1, 3, 5), skip(7, 3, 2), skip(0, 0, 1)), (3..5, 2..2, 0..1));
    }

    #[test]
    fn queue_dispatches_and_queues_the_earliest() {
        let queue = |open, max, due| admitted(OverlapPolicy::Queue, open, max, due);
        assert_eq!(queue(0, 1, 3), Admission { dispatched: 0..3, waiting: 2, cancelled: 0 });
        assert_eq!(queue(4, 2, 2), Admission { dispatched: 0..2, waiting: 2, cancelled: 0 });
        assert_eq!(queue(0, 5, 2), Admission { dispatched: 0..2, waiting: 0, cancelled: 0 });
        let full = queue(LONGEST_LINE, 1, 3);
        assert_eq!(full, Admission { dispatched: 0..1, waiting: 1, cancelled: 0 });
        assert_eq!(queue(LONGEST_LINE + 1, 1, 3).dispatched, 0..0);
    }

    #[test]
    fn cancel_oldest_makes_room_for_the_latest() {
        let cancel = |open, max, due| admitted(OverlapPolicy::CancelOldest, open, max, due);
        assert_eq!(cancel(1, 1, 1), Admission { dispatched: 0..1, waiting: 0, cancelled: 1 });
        assert_eq!(cancel(0, 1, 4), Admission { dispatched: 3..4, waiting: 0, cancelled: 0 });
        assert_eq!(cancel(2, 3, 2), Admission { dispatched: 0..2, waiting: 0, cancelled: 1 });
        assert_eq!(cancel(5, 2, 0), Admission { dispatched: 0..0, waiting: 0, cancelled: 0 });
    }

    proptest! {
        #[test]
        fn no_policy_but_allow_lets_more_run_than_may(open in 0_usize..50, max in 1_usize..20, due in 0_usize..60) {
            for policy in [OverlapPolicy::Skip, OverlapPolicy::Queue, OverlapPolicy::CancelOldest] {
                let Admission { dispatched, waiting, cancelled } = admitted(policy, open, max, due);
                prop_assert!(dispatched.end <= due && waiting <= dispatched.len() && cancelled <= open);
                let running = open - cancelled + dispatched.len() - waiting;
                prop_assert!(running <= max.max(open), "{policy}: {running} of {max}, {open} open before");
            }
            prop_assert_eq!(admitted(OverlapPolicy::Allow, open, max, due).dispatched, 0..due);
        }
    }
}

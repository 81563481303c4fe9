//! How the number of living workers with common queues changes the claims and connections of one.
//!
//! All claims of a queue read the head of one line, one claim after the other. Of many workers, each
//! claims rarely and takes more at once, and stores its results over one connection. The number
//! comes from the latest heartbeat. It only changes speed, so it may be old.

use std::sync::atomic::{AtomicI32, Ordering};

/// From this number of living workers on, they are many.
pub(crate) const MANY: i32 = 4;

/// Maximum runs per claim, which keeps its transaction short: of few workers, and of many.
const PER_CLAIM: (usize, usize) = (500, 1_000);
/// Connections that store results: of few workers, and of many. Each waits for the disk half of its
/// time, so the second one helps a worker that is almost alone.
const WRITERS: (usize, usize) = (MAX_WRITERS, 1);
pub(crate) const MAX_WRITERS: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Fleet {
    living: AtomicI32,
}

impl Fleet {
    /// Records the number of living workers, which the database counts up to [`MANY`].
    pub(crate) fn update(&self, living: i32) {
        self.living.store(living, Ordering::Relaxed);
    }

    pub(crate) fn runs_per_claim(&self) -> usize {
        self.choose(PER_CLAIM)
    }

    pub(crate) fn writers(&self) -> usize {
        self.choose(WRITERS)
    }

    fn choose<T>(&self, (few, many): (T, T)) -> T {
        if self.living.load(Ordering::Relaxed) < MANY { few } else { many }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_workers_claim_more_with_fewer_connections() {
        let fleet = Fleet::default();
        for (living, expected) in [(0, (500, 2)), (MANY - 1, (500, 2)), (MANY, (1_000, 1)), (1, (500, 2))] {
            fleet.update(living);
            assert_eq!((fleet.runs_per_claim(), fleet.writers()), expected, "{living} workers");
        }
    }
}

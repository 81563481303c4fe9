//! How long the same results are offered to the database, and how often.
//!
//! Judges errors and counts; it stores nothing, and is forgotten with the batch it belongs to.

use std::time::{Duration, Instant};

use sched_model::DbError;
use sched_runtime::monotonic_clock::monotonic;

use super::{HALVED_AFTER, PAUSES, REFUSED_AFTER};

/// How long refusals are taken for something that passes, and how long to wait between two offers.
pub(super) struct Patience {
    since: Instant,
    pause: Duration,
    /// Offers without an answer, in a row.
    unanswered: u32,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { since: monotonic(), pause: PAUSES.0, unanswered: 0 }
    }

    /// Whether the error says that the same results will never be taken.
    pub(super) fn is_over(&self, error: &DbError) -> bool {
        match error {
            DbError::Constraint { .. } => true,
            DbError::Other(_) | DbError::Corrupt { .. } | DbError::NotFound | DbError::TermOver => {
                self.since.elapsed() > REFUSED_AFTER
            }
            DbError::Unavailable(_) | DbError::TimedOut(_) | DbError::Collision(_) => false,
        }
    }

    /// Notes an error; whether offers have failed so often in a row without an answer that fewer results may fare better.
    pub(super) fn is_unanswered(&mut self, error: &DbError) -> bool {
        let is_unanswered = matches!(error, DbError::Unavailable(_) | DbError::TimedOut(_));
        self.unanswered = if is_unanswered { self.unanswered + 1 } else { 0 };
        self.unanswered >= HALVED_AFTER
    }

    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }
}

//! How long and how often the writer retries the same batch.
//!
//! It classifies errors and counts them. It lives as long as its batch.

use std::time::{Duration, Instant};

use sched_runtime::monotonic_clock::monotonic;

use crate::backend::DbError;

use super::{HALVED_AFTER, PAUSES, REFUSED_AFTER};

/// Decides whether a rejection is permanent, and how long to wait before the next try.
pub(super) struct RetryBudget {
    since: Instant,
    pause: Duration,
    /// Tries without an answer, in a row.
    unanswered: u32,
}

impl RetryBudget {
    pub(super) fn new() -> Self {
        Self { since: monotonic(), pause: PAUSES.0, unanswered: 0 }
    }

    /// Whether the database will reject the same batch always.
    pub(super) fn is_permanent(&self, error: &DbError) -> bool {
        match error {
            DbError::Constraint { .. } => true,
            DbError::Other(_) | DbError::Corrupt { .. } | DbError::NotFound | DbError::TermOver => {
                self.since.elapsed() > REFUSED_AFTER
            }
            DbError::Unavailable(_) | DbError::TimedOut(_) | DbError::Collision(_) => false,
        }
    }

    /// Records an error. Returns whether so many tries in a row had no answer that a smaller batch may
    /// succeed.
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

//! How long and how often the writer retries the same batch. It lives as long as its batch.

use std::time::{Duration, Instant};

use sched_runtime::monotonic_clock::monotonic;

use crate::backend::DbError;

use super::{HALVED_AFTER, PAUSES, REFUSED_AFTER};

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

    pub(super) fn is_permanent(&self, error: &DbError) -> bool {
        match error {
            DbError::Constraint { .. } => true,
            DbError::Other(_) | DbError::Corrupt { .. } | DbError::NotFound | DbError::TermOver => {
                self.since.elapsed() > REFUSED_AFTER
            }
            // A grant of an operator is the fix, and the ends are valid.
            DbError::Unavailable(_)
            | DbError::TimedOut(_)
            | DbError::Collision(_)
            | DbError::NoPermission(_) => false,
        }
    }

    /// Returns whether a smaller batch may succeed after so many tries without an answer.
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

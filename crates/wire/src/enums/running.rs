//! Vocabularies of runs and attempts.

use std::fmt;

use super::UnknownWord;

words! {
    /// Why an attempt is stuck.
    StuckReason {
        /// Its worker has been silent for longer than its lease, or is marked as lost.
        WorkerLost = "worker_lost",
        /// Its worker is alive, but has not ended it within its timeout.
        Overdue = "overdue",
        /// No claim names it, and its worker is gone or its timeout has passed.
        ClaimMissing = "claim_missing",
    }
}

words! {
    /// Order of a list by time of creation; a minus reverses it.
    TimeSort {
        /// Oldest first.
        CreatedAt = "created_at",
        /// Newest first.
        CreatedAtDown = "-created_at",
    }
}

words! {
    /// Result of a request to cancel.
    CancelState {
        /// The run is cancelled.
        Cancelled = "cancelled",
        /// The run is running; its worker stops it.
        Requested = "requested",
    }
}

words! {
    /// Decision on a dead letter.
    DeadLetterState {
        /// No decision yet.
        Open = "open",
        /// A new run retries it.
        Retried = "retried",
        /// It was discarded.
        Discarded = "discarded",
    }
}

words! {
    /// Which dead letters to list.
    DeadLetterChoice {
        /// Without a decision.
        Open = "open",
        /// Retried.
        Retried = "retried",
        /// Discarded.
        Discarded = "discarded",
        /// All.
        All = "all",
    }
}

words! {
    /// Status of a run.
    RunStatus {
        /// It waits for a worker.
        Waiting = "waiting",
        /// A worker executes it.
        Running = "running",
        /// Its last attempt succeeded.
        Succeeded = "succeeded",
        /// Its only allowed attempt failed, or it expired before its first attempt.
        Failed = "failed",
        /// Its only allowed attempt timed out or was lost.
        TimedOut = "timed_out",
        /// A client or the overlap policy cancelled it.
        Cancelled = "cancelled",
        /// Its retries are exhausted, or it was lost too often.
        DeadLetter = "dead_letter",
    }
}

impl RunStatus {
    /// Returns whether the status is final.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

words! {
    /// Outcome of an attempt.
    AttemptStatus {
        /// The handler reported success.
        Succeeded = "succeeded",
        /// The handler reported a failure.
        Failed = "failed",
        /// It exceeded its timeout and was killed.
        TimedOut = "timed_out",
        /// It was cancelled and killed.
        Cancelled = "cancelled",
        /// Its worker disappeared; its progress is unknown.
        Lost = "lost",
        /// Its worker stopped, killed it and released the run. Not a failure.
        Released = "released",
        /// No attempt began within `start_within_seconds`, so the run failed without one.
        Expired = "expired",
    }
}

words! {
    /// Which runs a filter matches: those in one state, or those with any kind of failure.
    RunFilter {
        /// Runs that wait for a worker.
        Waiting = "waiting",
        /// Runs that a worker runs.
        Running = "running",
        /// Runs that succeeded.
        Succeeded = "succeeded",
        /// Runs without retries whose attempt failed, and runs that expired.
        Failed = "failed",
        /// Runs without retries whose attempt ran out of time or was lost.
        TimedOut = "timed_out",
        /// Cancelled runs.
        Cancelled = "cancelled",
        /// Runs with exhausted retries.
        DeadLetter = "dead_letter",
        /// Every kind of failure: `failed`, `timed_out` and `dead_letter`.
        Failing = "failing",
    }
}

words! {
    /// Which attempts a filter matches: those that ended in one way, or those with any kind of failure.
    AttemptFilter {
        /// Attempts that succeeded.
        Succeeded = "succeeded",
        /// Attempts that failed.
        Failed = "failed",
        /// Attempts that ran out of time.
        TimedOut = "timed_out",
        /// Cancelled attempts.
        Cancelled = "cancelled",
        /// Attempts whose worker disappeared.
        Lost = "lost",
        /// Attempts that a stopping worker handed back. Not a failure.
        Released = "released",
        /// Runs that failed because no attempt began in time.
        Expired = "expired",
        /// Every kind of failure: `failed`, `timed_out`, `lost` and `expired`.
        Failing = "failing",
    }
}

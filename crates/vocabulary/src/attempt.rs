//! Outcomes of attempts.

text_enum! {
    pub enum AttemptOutcome {
        Completed = "COMPLETED",
        Failed = "FAILED",
        Timeout = "TIMEOUT",
        /// It was cancelled and killed.
        Cancelled = "CANCELLED",
        /// Its worker disappeared; the progress of the attempt is unknown.
        Lost = "LOST",
        /// Its worker stopped, killed it and handed the dispatch back. Not a failure.
        Released = "RELEASED",
        /// No attempt began in time, so the run failed. A record of the run, without a worker.
        Expired = "EXPIRED",
    }
}

impl AttemptOutcome {
    /// The name in the API, on the command line and as a label of metrics.
    #[must_use]
    pub const fn public_name(self) -> &'static str {
        match self {
            Self::Completed => "succeeded",
            Self::Failed => "failed",
            Self::Timeout => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Released => "released",
            Self::Expired => "expired",
        }
    }

    /// Whether stored output may lack an end: its worker sent it before the worker was lost.
    #[must_use]
    pub const fn has_incomplete_output(self) -> bool {
        matches!(self, Self::Lost)
    }
}

//! Word lists of dependencies between jobs.

use crate::run_state::DispatchStatus;

text_enum! {
    /// Only the end of a run counts, not the end of an attempt that is retried.
    pub enum AfterCondition {
        Success = "success",
        /// It failed, timed out, or became a dead letter.
        Failure = "failure",
        /// Either of these; a cancelled run is neither.
        Completion = "completion",
    }
}

text_enum! {
    /// Which predecessors must have ended.
    #[derive(Default)]
    pub enum AfterMode {
        /// Each of them since the last such run.
        #[default]
        All = "all",
        Any = "any",
    }
}

impl AfterCondition {
    /// Whether a run with this status meets the condition. A status that is not final meets none.
    #[must_use]
    pub const fn is_met_by(self, status: DispatchStatus) -> bool {
        let (has_succeeded, has_failed) = match status {
            DispatchStatus::Completed => (true, false),
            DispatchStatus::Failed | DispatchStatus::Timeout | DispatchStatus::DeadLetter => (false, true),
            DispatchStatus::Pending | DispatchStatus::InProgress | DispatchStatus::Cancelled => {
                (false, false)
            }
        };
        match self {
            Self::Success => has_succeeded,
            Self::Failure => has_failed,
            Self::Completion => has_succeeded || has_failed,
        }
    }
}

//! The stream of what a run writes: its parameters and its events. Plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{AttemptStatus, RunStatus};
use crate::run::Progress;

/// Parameters of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// Go on until the run has ended; otherwise the stream ends with what is there.
    #[serde(default)]
    pub follow: bool,
    /// Go on after the event with this id. The header `Last-Event-ID` says the same and comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// One event of the stream. Its name stands in the field `event` of the stream too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LogEvent {
    /// What follows is of this attempt.
    Attempt {
        /// The attempt; the id of its attempt once it has ended.
        attempt_id: Uuid,
        /// Which attempt of the run, from 1.
        attempt: i32,
    },
    /// A piece of output. It is whatever the program wrote: never show it unescaped.
    Output {
        /// The attempt.
        attempt_id: Uuid,
        /// `stdout`, `stderr` or `log`.
        stream: String,
        /// The text.
        text: String,
        /// How much of the stream before this piece is not shown, because it was not kept.
        dropped_bytes: u64,
    },
    /// How far the running attempt has come.
    Progress {
        /// The attempt.
        attempt_id: Uuid,
        /// What it told.
        progress: Progress,
    },
    /// An attempt has ended, and all that was kept of its output was shown.
    AttemptEnd {
        /// The attempt.
        attempt_id: Uuid,
        /// How it ended.
        status: AttemptStatus,
        /// What went wrong.
        error_message: Option<String>,
    },
    /// The stream ends here: the run has ended, or nobody wants to follow it.
    End {
        /// What the run has come to.
        status: RunStatus,
    },
}

impl LogEvent {
    /// The name of the event.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Attempt { .. } => "attempt",
            Self::Output { .. } => "output",
            Self::Progress { .. } => "progress",
            Self::AttemptEnd { .. } => "attempt_end",
            Self::End { .. } => "end",
        }
    }
}

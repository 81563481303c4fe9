//! The stream of the output of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{AttemptStatus, RunStatus};
use crate::running::run::Progress;

/// Parameters of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// Continue until the run has ended; otherwise the stream ends with the stored output.
    #[serde(default)]
    pub follow: bool,
    /// Continue after the event with this id. The header `Last-Event-ID` has the same meaning and
    /// takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// An event of the stream. Its name is also in the field `event` of the stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LogEvent {
    /// The following output belongs to this attempt.
    Attempt {
        /// Id of the attempt.
        attempt_id: Uuid,
        /// Number of the attempt, from 1.
        attempt: i32,
    },
    /// A chunk of output, exactly as the program wrote it: escape it before you display it.
    Output {
        /// The attempt.
        attempt_id: Uuid,
        /// `stdout`, `stderr` or `log`.
        stream: String,
        /// The text.
        text: String,
        /// Number of bytes of the stream before this chunk that were not stored.
        dropped_bytes: u64,
    },
    /// Progress of the running attempt.
    Progress {
        /// The attempt.
        attempt_id: Uuid,
        /// The reported progress.
        progress: Progress,
    },
    /// An attempt has ended, and all its stored output was sent.
    AttemptEnd {
        /// The attempt.
        attempt_id: Uuid,
        /// Outcome.
        status: AttemptStatus,
        /// Error message.
        error_message: Option<String>,
        /// Whether the output may lack its end: the worker was lost, and only the output that it
        /// had sent before is stored.
        #[serde(default)]
        is_output_incomplete: bool,
    },
    /// The stream ends: the run has ended, or the request did not set `follow`.
    End {
        /// Status of the run.
        status: RunStatus,
    },
}

impl LogEvent {
    /// Returns the name of the event.
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

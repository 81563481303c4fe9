//! Commands on existing runs, and their answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{CancelState, RunStatus};

/// Body of a command with a reason; may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// Reason, for people; up to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Answer to cancelling a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// The run.
    pub run_id: Uuid,
    /// Whether the run is cancelled, or its worker was notified.
    pub state: CancelState,
    /// Status of the run.
    pub status: RunStatus,
}

/// Answer to cancelling the runs of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobCancelled {
    /// Number of waiting runs that were cancelled.
    pub cancelled: usize,
    /// Number of running runs whose workers were notified; runs with an earlier request are not
    /// counted.
    pub requested: usize,
    /// True if more runs are left; repeat the request to cancel them.
    pub has_more: bool,
}

//! Commands about work that is there already, and what becomes of them. Plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{CancelState, RunStatus};

/// Body of a command that may say why; may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// Why, for people; up to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Answer to cancelling a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// The run.
    pub run_id: Uuid,
    /// Whether it is cancelled, or its worker is to stop it.
    pub state: CancelState,
    /// Its state.
    pub status: RunStatus,
}

/// Answer to cancelling the runs of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobCancelled {
    /// How many waited and are cancelled.
    pub cancelled: usize,
    /// How many run and are to be stopped by their workers, besides those that were to be already.
    pub requested: usize,
    /// Whether there are more, which the same request would cancel next.
    pub has_more: bool,
}

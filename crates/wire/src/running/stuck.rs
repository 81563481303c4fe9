//! Stuck attempts: a request to the leader to end them, and a dry run.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{RunStatus, StuckReason};

/// Body of a request to end stuck attempts; may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetStuckRequest {
    /// Change nothing; return the attempts that would end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Answer to a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StuckAttempts {
    /// Always true: nothing was changed.
    pub dry_run: bool,
    /// Number of stuck attempts among those checked.
    pub count: usize,
    /// Whether more may be stuck: at most 500 are checked.
    pub count_is_at_least: bool,
    /// Whether a scheduler leads. Without a leader no attempt is ended.
    #[serde(default)]
    pub has_leader: Option<bool>,
    /// The stuck attempts.
    pub attempts: Vec<StuckAttempt>,
}

/// An attempt that its worker does not end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StuckAttempt {
    /// The run.
    pub run_id: Uuid,
    /// Slug of the tenant.
    pub tenant: String,
    /// Name of the job; `None` for a job of another tenant than that of the caller.
    pub job: Option<String>,
    /// Number of the attempt.
    pub attempt: u32,
    /// When it was claimed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub claimed_at: DateTime<Utc>,
    /// The worker that claimed it.
    pub worker_id: Uuid,
    /// Host of the worker; `None` if the worker is no longer registered.
    pub hostname: Option<String>,
    /// Reason.
    pub reason: StuckReason,
    /// Status of the run afterwards: `waiting` if it would be retried.
    pub becomes: RunStatus,
}

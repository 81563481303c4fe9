//! Attempts that are stuck: asking the leader to end them, and what that would end. Plain data.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{RunStatus, StuckReason};

/// Body of a request to end what is stuck; may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetStuckRequest {
    /// Ask nobody and change nothing, but say what would be ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Answer to a dry run: what would be ended if the leader looked now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StuckAttempts {
    /// Whether nothing was changed; true.
    pub dry_run: bool,
    /// How many attempts are stuck, of those that were looked at.
    pub count: usize,
    /// Whether there may be more: no more than 500 are looked at.
    pub count_is_at_least: bool,
    /// Whether a scheduler leads; while none does, nobody ends them.
    #[serde(default)]
    pub has_leader: Option<bool>,
    /// Each of them.
    pub attempts: Vec<StuckAttempt>,
}

/// An attempt that nobody ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StuckAttempt {
    /// The run.
    pub run_id: Uuid,
    /// Slug of its tenant.
    pub tenant: String,
    /// Name of its job; `None` when it is of another tenant than the caller's.
    pub job: Option<String>,
    /// Number of the attempt.
    pub attempt: u32,
    /// When it was claimed.
    pub claimed_at: DateTime<Utc>,
    /// The worker that claimed it.
    pub worker_id: Uuid,
    /// Its host; `None` when the worker is not registered any more.
    pub hostname: Option<String>,
    /// Why it would be ended.
    pub reason: StuckReason,
    /// What its run would be then: `PENDING` when it would be run again.
    pub becomes: RunStatus,
}

//! Stored task functions.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::definitions::effective::EffectiveSettings;
use crate::definitions::manifest::RetryPolicySpec;

/// A stored task function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Identifier.
    pub id: Uuid,
    /// Stable name; jobs refer to it.
    pub name: String,
    /// Display name.
    pub display_name: String,
    /// Free text.
    pub description: String,
    /// Handler type.
    pub handler_type: String,
    /// Settings of the handler.
    pub handler_config: Map<String, Value>,
    /// Queue of its runs, unless the job names another.
    pub queue: String,
    /// Timeout of an attempt in seconds, unless the job sets another.
    pub default_timeout_seconds: i32,
    /// Retry policy of jobs without a policy; `None` for the default of the installation.
    pub retry_policy: Option<RetryPolicySpec>,
    /// Attempts, timeout and queue of jobs that set none, with their origins.
    pub effective: EffectiveSettings,
    /// JSON Schema (2020-12) for the arguments of its jobs; `None` accepts any.
    pub args_schema: Option<Map<String, Value>>,
    /// Whether it accepts new jobs.
    pub is_active: bool,
    /// Whether it is paused: none of its runs are dispatched or claimed.
    pub is_paused: bool,
    /// Reason of the pause.
    pub pause_reason: Option<String>,
    /// Built in: cannot be deleted.
    pub is_system: bool,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
}

//! Task functions as they are kept.
//!
//! Made by the API and read by clients. Plain data.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::manifest::RetryPolicySpec;

/// A task function as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Identifier.
    pub id: Uuid,
    /// Stable name; jobs refer to it.
    pub name: String,
    /// Name shown to people.
    pub display_name: String,
    /// Free text.
    pub description: String,
    /// How it is run.
    pub handler_type: String,
    /// Settings of the handler.
    pub handler_config: Map<String, Value>,
    /// Queue of its runs unless the job names another.
    pub queue: String,
    /// Longest run of an attempt unless the job says otherwise.
    pub default_timeout_seconds: i32,
    /// Retry policy of jobs that have none of their own; `None` for the installation's.
    pub retry_policy: Option<RetryPolicySpec>,
    /// JSON Schema (2020-12) that the arguments of its jobs must satisfy; `None` takes all.
    pub args_schema: Option<Map<String, Value>>,
    /// False accepts no new job.
    pub is_active: bool,
    /// Whether nothing of it is dispatched or claimed.
    pub is_paused: bool,
    /// Why it is paused.
    pub pause_reason: Option<String>,
    /// Built in: cannot be deleted.
    pub is_system: bool,
    /// When it was first written.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

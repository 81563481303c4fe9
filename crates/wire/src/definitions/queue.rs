//! Queues.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Maximum number of claims in any time span of `period_seconds`.
    #[schemars(range(min = 1))]
    pub count: i32,
    /// Length of the period in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub period_seconds: i32,
}

/// Settings of a queue. Absent fields have the values of a new queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// Whether it is paused: none of its runs are claimed.
    #[serde(default)]
    pub is_paused: bool,
    /// Reason of the pause; only for a paused queue.
    #[serde(default)]
    pub pause_reason: Option<String>,
    /// Maximum number of running runs; `None` without a limit.
    #[serde(default)]
    pub max_running: Option<i32>,
    /// Maximum rate of claims; `None` without a limit.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Priority of runs whose job has none, 0 to 100; 50 when absent.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub default_priority: Option<i16>,
}

/// A queue as written in a jobs file. Absent fields have the values of a new queue. A jobs file
/// does not change whether the queue is paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueDefinition {
    /// Stable name; jobs and task functions refer to it.
    pub name: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Maximum number of running runs; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_running: Option<i32>,
    /// Maximum rate of claims; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Priority of runs whose job has none, 0 to 100; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub default_priority: Option<i16>,
}

/// A stored queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Whether it is paused: none of its runs are claimed.
    pub is_paused: bool,
    /// Reason of the pause.
    pub pause_reason: Option<String>,
    /// Maximum number of running runs.
    pub max_running: Option<i32>,
    /// Maximum rate of claims.
    pub rate: Option<Rate>,
    /// Priority of runs whose job has none.
    pub default_priority: i16,
    /// Number of running runs; `None` if the API is of an earlier version.
    pub running: Option<i64>,
    /// Number of claims in the period of the rate; `None` without a rate.
    pub claimed_in_period: Option<i64>,
    /// Number of waiting runs.
    #[serde(default)]
    pub waiting: i64,
    /// Whether more runs may wait: the count stops at some thousands.
    #[serde(default)]
    pub waiting_is_at_least: bool,
    /// When the oldest waiting run became claimable.
    #[serde(default, serialize_with = "crate::instants::utc")]
    pub oldest_claimable_at: Option<DateTime<Utc>>,
    /// Number of live workers that serve it, without draining ones. Without a worker its runs do
    /// not start. `None` if the API is of an earlier version.
    #[serde(default)]
    pub workers: Option<i64>,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
}

//! Queues as they are kept, and how they are set.
//!
//! Made by the API and by clients. Plain data.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often something may be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// How many runs may be claimed in any stretch of time as long as the period.
    pub count: i32,
    /// The period.
    pub period_seconds: i32,
}

/// What a queue is to be like. What is left out is as for a new queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// Whether nothing is claimed from it.
    #[serde(default)]
    pub is_paused: bool,
    /// Why it is paused; only while it is.
    #[serde(default)]
    pub pause_reason: Option<String>,
    /// How many of its runs may run at once; `None` for any number.
    #[serde(default)]
    pub max_running: Option<i32>,
    /// How fast its runs may be claimed; `None` for as fast as can be.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Priority of runs whose job names none, 0 to 100; 50 if left out.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub default_priority: Option<i16>,
}

/// A queue as a person writes it in a jobs file. What is left out is as for a new queue; whether it is paused is not said there, and stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueDefinition {
    /// Stable name; jobs and task functions refer to it.
    pub name: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How many of its runs may run at once; any number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_running: Option<i32>,
    /// How fast its runs may be claimed; as fast as can be when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Priority of runs whose job names none, 0 to 100; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub default_priority: Option<i16>,
}

/// A queue as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Whether nothing is claimed from it.
    pub is_paused: bool,
    /// Why it is paused.
    pub pause_reason: Option<String>,
    /// How many of its runs may run at once.
    pub max_running: Option<i32>,
    /// How fast its runs may be claimed.
    pub rate: Option<Rate>,
    /// Priority of runs whose job names none.
    pub default_priority: i16,
    /// How many of its runs run; `None` where no limit needs it.
    pub running: Option<i64>,
    /// How many were claimed within the period of the rate; `None` without one.
    pub claimed_in_period: Option<i64>,
    /// How many runs wait in it.
    #[serde(default)]
    pub waiting: i64,
    /// Whether more than that may wait: counting ends at some thousands.
    #[serde(default)]
    pub waiting_is_at_least: bool,
    /// When the one could first be claimed that has waited longest.
    #[serde(default)]
    pub oldest_claimable_at: Option<DateTime<Utc>>,
    /// How many living workers serve it; those that drain are none of them. Without one nothing in it runs. `None` where the API does not say,
    /// as one of an earlier version.
    #[serde(default)]
    pub workers: Option<i64>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

//! How an installation stands, part by part, and what became of the work of a tenant.
//!
//! Made by the API and read by clients. Plain data.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Parameters of the totals.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsQuery {
    /// Over how many hours runs are counted, up to now: 1 to 744; 24 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 744))]
    pub hours: Option<u32>,
}

/// Totals of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// Runs are counted from here on, by when they were claimed.
    pub since: DateTime<Utc>,
    /// Jobs by status: `enabled`, `paused`, `disabled`, `quarantined`, `deleted`; those of which there are any.
    pub jobs: BTreeMap<String, i64>,
    /// Runs that wait.
    pub runs_waiting: i64,
    /// Runs that run.
    pub runs_running: i64,
    /// Attempts that have ended, by status, as in attempts; those of which there are any.
    pub runs: BTreeMap<String, i64>,
    /// From 0 to 1, which part of the attempts that ended by themselves was successful: of those `COMPLETED`, `FAILED`, `TIMEOUT` and `LOST`.
    /// `None` when there are none.
    pub success_rate: Option<f64>,
    /// How long the successful ones took on average; `None` when there are none.
    pub average_duration_ms: Option<f64>,
}

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// As it should be.
    Ok,
    /// It does its work; somebody should look.
    Degraded,
    /// It does not do its work.
    Unavailable,
}

impl std::fmt::Display for HealthState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Unavailable => "unavailable",
        })
    }
}

/// How an installation stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// The worst of its parts.
    pub status: HealthState,
    /// Its parts: `database`, `schema`, `leader`, `workers`, `jobs`, `events`, `pool`; those that can be told of.
    pub components: Vec<HealthComponent>,
}

/// A part of an installation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthComponent {
    /// What it is.
    pub name: String,
    /// How it stands.
    pub status: HealthState,
    /// Why, unless it is as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was found; more in later releases.
    pub details: Map<String, Value>,
}

//! Health of an installation, and totals of a tenant.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Addresses of an API, for a client that knows only its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// Name of the program.
    pub service: String,
    /// Release of the program.
    pub version: String,
    /// Base path of the routes.
    pub api: String,
    /// Path of the page that describes the routes and tries them.
    pub documentation: String,
    /// Path of the OpenAPI document.
    pub openapi: String,
    /// Path of the descriptions of problem codes.
    pub problems: String,
    /// Paths of health, status and metrics.
    pub endpoints: Vec<String>,
}

/// Parameters of the totals.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsQuery {
    /// Length of the window in hours, up to now: 1 to 744; 24 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 744))]
    pub hours: Option<u32>,
}

/// Totals of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// Time of the database clock.
    #[serde(serialize_with = "crate::instants::utc")]
    pub now: DateTime<Utc>,
    /// Start of the window, a whole minute. Attempts count by their start, a few seconds after their
    /// end.
    #[serde(serialize_with = "crate::instants::utc")]
    pub since: DateTime<Utc>,
    /// Number of jobs by status: `enabled`, `paused`, `disabled`, `quarantined`, `deleted`; zero
    /// counts are left out.
    pub jobs: BTreeMap<String, i64>,
    /// Number of waiting runs.
    pub runs_waiting: i64,
    /// Number of running runs.
    pub runs_running: i64,
    /// Number of finished attempts by status; zero counts are left out.
    pub runs: BTreeMap<String, i64>,
    /// Share of successful attempts, from 0 to 1, among `succeeded`, `failed`, `timed_out` and
    /// `lost`. `None` without such attempts.
    pub success_rate: Option<f64>,
    /// Average duration of successful attempts; `None` without any.
    pub average_duration_ms: Option<f64>,
}

/// State of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// Works as expected.
    Ok,
    /// Works, but needs attention.
    Degraded,
    /// Does not work.
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

/// Health of an installation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// The worst state of its components.
    pub status: HealthState,
    /// Components: `database`, `schema`, `leader`, `workers`, `jobs`, `events`, `pool`; only those
    /// with a known state.
    pub components: Vec<HealthComponent>,
}

/// A component of an installation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthComponent {
    /// Name of the component.
    pub name: String,
    /// State.
    pub status: HealthState,
    /// Reason, unless the state is `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Details; more in later releases.
    pub details: Map<String, Value>,
}

//! The input of a handler for one attempt.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::{Live, Secrets};

pub use sched_model::domain::job::RunDetails;

/// All data but `upstream` comes from the claimed row.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The same for all attempts of a run.
    pub run_id: Uuid,
    pub tenant_id: Uuid,
    /// Project of the job.
    pub project_id: Option<Uuid>,
    pub job_id: Uuid,
    /// The mark of every process of the attempt.
    pub attempt_id: Uuid,
    pub job_name: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    pub fire_time: DateTime<Utc>,
    /// Time from the due time to the claim, by the database clock.
    pub lateness_ms: i64,
    /// Whether the run is a catch-up for a misfire.
    pub catch_up: bool,
    /// The source of the run: `scheduler`, `manual`, `api`, `retry` or `dependency`.
    pub trigger: &'static str,
    /// Always present, except for native functions without `context: true`.
    pub details: Option<Box<RunDetails>>,
    /// The same for all attempts of a run.
    pub idempotency_key: String,
    pub args: Value,
    /// The maximal duration, from the start of the attempt.
    pub timeout: Duration,
    /// W3C trace context. The worker always sets one.
    pub traceparent: Option<String>,
    /// Its form depends on the handler type.
    pub handler_config: Value,
    pub live: Live,
    pub secrets: Secrets,
    /// The run that this run follows, if a dependency caused it.
    pub upstream: Option<Box<Upstream>>,
}

/// The run that a run of a dependent job follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The id of that run.
    pub run_id: Uuid,
    /// The name of its job.
    pub job: String,
    /// Its final status: `succeeded`, `failed`, `timed_out`, `cancelled` or `dead_letter`.
    pub status: &'static str,
    /// Its result, if it has one.
    pub result: Option<Value>,
}

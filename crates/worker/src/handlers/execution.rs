//! The input of a handler for one attempt.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::{Live, Secrets};

/// One attempt, with all data that the handler may use. The data is from the claimed row.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The run. All its attempts have the same id.
    pub run_id: Uuid,
    pub tenant_id: Uuid,
    pub job_id: Uuid,
    /// This attempt. Every process of the attempt carries this id as a mark.
    pub attempt_id: Uuid,
    pub job_name: String,
    /// The first attempt of a run has number 1.
    pub attempt: u32,
    /// The due time of the run.
    pub fire_time: DateTime<Utc>,
    /// Milliseconds from the due time to the claim, by the database clock.
    pub lateness_ms: i64,
    /// Whether the run is a catch-up for a misfire.
    pub catch_up: bool,
    /// The same for all attempts of a run, so that receivers can detect repetitions.
    pub idempotency_key: String,
    pub args: Value,
    /// Maximal duration of the attempt, from its start.
    pub timeout: Duration,
    /// W3C trace context of the attempt. Calls of the handler belong to it. The worker always sets
    /// one.
    pub traceparent: Option<String>,
    /// `handler_config` of the function. Its form depends on the handler type.
    pub handler_config: Value,
    /// Receives live output and progress.
    pub live: Live,
    /// The secrets that the configuration names.
    pub secrets: Secrets,
}

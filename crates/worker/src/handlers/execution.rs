//! What a handler is told about the attempt it runs.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::{Live, Secrets};

/// One attempt: everything a handler may know, taken from the claimed row.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The dispatch; stays the same over its retries.
    pub dispatch_id: Uuid,
    /// The tenant the job belongs to.
    pub tenant_id: Uuid,
    /// The job.
    pub job_id: Uuid,
    /// This attempt. Unique: it also marks every process of the attempt.
    pub execution_id: Uuid,
    /// Name of the job, for people.
    pub job_name: String,
    /// Attempts of a dispatch are numbered from 1.
    pub attempt: u32,
    /// The instant the dispatch was due.
    pub fire_time: DateTime<Utc>,
    /// How late it was claimed, by the database clock.
    pub lateness_ms: i64,
    /// Whether it makes up for a fire time that was missed.
    pub catch_up: bool,
    /// Stays the same over retries, for receivers that must not act twice.
    pub idempotency_key: String,
    /// Arguments of the dispatch.
    pub args: Value,
    /// How long the attempt may take, from its start.
    pub timeout: Duration,
    /// W3C trace context of the attempt, whatever it calls is part of; the worker always gives one.
    pub traceparent: Option<String>,
    /// `handler_config` of the function; its form depends on the kind.
    pub handler_config: Value,
    /// Where it tells what it is doing.
    pub live: Live,
    /// Values of the secrets its configuration names.
    pub secrets: Secrets,
}

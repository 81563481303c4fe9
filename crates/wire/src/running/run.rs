//! Triggers, runs and their attempts.
//!
//! A run is one fire, trigger, retry or dependent start of a job; an attempt is one execution of a
//! run.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::enums::{AttemptStatus, RunStatus};

/// Body of a trigger; may be left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerRequest {
    /// Arguments of this run, instead of those of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_args: Option<Map<String, Value>>,
}

/// Answer to a trigger or a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Triggered {
    /// The created run.
    pub run_id: Uuid,
    /// True if an earlier request created it: a trigger with the same key, or the same retry.
    pub duplicate: bool,
}

/// One fire, trigger, retry or dependent start of a job, with all its attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Identifier; sorts by age.
    pub id: Uuid,
    /// The job.
    pub job_id: Uuid,
    /// Name of the job.
    pub job: String,
    /// Status.
    pub status: RunStatus,
    /// The fire time, or the instant of the trigger; for a retry the fire time of the retried run.
    #[serde(serialize_with = "crate::instants::utc")]
    pub scheduled_for: DateTime<Utc>,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// When it becomes claimable, also after a failed attempt.
    #[serde(serialize_with = "crate::instants::utc")]
    pub available_at: DateTime<Utc>,
    /// When it was last claimed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub claimed_at: Option<DateTime<Utc>>,
    /// When it ended; `None` while it is open.
    #[serde(serialize_with = "crate::instants::utc")]
    pub completed_at: Option<DateTime<Utc>>,
    /// Queue of the run.
    pub queue: String,
    /// Priority, 0 first to 100 last.
    pub priority: i16,
    /// Number of started attempts.
    pub attempt: i32,
    /// Number of attempts that were followed by a retry.
    pub retry_count: i32,
    /// Number of attempts lost with their worker.
    pub lost_count: i32,
    /// The worker of the latest claim.
    pub worker_id: Option<Uuid>,
    /// Error of the latest failed attempt.
    pub error_message: Option<String>,
    /// Source: `scheduler`, `manual`, `api`, `dependency`, `retry`; later releases may add others.
    pub triggered_by: String,
    /// Person or key that triggered it.
    pub triggered_by_user: Option<String>,
    /// The run of another job whose end started it; `None` unless its source is a dependency.
    pub caused_by: Option<Uuid>,
    /// The retried run; `None` unless its source is a retry.
    #[serde(default)]
    pub retry_of: Option<Uuid>,
    /// Arguments of the run.
    pub task_args: Value,
    /// Whether it is a catch-up of a misfire.
    pub is_catch_up: bool,
    /// When it expires if no attempt has started; `None` without a limit.
    #[serde(serialize_with = "crate::instants::utc")]
    pub expires_at: Option<DateTime<Utc>>,
    /// Last reported progress of the running attempt; `None` without one.
    pub progress: Option<Progress>,
    /// Id of its trace (W3C): from the request that created it, or new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// Progress of a running attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Percentage from 0 to 100, if known.
    pub percent: Option<f32>,
    /// Current step, for people.
    pub message: String,
    /// When it was reported.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
}

/// A finished attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Identifier; sorts by age.
    pub id: Uuid,
    /// The job.
    pub job_id: Uuid,
    /// Name of the job; `None` if the job was purged.
    pub job: Option<String>,
    /// The run of the attempt.
    pub run_id: Uuid,
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// Outcome.
    pub status: AttemptStatus,
    /// The fire time, or the instant of the trigger.
    #[serde(serialize_with = "crate::instants::utc")]
    pub scheduled_for: DateTime<Utc>,
    /// When it started, by the database clock: counted from its claim, so it may be early by the
    /// latency of the claim.
    #[serde(serialize_with = "crate::instants::utc")]
    pub started_at: DateTime<Utc>,
    /// When it ended, computed in the same way.
    #[serde(serialize_with = "crate::instants::utc")]
    pub completed_at: DateTime<Utc>,
    /// Exact duration in milliseconds.
    pub duration_ms: i64,
    /// Exit code of the process; `None` without one.
    pub exit_code: Option<i32>,
    /// Reported result.
    pub result: Option<Value>,
    /// Class of the error.
    pub error_class: Option<String>,
    /// Error message.
    pub error_message: Option<String>,
    /// Reported metrics, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Value>,
    /// Trace of the error, if the handler reported one; only in the answer for a single attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
    /// Bytes of output, stored or not.
    pub output_bytes: i64,
    /// Whether the output may lack its end: the worker was lost, and only the output that it had
    /// sent before is stored.
    #[serde(default)]
    pub is_output_incomplete: bool,
    /// The worker that executed it.
    pub worker_id: Option<Uuid>,
    /// Source of its run.
    pub triggered_by: String,
    /// Id of the trace of its run (W3C); `None` if the run was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Its span in that trace, which the handler passes to the systems it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
}

/// Output of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptOutput {
    /// The attempt.
    pub attempt_id: Uuid,
    /// Whether the output may lack its end: the worker was lost, and only the output that it had
    /// sent before is stored.
    #[serde(default)]
    pub is_incomplete: bool,
    /// The stored chunks, by stream and position.
    pub chunks: Vec<OutputChunk>,
}

/// A chunk of output, exactly as the program wrote it: escape it before you display it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputChunk {
    /// `stdout`, `stderr` or `log`.
    pub stream: String,
    /// Position in the stream, from 0.
    pub chunk: i32,
    /// The text.
    pub content: String,
    /// Number of bytes between the previous chunk and this one that were not stored.
    pub dropped_bytes: i64,
}

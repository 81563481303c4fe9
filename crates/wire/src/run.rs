//! What becomes of jobs: triggers, runs, and the attempts to execute them.
//!
//! A run is one fire time or trigger to be executed; an attempt is one finished attempt at it. Plain data.

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
    /// Arguments instead of the job's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_args: Option<Map<String, Value>>,
}

/// Answer to a trigger, or to running a run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Triggered {
    /// The run that executes it.
    pub run_id: Uuid,
    /// Whether an earlier request had made it: a trigger with the same key, or the same retry.
    pub duplicate: bool,
}

/// One fire time or trigger to be executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Identifier; sorts by age.
    pub id: Uuid,
    /// The job.
    pub job_id: Uuid,
    /// Its name.
    pub job: String,
    /// What it has come to.
    pub status: RunStatus,
    /// The fire time, or the instant of the trigger; of a retry that of the run it runs again.
    pub scheduled_for: DateTime<Utc>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it may first be claimed, or again after a failure.
    pub available_at: DateTime<Utc>,
    /// When its latest claim was made.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When it ended; `None` while it is open.
    pub completed_at: Option<DateTime<Utc>>,
    /// Where it waits.
    pub queue: String,
    /// 0 first to 100 last.
    pub priority: i16,
    /// Attempts begun so far.
    pub attempt: i32,
    /// Attempts that were followed by a retry.
    pub retry_count: i32,
    /// Attempts lost with their worker.
    pub lost_count: i32,
    /// The worker that holds it, or held it last.
    pub worker_id: Option<Uuid>,
    /// What the latest failed attempt said.
    pub error_message: Option<String>,
    /// What created it: `scheduler`, `manual`, `api`, `dependency`, `retry`, and others in later releases.
    pub triggered_by: String,
    /// Who, when a person or program did.
    pub triggered_by_user: Option<String>,
    /// The run of another job after whose end it runs; `None` unless a dependency created it.
    pub caused_by: Option<Uuid>,
    /// The run that this one runs again; `None` unless it is a retry by command.
    #[serde(default)]
    pub retry_of: Option<Uuid>,
    /// Arguments of the run.
    pub task_args: Value,
    /// Whether it catches up a fire time that had passed.
    pub is_catch_up: bool,
    /// By when its first attempt must begin, or it is given up; `None` when it may wait for ever.
    pub expires_at: Option<DateTime<Utc>>,
    /// How far its running attempt has come, as that told it last; `None` when nothing runs or nothing was told.
    pub progress: Option<Progress>,
    /// Id of the trace that it is part of (W3C): that of the request that asked for it, or one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// How far a running attempt has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// From 0 to 100, where it is known.
    pub percent: Option<f32>,
    /// What it does, for people.
    pub message: String,
    /// When it told that.
    pub updated_at: DateTime<Utc>,
}

/// One finished attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Identifier; sorts by age.
    pub id: Uuid,
    /// The job.
    pub job_id: Uuid,
    /// Its name; `None` when the job was purged.
    pub job: Option<String>,
    /// The run it belongs to.
    pub run_id: Uuid,
    /// Which attempt of the run, from 1.
    pub attempt: i32,
    /// How it ended.
    pub status: AttemptStatus,
    /// The fire time, or the instant of the trigger.
    pub scheduled_for: DateTime<Utc>,
    /// When it started, by the database's clock: counted from its claim, so it may be early by the time that the answer to the claim took.
    pub started_at: DateTime<Utc>,
    /// When it ended, in the same way.
    pub completed_at: DateTime<Utc>,
    /// How long it ran, which is exact.
    pub duration_ms: i64,
    /// Exit code of the process; `None` when it left none.
    pub exit_code: Option<i32>,
    /// What it reported as its result.
    pub result: Option<Value>,
    /// Class of its failure.
    pub error_class: Option<String>,
    /// Its failure in words.
    pub error_message: Option<String>,
    /// Numbers it reported about itself, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Value>,
    /// Where it went wrong, if the handler could tell; only of an attempt that is asked for by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
    /// How much it wrote in all, kept or not.
    pub output_bytes: i64,
    /// The worker that ran it.
    pub worker_id: Option<Uuid>,
    /// What created its run.
    pub triggered_by: String,
    /// Id of the trace that it is part of (W3C), which is that of its run; `None` when that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Its span in that trace: what it calls is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
}

/// What an attempt wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptOutput {
    /// The attempt.
    pub attempt_id: Uuid,
    /// The pieces that were kept, by stream and position.
    pub chunks: Vec<OutputChunk>,
}

/// A piece of what an attempt wrote. It is whatever the program wrote: never show it unescaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputChunk {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// Position in the stream, from 0.
    pub chunk: i32,
    /// The text.
    pub content: String,
    /// How much between the piece before and this one was not kept.
    pub dropped_bytes: i64,
}

//! Jobs as they are kept: their settings with every default filled in, and what they have come to.
//!
//! Made by the API and read by clients. Plain data.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::enums::{
    AfterMode, CalendarRoll, DstGap, DstOverlap, JobChange, JobStatus, JobType, MisfirePolicy, RunStatus,
    Scope,
};
use crate::manifest::{AfterSpec, JobSpec, RetryPolicySpec};
use crate::template::MadeFrom;

/// A job as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Identifier.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// To whom it belongs.
    pub scope: Scope,
    /// Its project; `None` unless the scope is `project`.
    pub project: Option<String>,
    /// Name of the task function it runs.
    pub function: String,
    /// Arguments of every run.
    pub task_args: Map<String, Value>,
    /// Kind of schedule.
    pub job_type: JobType,
    /// The schedule, in the form its kind defines.
    pub schedule_config: Map<String, Value>,
    /// IANA zone of wall-clock times.
    pub timezone: String,
    /// What becomes of wall-clock times that do not exist; `None` leaves it to the expression.
    pub dst_gap: Option<DstGap>,
    /// What becomes of wall-clock times that occur twice; `None` leaves it to the expression.
    pub dst_overlap: Option<DstOverlap>,
    /// No fire before this instant.
    pub start_at: Option<DateTime<Utc>>,
    /// No fire at or after this instant.
    pub end_at: Option<DateTime<Utc>>,
    /// No fire after this many.
    pub max_runs: Option<i64>,
    /// Runs become available up to this many seconds after the fire time, stable per job and fire time.
    pub jitter_seconds: i32,
    /// Names of calendars; a fire time that one of them excludes is skipped or moved.
    pub calendars: Vec<String>,
    /// What becomes of an excluded fire time.
    pub calendar_roll: CalendarRoll,
    /// How long a run is expected to take; `None` if nobody said.
    pub expected_duration_seconds: Option<i32>,
    /// Jobs it runs after, besides its schedule.
    pub after: Vec<AfterSpec>,
    /// Which of them must have ended.
    pub after_mode: AfterMode,
    /// Jobs that run after this one, by name, and how it must end for each.
    pub followed_by: Vec<AfterSpec>,
    /// What becomes of fire times that passed without dispatch.
    pub misfire_policy: MisfirePolicy,
    /// How late a fire may be and still be on time; `None` for the installation's default.
    pub misfire_grace_seconds: Option<i32>,
    /// Most fires that `fire_all` catches up.
    pub misfire_cap: i32,
    /// How many runs may be open before `overlap_policy` applies.
    pub max_instances: i32,
    /// What becomes of a fire when that many are.
    pub overlap_policy: String,
    /// Queue of its runs; `None` for the function's.
    pub queue: Option<String>,
    /// Priority of its runs, 0 first to 100 last; `None` for the queue's.
    #[schemars(range(min = 0, max = 100))]
    pub priority: Option<i16>,
    /// Longest run of an attempt; `None` for the function's.
    pub timeout_seconds: Option<i32>,
    /// How long a run may wait for its first attempt before it is given up; `None` for ever.
    pub start_within_seconds: Option<i32>,
    /// Retry policy; `None` for the function's.
    pub retry_policy: Option<RetryPolicySpec>,
    /// What it is at the moment.
    pub status: JobStatus,
    /// Whether the schedule fires.
    pub is_enabled: bool,
    /// Why the scheduler disabled it; `None` when a person did, or while it is enabled.
    pub disabled_reason: Option<String>,
    /// Whether the schedule does not fire for a while.
    pub is_paused: bool,
    /// Why it is paused; `None` unless it is.
    pub pause_reason: Option<String>,
    /// When the pause ends by itself; `None` unless it does.
    #[serde(default)]
    pub paused_until: Option<DateTime<Utc>>,
    /// When it fires next; `None` when it will not.
    pub next_run_at: Option<DateTime<Utc>>,
    /// When its latest finished attempt started.
    pub last_run_at: Option<DateTime<Utc>>,
    /// How its latest finished run ended.
    pub last_status: Option<RunStatus>,
    /// When its latest run was created.
    pub last_dispatched_at: Option<DateTime<Utc>>,
    /// How many runs have been created in all.
    pub total_run_count: i64,
    /// How many runs are open now.
    pub active_runs: i32,
    /// Release of the time zone tables that `next_run_at` was computed from; `None` when it needs none.
    pub tzdata_version: Option<String>,
    /// Grows with every change of the settings.
    pub version: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Which component or whose e-mail created it.
    pub created_by: String,
    /// When its settings last changed.
    pub updated_at: DateTime<Utc>,
    /// Which component or whose e-mail changed them.
    pub updated_by: String,
    /// When it was deleted; `None` unless it is.
    #[serde(default)]
    pub deleted_at: Option<DateTime<Utc>>,
    /// The template it was made from; `None` if it was made by itself.
    #[serde(default)]
    pub made_from: Option<MadeFrom>,
}

/// Answer to deleting a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDeleted {
    /// The job, by which it can be restored.
    pub job_id: Uuid,
    /// Its name, which is free now.
    pub name: String,
    /// The version that the deletion made.
    pub version: i64,
    /// How many runs waited and are cancelled. Those that run go on.
    pub cancelled: usize,
}

/// Body of a restoration; may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// Its name from now on; the one it had when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Body of a roll-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The version whose settings the job is to have again.
    pub version: i64,
}

/// The settings of a job as they were after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobVersion {
    /// Its number; 1 is the first.
    pub version: i64,
    /// What kind of change made it.
    pub change: JobChange,
    /// When.
    pub changed_at: DateTime<Utc>,
    /// Which component or whose e-mail made the change.
    pub changed_by: String,
    /// Why the job was paused, where the change is a pause and somebody said.
    pub pause_reason: Option<String>,
    /// When the pause ends by itself, where the change is a pause that does.
    pub paused_until: Option<DateTime<Utc>>,
    /// What differs from the version before; nothing for the first, and where no setting was changed.
    pub changes: Vec<FieldChange>,
    /// The settings, as they can be sent.
    pub settings: JobSpec,
}

/// A field that a change made another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// JSON pointer into the settings.
    pub pointer: String,
    /// What stood there; absent when nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What stands there; absent when nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Body of a pause; may be left out. Of a job that is paused it changes the pause, and what is left out stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the pause ends by itself, written as an instant of [`ExplainQuery`](crate::ExplainQuery), or `never`: when somebody resumes
    /// the job, as for a new pause without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

//! Stored jobs: their settings with all defaults, and their state.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::definitions::effective::EffectiveSettings;
use crate::definitions::manifest::{AfterSpec, JobSpec, RetryPolicySpec};
use crate::definitions::template::MadeFrom;
use crate::enums::{
    AfterMode, CalendarRoll, DstGap, DstOverlap, JobChange, JobStatus, JobType, MisfirePolicy, RunStatus,
    Scope,
};

/// A stored job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Identifier.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Owner.
    pub scope: Scope,
    /// Project; `None` unless the scope is `project`.
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
    /// Rule for wall-clock times that do not exist; `None` for the default of the expression.
    pub dst_gap: Option<DstGap>,
    /// Rule for wall-clock times that occur twice; `None` for the default of the expression.
    pub dst_overlap: Option<DstOverlap>,
    /// No fire before this instant.
    #[serde(serialize_with = "crate::instants::utc")]
    pub start_at: Option<DateTime<Utc>>,
    /// No fire at or after this instant.
    #[serde(serialize_with = "crate::instants::utc")]
    pub end_at: Option<DateTime<Utc>>,
    /// Maximum number of fires.
    pub max_runs: Option<i64>,
    /// Runs become claimable up to this many seconds after the fire time; stable per job and fire
    /// time.
    pub jitter_seconds: i32,
    /// Names of calendars; a fire time that one of them excludes is skipped or moved.
    pub calendars: Vec<String>,
    /// Rule for an excluded fire time.
    pub calendar_roll: CalendarRoll,
    /// Expected duration of a run; `None` if not set.
    pub expected_duration_seconds: Option<i32>,
    /// Dependencies: jobs that start it, in addition to its schedule.
    pub after: Vec<AfterSpec>,
    /// Which dependencies must have ended.
    pub after_mode: AfterMode,
    /// Dependent jobs by name, each with the required outcome.
    pub followed_by: Vec<AfterSpec>,
    /// Rule for fire times that passed without a dispatch.
    pub misfire_policy: MisfirePolicy,
    /// Maximum lateness of a fire that still counts as on time; `None` for the default of the
    /// installation.
    pub misfire_grace_seconds: Option<i32>,
    /// Maximum number of fires that `fire_all` catches up.
    pub misfire_cap: i32,
    /// Number of open runs from which `overlap_policy` applies.
    pub max_instances: i32,
    /// Rule for a fire at that number of open runs.
    pub overlap_policy: String,
    /// Queue of its runs; `None` for the queue of the function.
    pub queue: Option<String>,
    /// Priority of its runs, 0 first to 100 last; `None` for the default of the queue.
    #[schemars(range(min = 0, max = 100))]
    pub priority: Option<i16>,
    /// Timeout of an attempt; `None` for the default of the function.
    pub timeout_seconds: Option<i32>,
    /// Maximum wait for the first attempt before the run expires; `None` without a limit.
    pub start_within_seconds: Option<i32>,
    /// Retry policy; `None` for the policy of the function.
    pub retry_policy: Option<RetryPolicySpec>,
    /// Attempts, timeout and queue that apply, with their origins.
    pub effective: EffectiveSettings,
    /// State.
    pub status: JobStatus,
    /// Whether the schedule fires.
    pub is_enabled: bool,
    /// Why the scheduler disabled it; `None` when a client disabled it, or while it is enabled.
    pub disabled_reason: Option<String>,
    /// Whether the schedule is paused.
    pub is_paused: bool,
    /// Reason of the pause; `None` unless it is paused.
    pub pause_reason: Option<String>,
    /// When the pause ends automatically; `None` otherwise.
    #[serde(default, serialize_with = "crate::instants::utc")]
    pub paused_until: Option<DateTime<Utc>>,
    /// Next fire time, after the end of a pause of the job; `None` when it will not fire, also during
    /// a pause without an end.
    #[serde(serialize_with = "crate::instants::utc")]
    pub next_run_at: Option<DateTime<Utc>>,
    /// Start of its latest finished attempt.
    #[serde(serialize_with = "crate::instants::utc")]
    pub last_run_at: Option<DateTime<Utc>>,
    /// Status of its latest finished run.
    pub last_status: Option<RunStatus>,
    /// Creation of its latest run.
    #[serde(serialize_with = "crate::instants::utc")]
    pub last_dispatched_at: Option<DateTime<Utc>>,
    /// Number of all its runs.
    pub total_run_count: i64,
    /// Number of its open runs.
    pub active_runs: i32,
    /// Release of the time zone data that `next_run_at` was computed from; `None` when it depends
    /// on none.
    pub tzdata_version: Option<String>,
    /// Version; grows with every change of the settings.
    pub version: i64,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// Component or e-mail address that created it.
    pub created_by: String,
    /// When its settings last changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
    /// Component or e-mail address that last changed them.
    pub updated_by: String,
    /// When it was deleted; `None` otherwise.
    #[serde(default, serialize_with = "crate::instants::utc")]
    pub deleted_at: Option<DateTime<Utc>>,
    /// Template of the job; `None` if it was created without one.
    #[serde(default)]
    pub made_from: Option<MadeFrom>,
}

/// Answer to deleting a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDeleted {
    /// Id of the job, for a restore.
    pub job_id: Uuid,
    /// Name of the job, which is free now.
    pub name: String,
    /// Version that the deletion created.
    pub version: i64,
    /// Number of waiting runs that were cancelled. Running runs continue.
    pub cancelled: usize,
}

/// Body of a restore; may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// New name; the previous name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Body of a roll-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// Version whose settings to restore.
    pub version: i64,
}

/// Settings of a job after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobVersion {
    /// Number of the version, from 1.
    pub version: i64,
    /// Kind of change.
    pub change: JobChange,
    /// When it was changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub changed_at: DateTime<Utc>,
    /// Component or e-mail address of the author.
    pub changed_by: String,
    /// Reason of the pause, if the change is a pause with a reason.
    pub pause_reason: Option<String>,
    /// When the pause ends automatically, if the change is such a pause.
    #[serde(serialize_with = "crate::instants::utc")]
    pub paused_until: Option<DateTime<Utc>>,
    /// Differences from the previous version; empty for the first version, and if no setting
    /// changed.
    pub changes: Vec<FieldChange>,
    /// Settings, in the form of a request.
    pub settings: JobSpec,
}

/// A changed field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// JSON pointer into the settings.
    pub pointer: String,
    /// Previous value; absent if the field was not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// New value; absent if the field is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Body of a pause; may be left out. On a paused job it changes the pause; absent fields keep their
/// value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the pause ends automatically, as an instant of [`ExplainQuery`](crate::ExplainQuery);
    /// `never` until a client resumes the job, which is the default of a new pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

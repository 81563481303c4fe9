//! Explanations: each fire time of a window with its outcome.
//!
//! `fate`, `reason` and `change` are plain text, because their words grow with releases.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{AttemptStatus, RunStatus};

/// The window of an explanation.
///
/// An instant is written in RFC 3339, as a wall-clock time in the zone of the job (`2026-11-21
/// 10:00`), or as a distance from the present of the database (`-2h`, `+90m`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// Start, inclusive; a day before the end when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// End, exclusive; the present of the database when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// A single instant instead of a window: the second that begins with it. If no fire time is in
    /// it, the answer has the nearest ones (`nearest`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Outcomes of the fire times of a job in a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The job.
    pub job_id: Uuid,
    /// Name of the job.
    pub job: String,
    /// Zone of its wall-clock times.
    pub timezone: String,
    /// Start of the window, inclusive.
    #[serde(serialize_with = "crate::instants::utc")]
    pub from: DateTime<Utc>,
    /// End of the window, exclusive.
    #[serde(serialize_with = "crate::instants::utc")]
    pub to: DateTime<Utc>,
    /// Time of the database clock.
    #[serde(serialize_with = "crate::instants::utc")]
    pub now: DateTime<Utc>,
    /// Number of fire times by outcome.
    pub summary: ExplainSummary,
    /// Fire times in order; neighbours with the same outcome are one entry.
    pub fires: Vec<ExplainedFires>,
    /// Runs that triggers and dependencies created in the window.
    pub triggers: Vec<ExplainedRun>,
    /// Reasons why the next run waits now, independent of the window; most relevant first.
    #[serde(default)]
    pub waits_for: Vec<WaitFor>,
    /// Fire times around the instant of `at`, if the instant is not a fire time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestFires>,
}

/// The fire times around an instant without a fire time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearestFires {
    /// Summary in one sentence.
    pub text: String,
    /// Last fire time before the instant; `None` if there is none within eight years.
    pub before: Option<NearestFire>,
    /// First fire time after the instant; `None` if there is none within eight years.
    pub after: Option<NearestFire>,
}

/// A fire time near an instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearestFire {
    /// The fire time.
    #[serde(serialize_with = "crate::instants::utc")]
    pub fire_at: DateTime<Utc>,
    /// Outcome, in the words of `fires`.
    pub fate: String,
    /// Status of the run, or reason of the skip; `None` otherwise.
    pub outcome: Option<String>,
}

/// Explanation of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunExplanation {
    /// Id of the job.
    pub job_id: Uuid,
    /// Name of the job.
    pub job: String,
    /// Time of the database clock.
    #[serde(serialize_with = "crate::instants::utc")]
    pub now: DateTime<Utc>,
    /// The run, with the reasons why it waits.
    pub run: ExplainedRun,
}

/// A reason to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitFor {
    /// `job_disabled`, `job_paused`, `project_paused`, `tenant_paused`, `queue_paused`, `function_inactive`, `function_paused`, `calendar`,
    /// `dependency`, `no_leader`, `no_worker`, `overlap`, `quota`, `held`, `queue_full`, `queue_rate`, `turn`, `retry`, `not_due`,
    /// `fire_time`, `trigger`, `over`, `expired`.
    pub what: String,
    /// The reason in a sentence.
    pub text: String,
    /// When the wait ends automatically, if known.
    #[serde(serialize_with = "crate::instants::utc")]
    pub until: Option<DateTime<Utc>>,
    /// Blocking runs; some of them if there are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Uuid>,
    /// Number of runs that go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Whether `before` is exact; runs are counted up to a thousand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_before_exact: Option<bool>,
}

/// Number of fire times by outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExplainSummary {
    /// The counts as a sentence.
    pub text: String,
    /// All fire times. Times while the job was disabled or over are not counted.
    pub fire_times: u64,
    /// Dispatched.
    pub dispatched: u64,
    /// Skipped, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Still in the future.
    pub to_come: u64,
    /// Due and not yet decided.
    pub undecided: u64,
    /// So old that retention may have removed the record.
    pub pruned: u64,
    /// Without a clear outcome.
    pub unclear: u64,
    /// With two outcomes, which is a defect.
    pub two_fates: u64,
    /// Without the required record: a defect, or the record was lost.
    pub unaccounted: u64,
    /// Fire times that the schedule would have had while the job was disabled.
    pub while_disabled: u64,
    /// Fire times that the schedule would have had after its last run.
    pub after_last_run: u64,
    /// Triggers outside the schedule.
    pub triggers: u64,
}

/// Adjacent fire times with the same outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedFires {
    /// First fire time.
    #[serde(serialize_with = "crate::instants::utc")]
    pub first_fire_at: DateTime<Utc>,
    /// Last fire time, inclusive.
    #[serde(serialize_with = "crate::instants::utc")]
    pub last_fire_at: DateTime<Utc>,
    /// Number of fire times; zero for an entry that describes a part of the window without fire
    /// times.
    pub fire_count: u64,
    /// Whether `fire_count` is exact.
    pub is_count_exact: bool,
    /// `dispatched`, `skipped`, `moved`, `to_come`, `undecided`, `not_created`, `disabled`, `ended`, `pruned`, `unclear`,
    /// `two_fates`, `unaccounted`.
    pub fate: String,
    /// Status of the run, or reason of the skip; `None` for other fates.
    pub outcome: Option<String>,
    /// Outcome in one sentence.
    pub text: String,
    /// Version of the settings that produced them; `None` if only a record shows them.
    pub version: Option<i64>,
    /// Original fire time that a calendar moved here.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::instants::utc")]
    pub moved_from: Option<DateTime<Utc>>,
    /// New fire time after a calendar moved it.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::instants::utc")]
    pub moved_to: Option<DateTime<Utc>>,
    /// The run, if one was dispatched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<ExplainedRun>,
    /// The record of the skip that contains them, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<ExplainedSkip>,
}

/// A record of skipped fire times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedSkip {
    /// Reason.
    pub reason: String,
    /// The first fire time.
    #[serde(serialize_with = "crate::instants::utc")]
    pub first_fire_at: DateTime<Utc>,
    /// The last fire time, inclusive.
    #[serde(serialize_with = "crate::instants::utc")]
    pub last_fire_at: DateTime<Utc>,
    /// Number of fire times, inside and outside the window.
    pub fire_count: u64,
    /// Whether `fire_count` is exact.
    pub is_count_exact: bool,
    /// Details.
    pub detail: Option<String>,
    /// When the record was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub recorded_at: DateTime<Utc>,
    /// Term of the leader that recorded it; `None` if the API recorded it.
    pub term: Option<i64>,
    /// For a misfire before that term: when the next term began.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::instants::utc")]
    pub next_term_began_at: Option<DateTime<Utc>>,
    /// For a misfire before that term: when the term at that time, or the last one before, ended,
    /// because its leader stepped down or another took over.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::instants::utc")]
    pub former_term_ended_at: Option<DateTime<Utc>>,
    /// For a misfire before that term: when the lease of the former term expired, if that was before
    /// its end. No scheduler led from then until the next term.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::instants::utc")]
    pub former_lease_expired_at: Option<DateTime<Utc>>,
    /// For a misfire before that term: how that term ended: `resigned`, `expired` (its leader was
    /// silent), `stepped_down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_term_end: Option<String>,
    /// For an overlap: up to three runs that were open when the record was created, oldest first;
    /// only in the first fifty records of a window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_the_way: Vec<BlockingRun>,
    /// The pause that caused the skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<ExplainedPause>,
}

/// A run that blocked a fire of its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockingRun {
    /// Identifier.
    pub id: Uuid,
    /// Its fire time, or the instant of the trigger.
    #[serde(serialize_with = "crate::instants::utc")]
    pub scheduled_for: DateTime<Utc>,
    /// When it ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::instants::utc")]
    pub completed_at: Option<DateTime<Utc>>,
}

/// A pause of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedPause {
    /// Start of the pause.
    #[serde(serialize_with = "crate::instants::utc")]
    pub since: DateTime<Utc>,
    /// Author of the pause.
    pub by: String,
    /// Reason.
    pub reason: Option<String>,
    /// Planned end of the pause.
    #[serde(serialize_with = "crate::instants::utc")]
    pub until: Option<DateTime<Utc>>,
}

/// A run with its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedRun {
    /// Identifier.
    pub id: Uuid,
    /// Status.
    pub status: RunStatus,
    /// Summary in one sentence.
    pub text: String,
    /// The fire time, or the instant of the trigger.
    #[serde(serialize_with = "crate::instants::utc")]
    pub scheduled_for: DateTime<Utc>,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// Delay from the fire time to the creation, in milliseconds.
    pub lateness_ms: i64,
    /// When it became claimable, also after a failed attempt.
    #[serde(serialize_with = "crate::instants::utc")]
    pub available_at: DateTime<Utc>,
    /// When it was last claimed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub claimed_at: Option<DateTime<Utc>>,
    /// When it ended.
    #[serde(serialize_with = "crate::instants::utc")]
    pub completed_at: Option<DateTime<Utc>>,
    /// Queue of the run.
    pub queue: String,
    /// Whether it is queued behind other runs of its job.
    pub is_queued: bool,
    /// Whether it is a catch-up of a misfire.
    pub is_catch_up: bool,
    /// Source that created it.
    pub triggered_by: String,
    /// Person or key that triggered it.
    pub triggered_by_user: Option<String>,
    /// Host of the scheduler that created it.
    pub scheduler: Option<String>,
    /// Term of that scheduler.
    pub term: Option<i64>,
    /// Host of the last worker that claimed it; its id if retention has removed the name.
    pub worker: Option<String>,
    /// Error of the latest unsuccessful attempt, or the author of a cancellation.
    pub error_message: Option<String>,
    /// When a stop was requested.
    #[serde(default, serialize_with = "crate::instants::utc")]
    pub cancel_requested_at: Option<DateTime<Utc>>,
    /// The run that replaced it by the overlap policy `cancel_oldest`.
    #[serde(default)]
    pub replaced_by: Option<Uuid>,
    /// The run whose end started it, for a dependent job.
    #[serde(default)]
    pub caused_by: Option<Uuid>,
    /// Job of that run.
    #[serde(default)]
    pub caused_by_job: Option<String>,
    /// Id of its trace (W3C).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Reasons why it waits, most relevant first; empty unless it waits, and except for the first
    /// fifty runs of a window.
    #[serde(default)]
    pub waits_for: Vec<WaitFor>,
    /// Finished attempts, in order.
    pub attempts: Vec<ExplainedAttempt>,
}

/// A finished attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedAttempt {
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// Outcome.
    pub status: AttemptStatus,
    /// When it started.
    #[serde(serialize_with = "crate::instants::utc")]
    pub started_at: DateTime<Utc>,
    /// When it ended.
    #[serde(serialize_with = "crate::instants::utc")]
    pub completed_at: DateTime<Utc>,
    /// Host of the worker.
    pub worker: Option<String>,
    /// Exit code of the process.
    pub exit_code: Option<i32>,
    /// Error message.
    pub error_message: Option<String>,
}

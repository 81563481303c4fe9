//! Why a job did, or did not, run: the fire times of a window, each with its fate.
//!
//! `fate`, `reason` and `change` are plain text: their words grow with releases. Plain data.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{AttemptStatus, RunStatus};

/// The window of an explanation.
///
/// An instant is written in RFC 3339, as a time on the clock of the job's zone (`2026-11-21 10:00`), or as a distance from the
/// present of the database (`-2h`, `+90m`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// Its beginning, included; a day before the end when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its end, not included; the present of the database when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// One instant instead of a window: the window is the second that begins with it. Where no fire time is in it, the answer names the nearest
    /// ones (`nearest`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// What became of the fire times of a job in a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The job.
    pub job_id: Uuid,
    /// Its name.
    pub job: String,
    /// The zone of its wall-clock times.
    pub timezone: String,
    /// The beginning of the window, included.
    pub from: DateTime<Utc>,
    /// The end of the window, not included.
    pub to: DateTime<Utc>,
    /// The clock of the database.
    pub now: DateTime<Utc>,
    /// How many fire times had which fate.
    pub summary: ExplainSummary,
    /// The fire times in order; neighbours of one fate are one entry.
    pub fires: Vec<ExplainedFires>,
    /// What others triggered in the window, and what other jobs' ends made it run for.
    pub triggers: Vec<ExplainedRun>,
    /// What its next run waits for now, whatever the window, in the order in which to look at it.
    #[serde(default)]
    pub waits_for: Vec<WaitFor>,
    /// Where one instant was asked for and no fire time is there: those around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestFires>,
}

/// The fire times around an instant that is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearestFires {
    /// What is there, and what is not, in one sentence.
    pub text: String,
    /// The last one before it; `None` where there was none within eight years.
    pub before: Option<NearestFire>,
    /// The first one after it; `None` where there is none within eight years.
    pub after: Option<NearestFire>,
}

/// A fire time near an instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearestFire {
    /// When.
    pub fire_at: DateTime<Utc>,
    /// What became of it, in the words of `fires`.
    pub fate: String,
    /// Status of the run, or reason of the skip; `None` for other fates.
    pub outcome: Option<String>,
}

/// What became of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunExplanation {
    /// Its job.
    pub job_id: Uuid,
    /// The name of the job.
    pub job: String,
    /// The clock of the database.
    pub now: DateTime<Utc>,
    /// What became of it, and what it waits for.
    pub dispatch: ExplainedRun,
}

/// One thing that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitFor {
    /// `job_disabled`, `job_paused`, `project_paused`, `tenant_paused`, `queue_paused`, `function_inactive`, `function_paused`, `calendar`,
    /// `dependency`, `no_leader`, `no_worker`, `overlap`, `quota`, `held`, `queue_full`, `queue_rate`, `turn`, `retry`, `not_due`,
    /// `fire_time`, `trigger`, `over`, `expired`.
    pub what: String,
    /// The same in a sentence.
    pub text: String,
    /// When it is over by itself, where that is known.
    pub until: Option<DateTime<Utc>>,
    /// Runs that are in the way, some of them if they are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dispatches: Vec<Uuid>,
    /// How many runs go before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Whether that number is exact; it is counted up to a thousand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_before_exact: Option<bool>,
}

/// How many fire times had which fate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExplainSummary {
    /// The numbers as a sentence.
    pub text: String,
    /// All of them; those that were none because the job was disabled or over are not counted.
    pub fire_times: u64,
    /// Dispatched.
    pub dispatched: u64,
    /// Skipped, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// To come.
    pub to_come: u64,
    /// Due, and not yet decided about.
    pub undecided: u64,
    /// So long ago that retention may have removed the record.
    pub pruned: u64,
    /// What became of them cannot be told.
    pub unclear: u64,
    /// With two fates, which is a defect.
    pub two_fates: u64,
    /// Without a record though there must be one: a defect, or a record was lost.
    pub unaccounted: u64,
    /// Those the job would have had if it had not been disabled.
    pub while_disabled: u64,
    /// Those the job would have had if it had not had its last run.
    pub after_last_run: u64,
    /// Triggers beside the schedule.
    pub triggers: u64,
}

/// Fire times next to each other that share a fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedFires {
    /// The first of them.
    pub first_fire_at: DateTime<Utc>,
    /// The last of them, included.
    pub last_fire_at: DateTime<Utc>,
    /// How many they are; zero where the entry is no fire time but says something about a part of the window.
    pub fire_count: u64,
    /// Whether that number is exact.
    pub is_count_exact: bool,
    /// `dispatched`, `skipped`, `moved`, `to_come`, `undecided`, `not_created`, `disabled`, `ended`, `pruned`, `unclear`,
    /// `two_fates`, `unaccounted`.
    pub fate: String,
    /// Status of the run, or reason of the skip; `None` for other fates.
    pub outcome: Option<String>,
    /// What became of them, in one sentence.
    pub text: String,
    /// Version of the settings by which they are fire times; `None` where only a record says that they are.
    pub version: Option<i64>,
    /// The fire time that a calendar moved here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<DateTime<Utc>>,
    /// Where a calendar moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<DateTime<Utc>>,
    /// The run, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<ExplainedRun>,
    /// The record of skipped fire times in which they lie, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<ExplainedSkip>,
}

/// A record of skipped fire times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedSkip {
    /// Why.
    pub reason: String,
    /// The first fire time.
    pub first_fire_at: DateTime<Utc>,
    /// The last one, included.
    pub last_fire_at: DateTime<Utc>,
    /// How many they are, in the window or not.
    pub fire_count: u64,
    /// Whether that number is exact.
    pub is_count_exact: bool,
    /// More about it.
    pub detail: Option<String>,
    /// When it was begun to be recorded.
    pub recorded_at: DateTime<Utc>,
    /// Term of the leader that recorded it; `None` when the API did.
    pub term: Option<i64>,
    /// Of a misfire that came before that term: when the next leader began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_term_began_at: Option<DateTime<Utc>>,
    /// Of a misfire that came before that term: when the term of then, or the last before, ended, as its leader gave way or another took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_term_ended_at: Option<DateTime<Utc>>,
    /// Of a misfire that came before that term: how that ended: `resigned`, `expired` (its leader was silent), `stepped_down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_term_end: Option<String>,
    /// Of an overlap: runs that were open when it was begun to be recorded, up to three, the oldest first; of the first fifty records of a
    /// window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_the_way: Vec<BlockingRun>,
    /// The pause of the job that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<ExplainedPause>,
}

/// A run that kept a fire of its job from being dispatched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockingRun {
    /// Identifier.
    pub id: Uuid,
    /// Its fire time, or the instant of the trigger.
    pub scheduled_for: DateTime<Utc>,
    /// When it ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<DateTime<Utc>>,
}

/// A pause of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedPause {
    /// Since when.
    pub since: DateTime<Utc>,
    /// Who paused the job.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// When it was to end by itself.
    pub until: Option<DateTime<Utc>>,
}

/// A run with its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedRun {
    /// Identifier.
    pub id: Uuid,
    /// What it has come to.
    pub status: RunStatus,
    /// What became of it, in one sentence.
    pub text: String,
    /// The fire time, or the instant of the trigger.
    pub scheduled_for: DateTime<Utc>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// How long after its fire time that was.
    pub lateness_ms: i64,
    /// When it could be claimed, or claimed again.
    pub available_at: DateTime<Utc>,
    /// When its latest claim was made.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// Where it waits.
    pub queue: String,
    /// Whether it waits in line behind others of its job.
    pub is_in_line: bool,
    /// Whether it catches up a fire time that had passed.
    pub is_catch_up: bool,
    /// What created it.
    pub triggered_by: String,
    /// Who asked for it.
    pub triggered_by_user: Option<String>,
    /// Host of the scheduler that created it.
    pub scheduler: Option<String>,
    /// Term of that scheduler.
    pub term: Option<i64>,
    /// The worker of the latest claim: its host, or its id where retention has removed its name.
    pub worker: Option<String>,
    /// What the latest unsuccessful attempt said, or who cancelled it.
    pub error_message: Option<String>,
    /// When it was asked to stop.
    #[serde(default)]
    pub cancel_requested_at: Option<DateTime<Utc>>,
    /// The run that took its place, where the overlap policy `cancel_oldest` is why it was asked.
    #[serde(default)]
    pub replaced_by: Option<Uuid>,
    /// The run whose end it was made for.
    #[serde(default)]
    pub caused_by: Option<Uuid>,
    /// The job of that run.
    #[serde(default)]
    pub caused_by_job: Option<String>,
    /// Id of the trace that it is part of (W3C).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// What it waits for, in the order in which to look at it; empty unless it waits, and for all but the first fifty of a window.
    #[serde(default)]
    pub waits_for: Vec<WaitFor>,
    /// The finished attempts, in order.
    pub attempts: Vec<ExplainedAttempt>,
}

/// A finished attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedAttempt {
    /// Which one, from 1.
    pub attempt: i32,
    /// How it ended.
    pub status: AttemptStatus,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub completed_at: DateTime<Utc>,
    /// Where it ran.
    pub worker: Option<String>,
    /// Exit code of the process.
    pub exit_code: Option<i32>,
    /// What it said.
    pub error_message: Option<String>,
}

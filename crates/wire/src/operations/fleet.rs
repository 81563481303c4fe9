//! The processes of an installation, and its status.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::definitions::queue::Rate;
use crate::enums::{LeaderState, SchedulerStatus, WorkerStatus};
use crate::running::run::Progress;

/// A worker process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// Random identity, new with each start of the process.
    pub id: Uuid,
    /// Host name.
    pub hostname: String,
    /// Operating system and architecture.
    pub platform: String,
    /// Process id.
    pub process_id: i32,
    /// Version of the program.
    pub version: String,
    /// Queues it serves.
    pub queues: Vec<String>,
    /// Maximum of concurrent attempts.
    pub concurrency: i32,
    /// State at its last heartbeat; `offline` once its lease has expired.
    pub status: WorkerStatus,
    /// Number of attempts at its last heartbeat.
    pub running: i32,
    /// Number of finished attempts.
    pub jobs_processed: i64,
    /// When it started.
    #[serde(serialize_with = "crate::instants::utc")]
    pub started_at: DateTime<Utc>,
    /// Time of the last heartbeat.
    #[serde(serialize_with = "crate::instants::utc")]
    pub last_heartbeat: DateTime<Utc>,
    /// Age of the last heartbeat in seconds, by the database clock: the age of `status` and
    /// `running`.
    #[serde(default)]
    pub heartbeat_age_seconds: u64,
    /// When it went offline; `None` while it is alive.
    #[serde(serialize_with = "crate::instants::utc")]
    pub offline_since: Option<DateTime<Utc>>,
    /// When a drain was requested; `None` without a request.
    #[serde(default, serialize_with = "crate::instants::utc")]
    pub drain_requested_at: Option<DateTime<Utc>>,
    /// The current runs of the caller's tenant, oldest claim first, at most 1000. Only in the answer
    /// for a single worker, and with `runs:read`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<WorkerRun>>,
}

/// A run that a worker executes, or has claimed for the next free slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerRun {
    /// The run.
    pub run_id: Uuid,
    /// Its current attempt.
    pub attempt_id: Uuid,
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// Name of the job.
    pub job: String,
    /// Id of the job.
    pub job_id: Uuid,
    /// Queue of the run.
    pub queue: String,
    /// The fire time, or the instant of the trigger.
    #[serde(serialize_with = "crate::instants::utc")]
    pub scheduled_for: DateTime<Utc>,
    /// When the worker claimed it, by the database clock.
    #[serde(serialize_with = "crate::instants::utc")]
    pub claimed_at: DateTime<Utc>,
    /// Reported progress; `None` without a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// A scheduler process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulerInstance {
    /// Random identity, new with each start of the process.
    pub id: Uuid,
    /// Host name.
    pub hostname: String,
    /// Process id.
    pub pid: i32,
    /// Version of the program.
    pub version: String,
    /// When it started.
    #[serde(serialize_with = "crate::instants::utc")]
    pub started_at: DateTime<Utc>,
    /// Time of the last heartbeat.
    #[serde(serialize_with = "crate::instants::utc")]
    pub last_heartbeat: DateTime<Utc>,
    /// State by the last heartbeat. An online scheduler that does not lead is a standby.
    pub status: SchedulerStatus,
    /// Whether it leads, or was the last leader and no standby has taken over.
    pub is_leader: bool,
    /// Seconds since the lease of the leader expired; `None` while the lease is valid, and for
    /// standbys.
    #[serde(default)]
    pub lease_expired_seconds: Option<u64>,
    /// Start of its leadership; `None` for standbys.
    #[serde(serialize_with = "crate::instants::utc")]
    pub leader_since: Option<DateTime<Utc>>,
    /// Its term; `None` for standbys.
    pub term: Option<i64>,
    /// When a step-down from this term was requested; `None` without a request.
    #[serde(serialize_with = "crate::instants::utc")]
    pub step_down_requested_at: Option<DateTime<Utc>>,
    /// Offset of the database clock ahead of the host clock, in seconds; `None` before the second
    /// heartbeat.
    pub clock_offset_seconds: Option<f64>,
}

/// Body of a request to step down; may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepDownRequest {
    /// Request the step-down even if no standby can take over. Nothing is dispatched then until the
    /// scheduler leads again, after two leases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Status of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Time of the database clock.
    #[serde(serialize_with = "crate::instants::utc")]
    pub now: DateTime<Utc>,
    /// Number of active jobs.
    pub jobs_active: i64,
    /// Number of disabled or paused jobs.
    pub jobs_inactive: i64,
    /// Number of jobs that the scheduler disabled, because their schedule cannot fire.
    #[serde(default)]
    pub jobs_quarantined: i64,
    /// Some of the quarantined jobs.
    #[serde(default)]
    pub quarantined: Vec<QuarantinedJob>,
    /// Next fire time of any job.
    #[serde(serialize_with = "crate::instants::utc")]
    pub next_run_at: Option<DateTime<Utc>>,
    /// The jobs that fire next, without paused ones.
    #[serde(default)]
    pub next_due: Vec<DueJob>,
    /// Number of waiting runs.
    pub runs_waiting: i64,
    /// Number of running runs.
    pub runs_running: i64,
    /// Number of live workers.
    pub workers_online: i64,
    /// Number of online schedulers, the leader included.
    pub schedulers: i64,
    /// Whether a leader has renewed its lease.
    pub has_leader: bool,
    /// State of the leadership; distinguishes an expired leader from none.
    pub leader_state: LeaderState,
    /// Seconds since the lease of the last leader expired.
    #[serde(default)]
    pub lease_expired_seconds: Option<u64>,
    /// Queues with waiting runs, and paused or limited queues.
    pub queues: Vec<QueueStatus>,
}

/// A job and its next fire time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DueJob {
    /// Name of the job.
    pub name: String,
    /// Next fire time.
    #[serde(serialize_with = "crate::instants::utc")]
    pub next_run_at: DateTime<Utc>,
}

/// A job that the scheduler disabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuarantinedJob {
    /// Name of the job.
    pub name: String,
    /// Reason.
    pub reason: Option<String>,
}

/// A queue with waiting runs, or a paused or limited one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueStatus {
    /// Name of the queue.
    pub name: String,
    /// Number of waiting runs.
    pub waiting: i64,
    /// When the oldest waiting run became claimable.
    #[serde(serialize_with = "crate::instants::utc")]
    pub oldest_claimable_at: Option<DateTime<Utc>>,
    /// Whether a live worker serves it. Without one its runs do not start.
    pub has_live_worker: bool,
    /// Number of its workers that drain and claim no new runs.
    #[serde(default)]
    pub workers_draining: i64,
    /// Whether it is paused.
    pub is_paused: bool,
    /// Reason of the pause.
    #[serde(default)]
    pub pause_reason: Option<String>,
    /// Whether the limit of running runs, or the rate of claims, is reached.
    #[serde(default)]
    pub is_at_limit: bool,
    /// Maximum of running runs.
    #[serde(default)]
    pub max_running: Option<i64>,
    /// Number of running runs; `None` without a maximum.
    #[serde(default)]
    pub running: Option<i64>,
    /// Maximum rate of claims.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Number of claims in the last period; `None` without a rate.
    #[serde(default)]
    pub claimed_in_period: Option<i64>,
}

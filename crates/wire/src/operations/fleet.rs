//! The processes of an installation, and its status.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::definitions::queue::Rate;
use crate::enums::{LeaderState, WorkerStatus};

/// A worker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// State.
    pub status: WorkerStatus,
    /// Number of current attempts.
    pub running: i32,
    /// Number of finished attempts.
    pub jobs_processed: i64,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// Time of the last heartbeat.
    pub last_heartbeat: DateTime<Utc>,
    /// When it went offline; `None` while it is alive.
    pub offline_since: Option<DateTime<Utc>>,
    /// When a drain was requested; `None` without a request.
    #[serde(default)]
    pub drain_requested_at: Option<DateTime<Utc>>,
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
    pub started_at: DateTime<Utc>,
    /// Time of the last heartbeat.
    pub last_heartbeat: DateTime<Utc>,
    /// Whether it leads, or was the last leader and no standby has taken over.
    pub is_leader: bool,
    /// Seconds since the lease of the leader expired; `None` while the lease is valid, and for
    /// standbys.
    #[serde(default)]
    pub lease_expired_seconds: Option<u64>,
    /// Start of its leadership; `None` for standbys.
    pub leader_since: Option<DateTime<Utc>>,
    /// Its term; `None` for standbys.
    pub term: Option<i64>,
    /// When a step-down from this term was requested; `None` without a request.
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
    pub next_run_at: Option<DateTime<Utc>>,
    /// Number of waiting runs.
    pub runs_waiting: i64,
    /// Number of running runs.
    pub runs_running: i64,
    /// Number of live workers.
    pub workers_online: i64,
    /// Number of registered schedulers.
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

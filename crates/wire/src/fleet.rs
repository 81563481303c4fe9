//! The processes of an installation, and its state at a glance.
//!
//! Made by the API and read by clients. Plain data.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{LeaderState, WorkerStatus};
use crate::queue::Rate;

/// A worker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// Random identity, made when the process started.
    pub id: Uuid,
    /// Host, a label.
    pub hostname: String,
    /// Operating system and architecture.
    pub platform: String,
    /// Process id, a label.
    pub process_id: i32,
    /// Version of the program.
    pub version: String,
    /// Queues it serves.
    pub queues: Vec<String>,
    /// How many runs it runs at once.
    pub concurrency: i32,
    /// What it is doing.
    pub status: WorkerStatus,
    /// How many runs it runs now.
    pub running: i32,
    /// How many attempts it has finished.
    pub jobs_processed: i64,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it last said that it lives.
    pub last_heartbeat: DateTime<Utc>,
    /// Since when it is gone; `None` while it lives.
    pub offline_since: Option<DateTime<Utc>>,
    /// Since when it is asked to take nothing new; `None` unless it is.
    #[serde(default)]
    pub drain_requested_at: Option<DateTime<Utc>>,
}

/// A scheduler process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulerInstance {
    /// Random identity, made when the process started.
    pub id: Uuid,
    /// Host, a label.
    pub hostname: String,
    /// Process id, a label.
    pub pid: i32,
    /// Version of the program.
    pub version: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it last said that it lives.
    pub last_heartbeat: DateTime<Utc>,
    /// Whether it leads, or led last and nobody has taken over.
    pub is_leader: bool,
    /// How many seconds ago the lease of the leader has expired; `None` while it holds, and for others.
    #[serde(default)]
    pub lease_expired_seconds: Option<u64>,
    /// Since when; `None` unless it leads.
    pub leader_since: Option<DateTime<Utc>>,
    /// Its term; `None` unless it leads.
    pub term: Option<i64>,
    /// Since when it is asked to step down from this term; `None` unless it is.
    pub step_down_requested_at: Option<DateTime<Utc>>,
    /// How many seconds the database's clock was ahead of its host's; `None` before its second heartbeat.
    pub clock_offset_seconds: Option<f64>,
}

/// Body of a request to step down; may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepDownRequest {
    /// Ask the leader even though no other scheduler would take over: nothing is dispatched then until it leads again, after two leases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// The state of an installation at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// Jobs that fire.
    pub jobs_active: i64,
    /// Jobs that are disabled or paused.
    pub jobs_inactive: i64,
    /// Those that the scheduler has disabled by itself, because they cannot fire as they are.
    #[serde(default)]
    pub jobs_quarantined: i64,
    /// Some of those.
    #[serde(default)]
    pub quarantined: Vec<QuarantinedJob>,
    /// When the next job is due.
    pub next_run_at: Option<DateTime<Utc>>,
    /// Runs that wait.
    pub runs_waiting: i64,
    /// Runs that run.
    pub runs_running: i64,
    /// Living workers.
    pub workers_online: i64,
    /// Registered schedulers.
    pub schedulers: i64,
    /// Whether one of them leads and has renewed its lease.
    pub has_leader: bool,
    /// The same, with whether one led last and nobody has taken over.
    pub leader_state: LeaderState,
    /// How many seconds ago the lease of that one has expired.
    #[serde(default)]
    pub lease_expired_seconds: Option<u64>,
    /// Queues in which something waits, and those that are paused or limited.
    pub queues: Vec<QueueStatus>,
}

/// A job that the scheduler has disabled by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuarantinedJob {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: Option<String>,
}

/// A queue in which something waits, or that is paused or limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueStatus {
    /// Its name.
    pub name: String,
    /// How many runs wait.
    pub waiting: i64,
    /// When the oldest could first have been claimed.
    pub oldest_claimable_at: Option<DateTime<Utc>>,
    /// Whether a living worker serves it; without one nothing in it will run.
    pub has_live_worker: bool,
    /// How many workers of the queue drain, and so take nothing new.
    #[serde(default)]
    pub workers_draining: i64,
    /// Whether it is paused.
    pub is_paused: bool,
    /// Why it is paused.
    #[serde(default)]
    pub pause_reason: Option<String>,
    /// Whether as many of its runs run, or have been claimed, as may.
    #[serde(default)]
    pub is_at_limit: bool,
    /// How many of its runs may run at once.
    #[serde(default)]
    pub max_running: Option<i64>,
    /// How many do; `None` without that limit.
    #[serde(default)]
    pub running: Option<i64>,
    /// How fast its runs may be claimed.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// How many were claimed within the last period; `None` without a rate.
    #[serde(default)]
    pub claimed_in_period: Option<i64>,
}

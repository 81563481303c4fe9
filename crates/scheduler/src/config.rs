//! Settings of the scheduler: names, units, defaults, and their dependencies.

mod heartbeat;
mod retention;

use std::time::Duration;

use sched_model::domain::lease::Lease;
use sched_runtime::config::{self, DatabaseSettings, HealthSettings, PublicSettings, Setting, Values};

pub use heartbeat::HeartbeatConfig;
pub use retention::RetentionConfig;

pub const SETTINGS: &[Setting] = &[
    Setting::new(
        "scheduler-poll-interval",
        "SCHEDULER_POLL_INTERVAL",
        "DURATION",
        "Longest pause between two queries for due jobs; a due time or a change of a job ends it earlier",
    )
    .default("1s"),
    Setting::new("scheduler-batch-size", "SCHEDULER_BATCH_SIZE", "COUNT", "Most jobs taken in one transaction")
        .default("1000"),
    Setting::new(
        "scheduler-lanes",
        "SCHEDULER_LANES",
        "COUNT",
        "Most transactions at once while a burst is dispatched; at least one connection of the pool is left for other work",
    )
    .default("2"),
    Setting::new(
        "leader-heartbeat-interval",
        "LEADER_HEARTBEAT_INTERVAL",
        "DURATION",
        "Time between heartbeats, which renew the lease of the leader",
    )
    .default("1s"),
    Setting::new(
        "leader-lease",
        "LEADER_LEASE",
        "DURATION",
        "Silence after which a standby takes over; at least three heartbeats",
    )
    .default("5s"),
    Setting::new(
        "worker-offline-threshold",
        "WORKER_OFFLINE_THRESHOLD",
        "DURATION",
        "Silence after which a worker is given up and its work goes to other workers; the same for workers and schedulers",
    )
    .default("30s"),
    Setting::new(
        "max-retry-attempts",
        "MAX_RETRY_ATTEMPTS",
        "COUNT",
        "Attempts in all of jobs without a retry policy",
    )
    .default("1"),
    Setting::new(
        "job-timeout-threshold",
        "JOB_TIMEOUT_THRESHOLD",
        "DURATION",
        "Time limit of an attempt on a living worker whose claim has no time-out; other attempts have that of their job or \
         function",
    )
    .default("10min"),
];

pub const GROUPS: &[&[Setting]] =
    &[config::DATABASE, config::HEALTH, config::PUBLIC, SETTINGS, retention::SETTINGS, heartbeat::SETTINGS];

#[derive(Debug, Clone)]
pub struct Config {
    pub database: DatabaseSettings,
    pub health: HealthSettings,
    /// Longest sleep between two queries for due jobs.
    pub poll_interval: Duration,
    /// Limit of jobs in one transaction.
    pub batch_size: i64,
    /// Limit of concurrent transactions during a burst.
    pub lanes: u32,
    pub heartbeat_interval: Duration,
    pub lease: Lease,
    /// Silence after which the leader declares a worker lost.
    pub worker_offline_threshold: Duration,
    /// Attempts of jobs without a retry policy.
    pub max_retry_attempts: u32,
    /// Time limit of an attempt whose claim names none.
    pub job_timeout_threshold: Duration,
    pub retention: RetentionConfig,
    /// URL under which people reach the API.
    pub public_url: Option<String>,
    /// `None` without a URL.
    pub heartbeat: Option<HeartbeatConfig>,
}

impl Config {
    /// Reads the settings and records every error.
    pub fn read(values: &mut Values) -> Self {
        let heartbeat_interval = values.duration_within(
            "leader-heartbeat-interval",
            Duration::from_millis(50)..=Duration::from_secs(60),
        );
        let lease =
            values.duration_within("leader-lease", Duration::from_millis(200)..=Duration::from_secs(600));
        Self {
            database: DatabaseSettings::read(values),
            health: HealthSettings::read(values),
            poll_interval: values.duration_within(
                "scheduler-poll-interval",
                Duration::from_millis(10)..=Duration::from_secs(60),
            ),
            batch_size: values.integer("scheduler-batch-size", 1..=10_000),
            lanes: values.integer("scheduler-lanes", 1..=16),
            heartbeat_interval,
            lease: checked_lease(values, lease, heartbeat_interval),
            worker_offline_threshold: values.duration_within(
                "worker-offline-threshold",
                Duration::from_secs(1)..=Duration::from_secs(3600),
            ),
            max_retry_attempts: values.integer("max-retry-attempts", 1..=100),
            job_timeout_threshold: values.duration_within(
                "job-timeout-threshold",
                Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600),
            ),
            retention: RetentionConfig::read(values, lease),
            public_url: PublicSettings::read(values).url,
            heartbeat: HeartbeatConfig::read(values),
        }
    }
}

/// For an invalid lease, records the error and returns one that fits.
fn checked_lease(values: &mut Values, lease: Duration, heartbeat: Duration) -> Lease {
    match Lease::new(lease, heartbeat) {
        Ok(lease) => lease,
        Err(error) => {
            if values.are_sound(&["leader-lease", "leader-heartbeat-interval"]) {
                values.mistake("leader-lease", error);
            }
            Lease::shortest(heartbeat)
        }
    }
}

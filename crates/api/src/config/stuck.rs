//! Settings by which a dry run of `reset-stuck` judges attempts. They must equal those of the
//! schedulers, which do the real reset. Answers about jobs and functions show the default of attempts.

use std::time::Duration;

use sched_model::recovery::stuck_attempts::Thresholds;
use sched_runtime::config::{Setting, Values};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "worker-offline-threshold",
        "WORKER_OFFLINE_THRESHOLD",
        "DURATION",
        "Time without a heartbeat after which a dry run of reset-stuck regards a worker as dead; set it as on the schedulers",
    )
    .default("30s"),
    Setting::new(
        "max-retry-attempts",
        "MAX_RETRY_ATTEMPTS",
        "COUNT",
        "Attempts in all of jobs without a retry policy, as answers and such a dry run show them; set it as on the schedulers",
    )
    .default("1"),
    Setting::new(
        "job-timeout-threshold",
        "JOB_TIMEOUT_THRESHOLD",
        "DURATION",
        "Time limit that such a dry run assumes for an attempt without one; set it as on the schedulers",
    )
    .default("10min"),
];

/// Reads the settings and records every error.
pub(super) fn read(values: &mut Values) -> Thresholds {
    Thresholds {
        worker_lease: values
            .duration_within("worker-offline-threshold", Duration::from_secs(1)..=Duration::from_secs(3600)),
        unknown_limit: values.duration_within(
            "job-timeout-threshold",
            Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600),
        ),
        max_attempts: values.integer("max-retry-attempts", 1..=100),
    }
}

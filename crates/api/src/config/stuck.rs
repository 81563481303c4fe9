//! Settings by which a dry run of `reset-stuck` judges attempts. They must equal those of the
//! schedulers, which do the real reset.

use std::time::Duration;

use sched_model::recovery::stuck_attempts::Thresholds;
use sched_runtime::config::{Setting, Values};

/// Names, defaults and bounds are those of the schedulers.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "worker-offline-threshold",
        "WORKER_OFFLINE_THRESHOLD",
        "DURATION",
        "Silence after which a dry run of reset-stuck takes a worker for given up; the same as the schedulers'",
    )
    .default("30s"),
    Setting::new(
        "max-retry-attempts",
        "MAX_RETRY_ATTEMPTS",
        "COUNT",
        "Attempts of jobs without a retry policy, for what such a dry run says would become of them; the same as the schedulers'",
    )
    .default("3"),
    Setting::new(
        "job-timeout-threshold",
        "JOB_TIMEOUT_THRESHOLD",
        "DURATION",
        "How long such a dry run lets an attempt run whose claim does not say; the same as the schedulers'",
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

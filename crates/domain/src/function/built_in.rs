//! The built-in functions: their names, configuration and jobs.
//!
//! Every installation has them (`sched_model::definitions::built_in`), and every worker has the
//! handlers. A function and its job have the name of the handler. Pure.

use serde_json::{Value, json};

use crate::attempt::retry::{BackoffType, RetryPolicy};
use crate::job::{OverlapPolicy, Scope};
use sched_timetable::JobType;

/// Reserved prefix of the names of built-in handlers.
pub const PREFIX: &str = "sched.";

pub const QUEUE: &str = "system";

#[must_use]
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(PREFIX)
}

#[derive(Debug, Clone, PartialEq)]
pub struct Builtin {
    /// Name of the handler, the function and the job.
    pub name: &'static str,
    pub display_name: &'static str,
    pub description: &'static str,
    /// Decides where the job's history is kept.
    pub scope: Scope,
    pub job_type: JobType,
    pub schedule: Value,
    pub timeout_seconds: i32,
    pub overlap: OverlapPolicy,
    /// `None` uses the default of the installation.
    pub retry_policy: Option<RetryPolicy>,
    pub disabled_reason: Option<&'static str>,
}

/// Deletes finished rows that are older than the retention settings.
pub const RETENTION: &str = "sched.retention";
/// Creates future months of history and removes old ones.
pub const PARTITIONS: &str = "sched.partitions";
pub const STALE_INSTANCES: &str = "sched.stale_instances";
pub const ARCHIVE: &str = "sched.archive";
pub const BACKUP: &str = "sched.backup";
pub const NOTIFY: &str = "sched.notify";

/// Maintenance may be repeated without harm.
const MAINTENANCE_ATTEMPTS: u32 = 3;

#[must_use]
pub fn builtins() -> [Builtin; 6] {
    let hours = 3600;
    [
        Builtin {
            name: ARCHIVE,
            display_name: "Archive history",
            description: "Writes months of history that retention has detached to a folder or to S3, verifies them and drops them.",
            scope: Scope::System,
            job_type: JobType::Cron,
            schedule: json!({"expression": "40 2 * * *"}),
            timeout_seconds: 6 * hours,
            overlap: OverlapPolicy::Skip,
            retry_policy: Some(RetryPolicy::standard(MAINTENANCE_ATTEMPTS)),
            disabled_reason: Some(
                "set HISTORY_EXPIRY=detach on the schedulers and ARCHIVE_URL on workers that serve the queue system and sign in as the owner; they enable the job",
            ),
        },
        Builtin {
            name: BACKUP,
            display_name: "Back up the scheduler's database",
            description: "Dumps the scheduler's own database with pg_dump and keeps the newest dumps.",
            scope: Scope::BackupInfrastructure,
            job_type: JobType::Cron,
            schedule: json!({"expression": "20 1 * * *"}),
            timeout_seconds: 6 * hours,
            overlap: OverlapPolicy::Skip,
            retry_policy: Some(RetryPolicy::standard(MAINTENANCE_ATTEMPTS)),
            disabled_reason: Some(
                "set BACKUP_DIR on the workers that serve the queue system, then enable the job; a worker that signs in as the owner enables it",
            ),
        },
        Builtin {
            name: NOTIFY,
            display_name: "Send a notification",
            description: "Sends one notification to its channel. The leading scheduler dispatches it for each; it has no schedule.",
            scope: Scope::System,
            job_type: JobType::Manual,
            schedule: json!({}),
            timeout_seconds: 60,
            // Messages are independent of each other.
            overlap: OverlapPolicy::Allow,
            // Retries for about two hours, so that the receiver can be restarted or moved.
            retry_policy: Some(RetryPolicy {
                max_attempts: 12,
                backoff_seconds: 5,
                backoff_type: BackoffType::Exponential,
                max_backoff_seconds: 1800,
                jitter_percent: 20,
                non_retryable: Vec::new(),
            }),
            disabled_reason: None,
        },
        Builtin {
            name: PARTITIONS,
            display_name: "Maintain partitions",
            description: "Creates the history partitions of the coming months, and drops or detaches old ones.",
            scope: Scope::System,
            job_type: JobType::Cron,
            schedule: json!({"expression": "10 0 * * *"}),
            timeout_seconds: 600,
            overlap: OverlapPolicy::Skip,
            retry_policy: Some(RetryPolicy::standard(MAINTENANCE_ATTEMPTS)),
            disabled_reason: None,
        },
        Builtin {
            name: RETENTION,
            display_name: "Remove old rows",
            description: "Removes finished dispatches, records of skipped fires, idempotency keys and audit entries that are old enough.",
            scope: Scope::System,
            job_type: JobType::Interval,
            schedule: json!({"minutes": 15}),
            timeout_seconds: 900,
            overlap: OverlapPolicy::Skip,
            retry_policy: Some(RetryPolicy::standard(MAINTENANCE_ATTEMPTS)),
            disabled_reason: None,
        },
        Builtin {
            name: STALE_INSTANCES,
            display_name: "Remove stale registrations",
            description: "Removes standbys and workers from the lists that have been gone for long.",
            scope: Scope::System,
            job_type: JobType::Interval,
            schedule: json!({"hours": 1}),
            timeout_seconds: 300,
            overlap: OverlapPolicy::Skip,
            retry_policy: Some(RetryPolicy::standard(MAINTENANCE_ATTEMPTS)),
            disabled_reason: None,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::handler_config::check_handler_name;

    #[test]
    fn built_in_names_are_valid_reserved_and_sorted() {
        let names = builtins().map(|builtin| builtin.name);
        for name in names {
            assert!(is_reserved(name), "{name}");
            assert_eq!(check_handler_name(name), Ok(()));
        }
        assert!(names.is_sorted());
        assert!(!is_reserved("scheduled"));
    }
}

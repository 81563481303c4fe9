//! Settings that are stored as JSON. Reading them never fails: invalid data is logged.

use sched_domain::dependency::After;
use sched_domain::retry::RetryPolicy;

/// Reads a stored retry policy. A policy that cannot be read was written without the API; it counts
/// as none and is logged. The installation's default applies, so neither a claim nor a list fails.
pub(crate) fn stored_policy(
    stored: Option<serde_json::Value>,
    what: impl FnOnce() -> String,
) -> Option<RetryPolicy> {
    match serde_json::from_value(stored?) {
        Ok(policy) => Some(policy),
        Err(error) => {
            tracing::error!(policy = what(), %error, "a stored retry policy is invalid; the default applies");
            None
        }
    }
}

/// The dependencies in a job's row. This program never writes unreadable data, and the separately
/// stored dependencies decide.
pub(crate) fn stored_after(stored: serde_json::Value, job: &str) -> Vec<After> {
    serde_json::from_value(stored).unwrap_or_else(|error| {
        tracing::error!(job.name = job, %error, "the stored dependencies of a job are invalid; showing none");
        Vec::new()
    })
}

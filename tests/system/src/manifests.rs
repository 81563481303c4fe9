//! Manifests of jobs for tests.

use serde_json::{Value, json};

/// A manifest with `jobs`, all of which run a shell command.
#[must_use]
pub fn shell_jobs(command: &str, jobs: &[Value]) -> Value {
    let jobs: Vec<Value> = jobs
        .iter()
        .map(|job| {
            let mut job = job.clone();
            job["function"] = json!("command");
            job
        })
        .collect();
    json!({
        "task_functions": [{
            "name": "command",
            "handler_type": "process",
            "handler_config": {"shell": true, "command": command, "grace_seconds": 1},
        }],
        "jobs": jobs,
    })
}

#[must_use]
pub fn manual(name: &str) -> Value {
    json!({"name": name, "job_type": "manual"})
}

/// A manual job with concurrent runs and immediate retries, at most 20 attempts.
#[must_use]
pub fn retried(name: &str) -> Value {
    let policy = json!({"max_attempts": 20, "backoff_seconds": 0, "jitter_percent": 0});
    json!({"name": name, "job_type": "manual", "retry_policy": policy, "overlap_policy": "allow", "max_instances": 100})
}

#[must_use]
pub fn every(name: &str, seconds: u32) -> Value {
    json!({"name": name, "job_type": "interval", "schedule_config": {"seconds": seconds}})
}

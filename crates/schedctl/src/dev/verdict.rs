//! Checks whether the jobs of a file have run.
//!
//! Every enabled job needs a successful run, and no run of it may fail permanently. The status of a
//! run contains the decision of its effective retry policy, so the policy of the file does not
//! matter here. Runs of an earlier start do not count, except for a one-off, which runs once, ever.
//! Pure; instants are those of the database clock.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sched_wire::{JobSpec, JobType, Run, RunStatus};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expectation {
    pub(super) job: String,
    pub(super) is_manual: bool,
    /// Then a run of an earlier start counts.
    pub(super) is_one_off: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobCheck {
    Done,
    Missing(String),
    /// A run failed, and no retry follows.
    Failed(String),
}

impl Expectation {
    /// `None` for a disabled job.
    pub(super) fn of(job: &JobSpec) -> Option<Self> {
        job.is_enabled.then(|| Self {
            job: job.name.clone(),
            is_manual: job.job_type == JobType::Manual,
            is_one_off: job.job_type == JobType::OneOff,
        })
    }

    pub(super) fn concerns(&self, run: &Run, started: DateTime<Utc>) -> bool {
        self.is_one_off || run.created_at >= started
    }

    /// The runs are newest first.
    pub(super) fn check(&self, runs: &[Run], started: DateTime<Utc>) -> JobCheck {
        let ours = || runs.iter().filter(|run| self.concerns(run, started));
        // A user replaced them by another run.
        let retried: HashSet<_> = ours().filter_map(|run| run.retry_of).collect();
        if let Some(failed) = ours().find(|run| is_failure(run.status) && !retried.contains(&run.id)) {
            return JobCheck::Failed(with_error(failed, failed.status.as_str()));
        }
        if ours().any(|run| run.status == RunStatus::Succeeded) {
            return JobCheck::Done;
        }
        let Some(latest) = ours().next() else { return JobCheck::Missing("has not run yet".to_owned()) };
        JobCheck::Missing(match latest.status {
            RunStatus::Running => "is running".to_owned(),
            RunStatus::Waiting if latest.retry_count > 0 => with_error(latest, "waits for its retry"),
            RunStatus::Waiting => "waits for a worker".to_owned(),
            RunStatus::Cancelled => "was cancelled".to_owned(),
            status => with_error(latest, status.as_str()),
        })
    }
}

const fn is_failure(status: RunStatus) -> bool {
    match status {
        RunStatus::Failed | RunStatus::TimedOut | RunStatus::DeadLetter => true,
        RunStatus::Waiting | RunStatus::Running | RunStatus::Succeeded | RunStatus::Cancelled => false,
    }
}

fn with_error(run: &Run, what: &str) -> String {
    let attempts = match run.attempt {
        0 => String::new(),
        1 => " after 1 attempt".to_owned(),
        count => format!(" after {count} attempts"),
    };
    let error = run.error_message.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    format!("{what}{attempts}{error}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    fn expectation(job: Value) -> Option<Expectation> {
        let mut all = json!({"name": "j", "function": "f", "job_type": "manual"});
        all.as_object_mut().unwrap().extend(job.as_object().unwrap().clone());
        Expectation::of(&serde_json::from_value(all).unwrap())
    }

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn run(id: u128, status: RunStatus, second: i64) -> Run {
        let value = json!({
            "id": Uuid::from_u128(id), "job_id": Uuid::nil(), "job": "j", "status": status,
            "scheduled_for": at(second), "created_at": at(second), "available_at": at(second),
            "claimed_at": null, "completed_at": null, "queue": "default", "priority": 50, "attempt": 2,
            "retry_count": 1, "lost_count": 0, "worker_id": null, "error_message": "exit code 3",
            "triggered_by": "scheduler", "triggered_by_user": null, "caused_by": null, "task_args": {},
            "is_catch_up": false, "expires_at": null, "progress": null,
        });
        serde_json::from_value(value).unwrap()
    }

    fn check(job: Value, runs: &[Run]) -> JobCheck {
        expectation(job).unwrap().check(runs, at(100))
    }

    fn missing(text: &str) -> JobCheck {
        JobCheck::Missing(text.to_owned())
    }

    #[test]
    fn runs_of_an_earlier_start_count_for_one_offs_only() {
        let interval = json!({"job_type": "interval", "schedule_config": {"seconds": 1}});
        let one_off = json!({"job_type": "oneoff"});
        let earlier = [run(1, RunStatus::Succeeded, 99)];
        assert_eq!(check(interval.clone(), &[]), missing("has not run yet"));
        assert_eq!(check(interval.clone(), &earlier), missing("has not run yet"));
        assert_eq!(check(interval.clone(), &[run(1, RunStatus::Succeeded, 100)]), JobCheck::Done);
        assert_eq!(check(interval, &[run(1, RunStatus::Failed, 99)]), missing("has not run yet"));
        assert_eq!(check(one_off.clone(), &earlier), JobCheck::Done);
        assert_eq!(check(one_off, &[]), missing("has not run yet"));
    }

    #[test]
    fn run_that_failed_permanently_fails_its_job() {
        for status in [RunStatus::Failed, RunStatus::TimedOut, RunStatus::DeadLetter] {
            let failed = JobCheck::Failed(format!("{status} after 2 attempts: exit code 3"));
            assert_eq!(check(json!({}), &[run(1, status, 101)]), failed);
            let beside = [run(2, RunStatus::Succeeded, 102), run(1, status, 101)];
            assert_eq!(check(json!({}), &beside), failed, "a success of another run hides no failure");
            let retry = Run { retry_of: Some(Uuid::from_u128(1)), ..run(2, RunStatus::Succeeded, 102) };
            assert_eq!(check(json!({}), &[retry, run(1, status, 101)]), JobCheck::Done);
        }
    }

    #[test]
    fn open_run_is_missing_with_its_reason() {
        for (status, text) in [
            (RunStatus::Waiting, "waits for its retry after 2 attempts: exit code 3"),
            (RunStatus::Running, "is running"),
            (RunStatus::Cancelled, "was cancelled"),
        ] {
            assert_eq!(check(json!({}), &[run(1, status, 101)]), missing(text));
        }
        let first = Run { retry_count: 0, ..run(1, RunStatus::Waiting, 101) };
        assert_eq!(check(json!({}), &[first]), missing("waits for a worker"));
    }

    #[test]
    fn disabled_job_has_no_expectation() {
        assert_eq!(expectation(json!({"is_enabled": false})), None);
        assert!(expectation(json!({})).unwrap().is_manual);
    }
}

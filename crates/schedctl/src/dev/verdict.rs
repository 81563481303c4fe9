//! Checks whether the jobs of a file have run as the file expects.
//!
//! Every enabled job runs; a one-off has run once, ever; a failing job has retries and was retried.
//! Attempts that were lost with their worker count neither way. Pure; instants are those of the
//! database clock.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sched_wire::{Attempt, AttemptStatus, FunctionSpec, JobSpec, JobType, RetryPolicySpec};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expectation {
    pub(super) job: String,
    pub(super) is_manual: bool,
    /// Then a run of an earlier start counts.
    is_one_off: bool,
    /// Then failures are expected.
    retries: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobCheck {
    Done,
    Missing(String),
}

impl Expectation {
    /// `None` for a disabled job.
    pub(super) fn of<'a>(job: &JobSpec, functions: impl Iterator<Item = &'a FunctionSpec>) -> Option<Self> {
        let mut functions = functions;
        let of_function = functions.find(|function| function.name == job.function);
        let of_function = of_function.and_then(|function| function.retry_policy.as_ref());
        let retries = |policy: &RetryPolicySpec| policy.max_attempts > 1;
        job.is_enabled.then(|| Self {
            job: job.name.clone(),
            is_manual: job.job_type == JobType::Manual,
            is_one_off: job.job_type == JobType::OneOff,
            retries: job.retry_policy.as_ref().or(of_function).is_some_and(retries),
        })
    }

    pub(super) fn concerns(&self, attempt: &Attempt, started: DateTime<Utc>) -> bool {
        let ended = match attempt.status {
            AttemptStatus::Succeeded
            | AttemptStatus::Failed
            | AttemptStatus::TimedOut
            | AttemptStatus::Cancelled => true,
            AttemptStatus::Lost | AttemptStatus::Released => false,
        };
        ended && (self.is_one_off || attempt.completed_at >= started)
    }

    /// The attempts are newest first.
    pub(super) fn check(&self, attempts: &[Attempt], started: DateTime<Utc>) -> JobCheck {
        let ours = || attempts.iter().filter(|attempt| self.concerns(attempt, started));
        if ours().any(|attempt| attempt.status == AttemptStatus::Succeeded) {
            return JobCheck::Done;
        }
        let Some(latest) = ours().next() else { return JobCheck::Missing("has not run yet".to_owned()) };
        let mut attempts: HashMap<Uuid, u32> = HashMap::new();
        for attempt in ours() {
            *attempts.entry(attempt.run_id).or_default() += 1;
        }
        if !self.retries {
            return JobCheck::Missing(format!("failed without a configured retry: {}", why(latest)));
        }
        if attempts.values().any(|count| *count > 1) {
            return JobCheck::Done;
        }
        JobCheck::Missing(format!("failed and has not been retried yet: {}", why(latest)))
    }
}

fn why(attempt: &Attempt) -> String {
    match (&attempt.error_message, attempt.exit_code) {
        (Some(message), _) => format!("{}, {message}", attempt.status),
        (None, Some(code)) => format!("{}, exit code {code}", attempt.status),
        (None, None) => attempt.status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn expectation(job: Value) -> Option<Expectation> {
        let mut all = json!({"name": "j", "function": "f", "job_type": "manual"});
        all.as_object_mut().unwrap().extend(job.as_object().unwrap().clone());
        let function: FunctionSpec =
            serde_json::from_value(json!({"name": "f", "handler_type": "process", "handler_config": {}}))
                .unwrap();
        Expectation::of(&serde_json::from_value(all).unwrap(), [function].iter())
    }

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn attempt(run: u128, status: AttemptStatus, second: i64) -> Attempt {
        let value = json!({
            "id": Uuid::from_u128(second as u128), "job_id": Uuid::nil(), "job": "j",
            "run_id": Uuid::from_u128(run), "attempt": 1, "status": status,
            "scheduled_for": at(0), "started_at": at(second), "completed_at": at(second), "duration_ms": 1,
            "exit_code": 3, "result": null, "error_class": null, "error_message": null, "output_bytes": 0,
            "worker_id": null, "triggered_by": "scheduler",
        });
        serde_json::from_value(value).unwrap()
    }

    fn is_done(job: Value, attempts: &[(u128, AttemptStatus, i64)]) -> bool {
        let attempts: Vec<Attempt> =
            attempts.iter().map(|(run, status, second)| attempt(*run, *status, *second)).collect();
        expectation(job).unwrap().check(&attempts, at(100)) == JobCheck::Done
    }

    #[test]
    fn a_job_has_to_execute_after_the_start_and_a_one_off_at_any_time() {
        use AttemptStatus::Succeeded;
        let interval = json!({"job_type": "interval", "schedule_config": {"seconds": 1}});
        let one_off = json!({"job_type": "oneoff"});
        assert!(!is_done(interval.clone(), &[]));
        assert!(!is_done(interval.clone(), &[(1, Succeeded, 99)]));
        assert!(is_done(interval, &[(2, Succeeded, 100), (1, Succeeded, 99)]));
        assert!(is_done(one_off.clone(), &[(1, Succeeded, 99)]));
        assert!(!is_done(one_off, &[]));
    }

    #[test]
    fn failing_is_no_success_unless_the_file_asks_for_retries_and_there_was_one() {
        use AttemptStatus::{Failed, Succeeded, TimedOut};
        let plain = json!({});
        let retried = json!({"retry_policy": {"max_attempts": 2}});
        assert!(!is_done(plain.clone(), &[(1, Failed, 101), (1, Failed, 100)]));
        assert!(is_done(plain, &[(1, Succeeded, 102), (1, Failed, 101)]));
        assert!(!is_done(retried.clone(), &[(1, Failed, 101)]));
        assert!(!is_done(retried.clone(), &[(2, Failed, 102), (1, Failed, 101)]));
        assert!(is_done(retried.clone(), &[(1, TimedOut, 102), (1, Failed, 101)]));
        assert!(!is_done(
            json!({"retry_policy": {"max_attempts": 1}}),
            &[(1, Failed, 102), (1, Failed, 101)]
        ));
    }

    #[test]
    fn attempts_that_ended_with_their_worker_prove_nothing() {
        use AttemptStatus::{Lost, Released};
        let retried = json!({"retry_policy": {"max_attempts": 5}});
        assert!(!is_done(retried, &[(1, Lost, 102), (1, Released, 101)]));
    }

    #[test]
    fn what_is_missing_is_said_with_the_reason() {
        let expectation = expectation(json!({})).unwrap();
        let failed = [attempt(1, AttemptStatus::Failed, 101)];
        let JobCheck::Missing(text) = expectation.check(&failed, at(100)) else { panic!("done") };
        assert!(text.contains("failed, exit code 3"), "{text}");
    }

    #[test]
    fn nothing_is_expected_of_a_disabled_job() {
        assert_eq!(expectation(json!({"is_enabled": false})), None);
        assert!(expectation(json!({})).unwrap().is_manual);
    }
}

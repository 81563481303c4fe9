//! Ending attempts as lost: what history, the dispatch and the events say about it.
//!
//! Shared by the tasks that find such attempts. Each is ended under its own claim token, so that a worker which reports on it later
//! changes nothing. All of it happens in the caller's fenced transaction, events included: either the attempt is lost and told, or
//! neither.

use std::collections::HashMap;
use std::time::Duration;

use sched_model::db::attempts::{Ended, Record};
use sched_model::db::events::{self, NewEvent};
use sched_model::db::recovery::{self, OpenAttempt};
use sched_model::db::{Conn, DbError};
use sched_model::domain::attempt::{AttemptOutcome, POISON_AFTER_LOSSES, Verdict, decide};
use sched_model::domain::dispatch::DispatchStatus;
use sched_model::domain::ids::{DispatchId, execution_id};
use sched_model::domain::retry::RetryPolicy;
use serde_json::json;

/// Why an attempt is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its worker was given up.
    WorkerLost {
        /// After this much silence.
        lease: Duration,
    },
    /// Its worker lives, and has neither ended nor killed it though its time is over.
    Overdue {
        /// How long it may run, its grace included.
        limit: Duration,
    },
    /// No claim names it, and its worker is gone or its time over.
    Stray,
}

/// Shows the counters of what is lost before anything is.
pub(super) fn show_counters() {
    for reason in ["worker_lost", "overdue", "claim_missing"] {
        metrics::counter!("sched_attempts_lost_total", "reason" => reason).increment(0);
    }
    metrics::counter!("sched_dispatches_poisoned_total").increment(0);
}

impl Cause {
    /// The class of the error in history, and the reason in events.
    const fn class(self) -> &'static str {
        match self {
            Self::WorkerLost { .. } => "worker_lost",
            Self::Overdue { .. } => "overdue",
            Self::Stray => "claim_missing",
        }
    }

    fn message(self, attempt: &OpenAttempt) -> String {
        let worker = attempt.worker_id;
        match self {
            Self::WorkerLost { lease } => format!(
                "worker {worker} was given up after {lease:?} without a heartbeat; how far the attempt came is unknown"
            ),
            Self::Overdue { limit } => format!(
                "overdue: worker {worker} lives but has not ended the attempt after {}s, though it may run for {}s, its \
                 grace included; how far it came is unknown",
                attempt.running_for().as_secs(),
                limit.as_secs()
            ),
            Self::Stray => format!(
                "no claim of worker {worker} names the attempt, so nobody would have ended it; how far it came is unknown"
            ),
        }
    }
}

/// An attempt that was ended as lost.
#[derive(Debug, Clone)]
pub(super) struct Lost {
    attempt: OpenAttempt,
    cause: Cause,
    verdict: Verdict,
    message: String,
    /// What its dispatch is after it.
    status: DispatchStatus,
}

/// How attempts are ended as lost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Losses {
    /// Attempts of jobs without a policy.
    pub(super) max_attempts: u32,
}

impl Losses {
    /// Ends attempts as lost and records the events. Returns those whose claim still held.
    pub(super) async fn end(
        self,
        conn: &mut Conn,
        found: Vec<(OpenAttempt, Cause)>,
    ) -> Result<Vec<Lost>, DbError> {
        let lost: Vec<Lost> = found.into_iter().map(|(attempt, cause)| self.decide(attempt, cause)).collect();
        let held = recovery::end_lost(conn, &lost.iter().map(Lost::ended).collect::<Vec<_>>()).await?;
        let held: HashMap<DispatchId, DispatchStatus> = held.into_iter().collect();
        let after = |lost: Lost| {
            let status = held.get(&lost.attempt.dispatch_id).copied()?;
            Some(Lost { status, ..lost })
        };
        let lost: Vec<Lost> = lost.into_iter().filter_map(after).collect();
        events::append(conn, &lost.iter().flat_map(Lost::events).collect::<Vec<_>>()).await?;
        Ok(lost)
    }

    fn decide(self, attempt: OpenAttempt, cause: Cause) -> Lost {
        let standard = RetryPolicy::standard(self.max_attempts);
        let policy = attempt.retry_policy.as_ref().unwrap_or(&standard);
        let class = Some(cause.class());
        let verdict = decide(AttemptOutcome::Lost, class, attempt.failures, policy, rand::random());
        let mut message = cause.message(&attempt);
        if is_poison(&attempt) {
            message.push_str("; it was lost so often that it is not tried again");
        }
        Lost { attempt, cause, verdict, message, status: DispatchStatus::InProgress }
    }
}

impl Lost {
    fn ended(&self) -> Ended {
        let attempt = &self.attempt;
        Ended {
            dispatch_id: attempt.dispatch_id,
            tenant_id: attempt.tenant_id,
            job_id: attempt.job_id,
            token: attempt.token,
            outcome: AttemptOutcome::Lost,
            verdict: self.verdict,
            record: Record {
                execution_id: execution_id(attempt.claimed_at, attempt.dispatch_id, attempt.token),
                started_at: attempt.claimed_at,
                duration: attempt.running_for(),
                exit_code: None,
                result: None,
                error_class: Some(self.cause.class().into()),
                error_message: Some(self.message.clone()),
                traceback: None,
                metrics: None,
                output: Vec::new(),
                output_bytes: 0,
            },
        }
    }

    fn events(&self) -> Vec<NewEvent> {
        let attempt = &self.attempt;
        let event = |event_type, payload| NewEvent {
            tenant_id: Some(attempt.tenant_id),
            project_id: attempt.project_id,
            job_id: Some(attempt.job_id),
            dispatch_id: Some(attempt.dispatch_id),
            event_type,
            payload,
        };
        let mut events = vec![event(
            events::EXECUTION_LOST,
            json!({
                "job_name": attempt.job_name, "attempt": attempt.attempt, "worker_id": attempt.worker_id,
                "reason": self.cause.class(), "dispatch_status": self.status.as_str(),
            }),
        )];
        if self.status == DispatchStatus::DeadLetter {
            let reason = if is_poison(attempt) { "poison" } else { "retries_exhausted" };
            events.push(event(
                events::DISPATCH_DEAD_LETTER,
                json!({
                    "job_name": attempt.job_name, "attempt": attempt.attempt, "lost_count": attempt.failures.lost + 1,
                    "reason": reason,
                }),
            ));
        }
        events
    }

    /// Logs and counts it, after the commit.
    pub(super) fn tell(&self) {
        let OpenAttempt { dispatch_id, job_name, attempt, worker_id, .. } = &self.attempt;
        tracing::warn!(
            dispatch.id = %dispatch_id, job.name = job_name, attempt, worker.id = %worker_id, error = self.message,
            "An attempt was lost."
        );
        metrics::counter!("sched_attempts_lost_total", "reason" => self.cause.class()).increment(1);
        if is_poison(&self.attempt) && self.status == DispatchStatus::DeadLetter {
            tracing::error!(
                dispatch.id = %dispatch_id, job.name = job_name,
                "A dispatch is given up as poison: its attempts were lost {POISON_AFTER_LOSSES} times."
            );
            metrics::counter!("sched_dispatches_poisoned_total").increment(1);
        }
    }
}

/// Whether losing it makes its dispatch poison, whatever its policy.
const fn is_poison(attempt: &OpenAttempt) -> bool {
    attempt.failures.lost + 1 >= POISON_AFTER_LOSSES
}

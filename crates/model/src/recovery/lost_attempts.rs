//! Ending attempts as lost: what history, the dispatch and the events say about it; and recovery, which finds those of dead workers.
//!
//! Shared by all who find such attempts. Each is ended under its own claim token, so that a worker which reports on it later
//! changes nothing, and of two who end it one does. All of it happens in the caller's transaction, events included: either the attempt
//! is lost and told, or neither.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;

use crate::events::append::{self, NewEvent};
use crate::recovery::dead_workers::{self, OpenAttempt};
use crate::running::attempts::{Ended, Record, status_after};
use crate::{Conn, DbResult, connection::notify, dispatching::tick, transact};
use sched_domain::attempt::{AttemptOutcome, POISON_AFTER_LOSSES, Verdict, decide};
use sched_domain::dispatch::DispatchStatus;
use sched_domain::ids::{DispatchId, InstanceId, Term, WorkerId, execution_id};
use sched_domain::retry::RetryPolicy;

/// Most attempts of dead workers that are ended in one transaction.
const BATCH: i64 = 500;

/// Why an attempt is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
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
pub fn show_counters() {
    for reason in ["worker_lost", "overdue", "claim_missing"] {
        metrics::counter!("sched_attempts_lost_total", "reason" => reason).increment(0);
    }
    metrics::counter!("sched_dispatches_poisoned_total").increment(0);
    metrics::counter!("sched_workers_lost_total").increment(0);
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
pub struct Lost {
    attempt: OpenAttempt,
    cause: Cause,
    verdict: Verdict,
    message: String,
    /// What its dispatch is after it.
    status: DispatchStatus,
}

/// How attempts are ended as lost.
#[derive(Debug, Clone, Copy)]
pub struct Losses {
    /// Attempts of jobs without a policy.
    pub max_attempts: u32,
}

impl Losses {
    /// Ends attempts as lost and records the events. Returns those whose claim still held.
    pub async fn end(self, conn: &mut Conn, found: Vec<(OpenAttempt, Cause)>) -> DbResult<Vec<Lost>> {
        let lost: Vec<Lost> = found.into_iter().map(|(attempt, cause)| self.decide(attempt, cause)).collect();
        let held = dead_workers::end_lost(conn, &lost.iter().map(Lost::ended).collect::<Vec<_>>()).await?;
        let held: HashMap<DispatchId, DispatchStatus> = held.into_iter().collect();
        let after = |lost: Lost| {
            let status = held.get(&lost.attempt.dispatch_id).copied()?;
            Some(Lost { status, ..lost })
        };
        let lost: Vec<Lost> = lost.into_iter().filter_map(after).collect();
        append::append(conn, &lost.iter().flat_map(Lost::events).collect::<Vec<_>>()).await?;
        Ok(lost)
    }

    /// What the dispatch of a running attempt would be once this were ended as lost, if nobody wants it cancelled.
    pub(crate) fn foresee(self, attempt: OpenAttempt, cause: Cause) -> DispatchStatus {
        status_after(self.decide(attempt, cause).verdict.event)
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
            append::EXECUTION_LOST,
            json!({
                "job_name": attempt.job_name, "attempt": attempt.attempt, "worker_id": attempt.worker_id,
                "reason": self.cause.class(), "dispatch_status": self.status.as_str(),
            }),
        )];
        if self.status == DispatchStatus::DeadLetter {
            let reason = if is_poison(attempt) { "poison" } else { "retries_exhausted" };
            events.push(event(
                append::DISPATCH_DEAD_LETTER,
                json!({
                    "job_name": attempt.job_name, "attempt": attempt.attempt, "lost_count": attempt.failures.lost + 1,
                    "reason": reason,
                }),
            ));
        }
        events
    }

    /// Logs and counts it, after the commit.
    pub fn tell(&self) {
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

/// What a recovery has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Workers that were given up.
    pub workers: usize,
    /// Attempts that were ended.
    pub attempts: usize,
}

/// Who recovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The leader, in its term.
    Leader {
        /// Who it is.
        instance: InstanceId,
        /// Its term.
        term: Term,
    },
    /// A worker, because nobody leads.
    Worker,
}

impl By {
    /// Whether it may, for the length of the transaction.
    async fn may(self, conn: &mut Conn, lease: Duration) -> DbResult<bool> {
        match self {
            Self::Leader { instance, term } => tick::fence(conn, instance, term).await.map(|_at| true),
            Self::Worker => dead_workers::may_recover_alone(conn, lease).await,
        }
    }
}

/// Finding the work of dead workers and ending its attempts, so that others do it again.
#[derive(Debug, Clone, Copy)]
pub struct Recovery {
    /// Who does it.
    pub by: By,
    /// Silence after which a worker is given up, if its own lease is no longer.
    pub lease: Duration,
    /// How attempts are ended.
    pub losses: Losses,
}

impl Recovery {
    /// Looks, in one statement, whether there is anything to do. If so it marks workers OFFLINE whose lease has expired, and then ends the
    /// attempts of OFFLINE workers as lost, until none is left or `is_stopped`.
    ///
    /// These are separate transactions, because jobs are locked before workers everywhere; whoever dies between them leaves the rest to the
    /// next. Each begins with the question whether we may, and changes nothing if not. It looks at every OFFLINE worker that still has claims, so
    /// nothing depends on having seen the moment.
    ///
    /// # Errors
    /// When the database cannot be asked, or the term is over.
    pub async fn run(self, conn: &mut Conn, is_stopped: impl Fn() -> bool) -> DbResult<Recovered> {
        let found = dead_workers::look(conn, self.lease).await?;
        let mut offline = Vec::new();
        if found.silent_workers {
            offline = transact(conn, "expire_workers", async |conn: &mut Conn| {
                if self.by.may(conn, self.lease).await? { self.expire(conn).await } else { Ok(Vec::new()) }
            })
            .await?;
            offline.iter().for_each(tell_offline);
        }
        let mut recovered = Recovered { workers: offline.len(), attempts: 0 };
        while found.claims_of_the_lost || !offline.is_empty() {
            let lost = transact(conn, "end_lost", async |conn: &mut Conn| {
                if self.by.may(conn, self.lease).await? { self.end_lost(conn).await } else { Ok(Vec::new()) }
            })
            .await?;
            lost.iter().for_each(Lost::tell);
            recovered.attempts += lost.len();
            if i64::try_from(lost.len()).unwrap_or(i64::MAX) < BATCH || is_stopped() {
                break;
            }
        }
        tell_others(conn, recovered).await;
        Ok(recovered)
    }

    async fn expire(self, conn: &mut Conn) -> DbResult<Vec<(WorkerId, String)>> {
        let expired = dead_workers::expire_workers(conn, self.lease).await?;
        append::append(conn, &expired.iter().map(offline_event).collect::<Vec<_>>()).await?;
        Ok(expired)
    }

    async fn end_lost(self, conn: &mut Conn) -> DbResult<Vec<Lost>> {
        let cause = Cause::WorkerLost { lease: self.lease };
        let open = dead_workers::lost_attempts(conn, BATCH).await?;
        let lost = self.losses.end(conn, open.into_iter().map(|attempt| (attempt, cause)).collect()).await?;
        dead_workers::forget_finished_claims(conn).await?;
        Ok(lost)
    }
}

/// Tells whoever can go on now.
async fn tell_others(conn: &mut Conn, recovered: Recovered) {
    if recovered == Recovered::default() {
        return;
    }
    if let Err(error) = notify::dispatches_wait_again(conn).await {
        tracing::debug!(
            error = error.with_causes(),
            "Notifying the workers failed; they find the work when they poll."
        );
    }
    if recovered.attempts > 0
        && let Err(error) = notify::jobs_ended(conn).await
    {
        tracing::debug!(
            error = error.with_causes(),
            "Waking the task that runs dependents failed; it looks by itself."
        );
    }
}

fn tell_offline((worker, hostname): &(WorkerId, String)) {
    tracing::error!(worker.id = %worker, worker.hostname = hostname, "A worker is given up: its lease has expired.");
    metrics::counter!("sched_workers_lost_total").increment(1);
}

fn offline_event((worker, hostname): &(WorkerId, String)) -> NewEvent {
    NewEvent {
        tenant_id: None,
        project_id: None,
        job_id: None,
        dispatch_id: None,
        event_type: append::WORKER_OFFLINE,
        payload: json!({"worker_id": worker, "hostname": hostname}),
    }
}

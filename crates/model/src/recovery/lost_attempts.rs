//! Ends attempts as lost, with their history, run state and events; and recovery, which finds the
//! attempts of dead workers.
//!
//! All finders of lost attempts share it. Each attempt is ended under its own claim token: a later
//! report of its worker changes nothing, and of two processes that end it, one succeeds. Events
//! belong to the caller's transaction too: an attempt is lost and reported, or neither.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;

use crate::events::append::{self, NewEvent};
use crate::recovery::dead_workers::{self, OpenAttempt};
use crate::recovery::lost_output::{self, SentOutput};
use crate::running::attempts::{Ended, Record, status_after};
use crate::running::job_counters;
use crate::{Conn, DbResult, connection::notify, dispatching::tick, transact};
use sched_domain::attempt::{AttemptDecision, AttemptEnd, AttemptOutcome, POISON_AFTER_LOSSES, decide};
use sched_domain::ids::{DispatchId, ExecutionId, InstanceId, Term, WorkerId, execution_id};
use sched_domain::retry::RetryPolicy;
use sched_domain::run_state::DispatchStatus;

/// Maximum number of attempts of dead workers that one transaction ends.
const BATCH: i64 = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The worker was marked OFFLINE after this silence.
    WorkerLost { lease: Duration },
    /// The worker is alive, but neither ended nor killed the attempt within the time limit.
    Overdue {
        /// Includes the grace period.
        limit: Duration,
    },
    /// No claim names it, and its worker is gone or its time limit exceeded.
    Stray,
}

/// Registers the counters with zero before the first loss.
pub fn show_counters() {
    for reason in ["worker_lost", "overdue", "claim_missing"] {
        metrics::counter!("sched_attempts_lost_total", "reason" => reason).increment(0);
    }
    metrics::counter!("sched_dispatches_poisoned_total").increment(0);
    metrics::counter!("sched_workers_lost_total").increment(0);
}

impl Cause {
    /// Error class in history, reason in events.
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
                "worker {worker} sent no heartbeat for {lease:?} and is marked offline; the progress of the attempt is unknown"
            ),
            Self::Overdue { limit } => format!(
                "overdue: worker {worker} is alive but has not ended the attempt after {}s (limit {}s, grace included); \
                 the progress of the attempt is unknown",
                attempt.running_for().as_secs(),
                limit.as_secs()
            ),
            Self::Stray => format!(
                "no claim of worker {worker} names the attempt, so it would never end; the progress of the attempt is unknown"
            ),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Lost {
    attempt: OpenAttempt,
    cause: Cause,
    verdict: AttemptDecision,
    message: String,
    status: DispatchStatus,
}

#[derive(Debug, Clone, Copy)]
pub struct Losses {
    /// Maximum attempts of jobs without a policy.
    pub max_attempts: u32,
}

/// Result of [`Losses::end`].
#[derive(Debug, Clone, Default)]
pub struct EndedLosses {
    /// The ended attempts, whose claims still held.
    pub lost: Vec<Lost>,
    /// Whether attempts are left for another transaction, because of the size of their output.
    pub has_more: bool,
}

impl Losses {
    /// Ends attempts as lost, with their output as far as it is known, and appends the events.
    pub async fn end(self, conn: &mut Conn, mut found: Vec<(OpenAttempt, Cause)>) -> DbResult<EndedLosses> {
        let mut output = lost_output::read(conn, found.iter().map(|(attempt, _)| attempt)).await?;
        let has_more = output.attempts < found.len();
        found.truncate(output.attempts);
        let lost: Vec<Lost> = found.into_iter().map(|(attempt, cause)| self.decide(attempt, cause)).collect();
        let ended: Vec<Ended> = lost.iter().map(|lost| lost.ended(output.take(lost.attempt.token))).collect();
        let held = dead_workers::end_lost(conn, &ended).await?;
        let held: HashMap<DispatchId, DispatchStatus> = held.into_iter().collect();
        let after = |lost: Lost| {
            let status = held.get(&lost.attempt.dispatch_id).copied()?;
            Some(Lost { status, ..lost })
        };
        let lost: Vec<Lost> = lost.into_iter().filter_map(after).collect();
        append::append(conn, &lost.iter().flat_map(Lost::events).collect::<Vec<_>>()).await?;
        Ok(EndedLosses { lost, has_more })
    }

    /// The run's state if this attempt were ended as lost, without a requested cancellation.
    pub(crate) fn foresee(self, attempt: OpenAttempt, cause: Cause) -> DispatchStatus {
        status_after(self.decide(attempt, cause).verdict.event)
    }

    fn decide(self, attempt: OpenAttempt, cause: Cause) -> Lost {
        let standard = RetryPolicy::standard(self.max_attempts);
        let policy = attempt.retry_policy.as_ref().unwrap_or(&standard);
        let end = AttemptEnd { outcome: AttemptOutcome::Lost, error_class: Some(cause.class()) };
        let verdict = decide(end, attempt.failures, policy, rand::random());
        let mut message = cause.message(&attempt);
        if is_poison(&attempt) {
            message.push_str("; the run is not retried because its attempts were lost too often");
        }
        Lost { attempt, cause, verdict, message, status: DispatchStatus::InProgress }
    }
}

impl Lost {
    fn ended(&self, output: SentOutput) -> Ended {
        let attempt = &self.attempt;
        Ended {
            dispatch_id: attempt.dispatch_id,
            tenant_id: attempt.tenant_id,
            job_id: attempt.job_id,
            job: attempt.job_columns(),
            token: attempt.token,
            outcome: AttemptOutcome::Lost,
            verdict: self.verdict,
            record: Record {
                execution_id: self.execution_id(),
                started_at: attempt.claimed_at,
                duration: attempt.running_for(),
                exit_code: None,
                result: None,
                error_class: Some(self.cause.class().into()),
                error_message: Some(self.message.clone()),
                traceback: None,
                metrics: None,
                output: output.chunks,
                output_bytes: output.bytes,
            },
        }
    }

    fn execution_id(&self) -> ExecutionId {
        execution_id(self.attempt.claimed_at, self.attempt.dispatch_id, self.attempt.token)
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
                "job_name": attempt.job_name, "execution_id": self.execution_id(), "attempt": attempt.attempt,
                "worker_id": attempt.worker_id, "reason": self.cause.class(), "error": self.message,
                "dispatch_status": self.status.as_str(),
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

    /// Logs and counts the loss; call it after the commit.
    pub fn log(&self) {
        let OpenAttempt { dispatch_id, job_name, attempt, worker_id, .. } = &self.attempt;
        tracing::warn!(
            run.id = %dispatch_id, job.name = job_name, attempt, worker.id = %worker_id, error = self.message,
            "attempt lost"
        );
        metrics::counter!("sched_attempts_lost_total", "reason" => self.cause.class()).increment(1);
        if is_poison(&self.attempt) && self.status == DispatchStatus::DeadLetter {
            tracing::error!(
                run.id = %dispatch_id, job.name = job_name, losses = POISON_AFTER_LOSSES,
                "run became a dead letter: too many of its attempts were lost"
            );
            metrics::counter!("sched_dispatches_poisoned_total").increment(1);
        }
    }
}

/// Whether this loss makes the run poison, for any policy.
const fn is_poison(attempt: &OpenAttempt) -> bool {
    attempt.failures.lost + 1 >= POISON_AFTER_LOSSES
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    pub workers: usize,
    pub attempts: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recoverer {
    Leader { instance: InstanceId, term: Term },
    Worker,
}

impl Recoverer {
    /// Whether the process may recover; valid until the end of the transaction.
    async fn may(self, conn: &mut Conn, lease: Duration) -> DbResult<bool> {
        match self {
            Self::Leader { instance, term } => tick::fence(conn, instance, term).await.map(|_at| true),
            Self::Worker => dead_workers::may_recover_alone(conn, lease).await,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Recovery {
    pub by: Recoverer,
    /// Silence before a worker is marked OFFLINE, unless its own lease is longer.
    pub lease: Duration,
    pub losses: Losses,
}

impl Recovery {
    /// Checks for work in one statement. If there is some, marks workers with an expired lease
    /// OFFLINE, then ends the attempts of OFFLINE workers as lost, until none is left or
    /// `is_stopped`.
    ///
    /// These are separate transactions, because every transaction locks jobs before workers; if the
    /// process dies between them, the next recovery does the rest. Each transaction begins with the
    /// permission check, and changes nothing without the permission. Recovery covers every OFFLINE
    /// worker that still has claims, so it does not depend on seeing the moment of the loss. At the
    /// end it counts the ends of attempts ([`job_counters`]); a failed count changes nothing else.
    ///
    /// # Errors
    /// The term is over, or the database failed.
    pub async fn run(self, conn: &mut Conn, is_stopped: impl Fn() -> bool) -> DbResult<Recovered> {
        let found = dead_workers::pending_work(conn, self.lease).await?;
        let mut offline = Vec::new();
        if found.silent_workers {
            offline = transact(conn, "expire_workers", async |conn: &mut Conn| {
                if self.by.may(conn, self.lease).await? { self.expire(conn).await } else { Ok(Vec::new()) }
            })
            .await?;
            offline.iter().for_each(log_offline);
        }
        let mut recovered = Recovered { workers: offline.len(), attempts: 0 };
        while found.claims_of_the_lost || !offline.is_empty() {
            let EndedLosses { lost, has_more } = transact(conn, "end_lost", async |conn: &mut Conn| {
                let may = self.by.may(conn, self.lease).await?;
                if may { self.end_lost(conn).await } else { Ok(EndedLosses::default()) }
            })
            .await?;
            lost.iter().for_each(Lost::log);
            recovered.attempts += lost.len();
            if !has_more || is_stopped() {
                break;
            }
        }
        if recovered != Recovered::default() {
            notify(conn, recovered).await;
            // Without a leader, no other process counts these ends soon, nor earlier ends of the dead
            // worker.
            if let Err(error) = job_counters::count_and_notify(conn).await {
                tracing::debug!(
                    error = error.with_causes(),
                    "counting ends failed; the next count includes them"
                );
            }
        }
        Ok(recovered)
    }

    async fn expire(self, conn: &mut Conn) -> DbResult<Vec<(WorkerId, String)>> {
        let expired = dead_workers::expire_workers(conn, self.lease).await?;
        append::append(conn, &expired.iter().map(offline_event).collect::<Vec<_>>()).await?;
        Ok(expired)
    }

    async fn end_lost(self, conn: &mut Conn) -> DbResult<EndedLosses> {
        let cause = Cause::WorkerLost { lease: self.lease };
        let open = dead_workers::lost_attempts(conn, BATCH).await?;
        let is_full = i64::try_from(open.len()).unwrap_or(i64::MAX) >= BATCH;
        let ended = self.losses.end(conn, open.into_iter().map(|attempt| (attempt, cause)).collect()).await?;
        dead_workers::forget_finished_claims(conn).await?;
        // Without an ended attempt, a further transaction would find the same ones.
        let has_more = (is_full || ended.has_more) && !ended.lost.is_empty();
        Ok(EndedLosses { has_more, ..ended })
    }
}

/// Notifies the processes that can continue.
async fn notify(conn: &mut Conn, recovered: Recovered) {
    if let Err(error) = notify::dispatches_wait_again(conn).await {
        tracing::debug!(
            error = error.with_causes(),
            "notifying the workers failed; they find the work at their next poll"
        );
    }
    if recovered.attempts > 0
        && let Err(error) = notify::jobs_ended(conn).await
    {
        tracing::debug!(
            error = error.with_causes(),
            "notifying the leader failed; it finds the ended jobs at its next poll"
        );
    }
}

fn log_offline((worker, hostname): &(WorkerId, String)) {
    tracing::error!(worker.id = %worker, worker.hostname = hostname, "worker marked offline because its lease expired");
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

//! Recovery: the work of lost workers is given to others.
//!
//! Each run marks workers OFFLINE whose lease has expired, and then ends the attempts of OFFLINE workers as lost, under their
//! own claim tokens: the dispatch is retried within its policy, or becomes a dead letter. These are separate fenced
//! transactions, because jobs are locked before workers everywhere; a run that dies leaves the rest to the next. It looks at
//! every OFFLINE worker that still has claims, not only at those it marked itself, so nothing depends on having seen the
//! moment.

use std::time::Duration;

use chrono::TimeDelta;
use sched_model::db::attempts::{Ended, Record};
use sched_model::db::events::{self, NewEvent};
use sched_model::db::recovery::{self, OpenAttempt};
use sched_model::db::{Conn, DbError, notify, tick, transact};
use sched_model::domain::attempt::{AttemptOutcome, decide};
use sched_model::domain::ids::{WorkerId, execution_id};
use sched_model::domain::retry::RetryPolicy;
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

/// A run may take no longer; what it has committed stays.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Most attempts ended in one transaction.
const BATCH: i64 = 500;

/// Ends the attempts of lost workers.
#[derive(Debug)]
pub struct Recover {
    /// The term it works in.
    pub scope: Scope,
    /// Silence after which a worker is given up.
    pub worker_lease: Duration,
    /// Attempts of jobs without a policy.
    pub max_attempts: u32,
}

impl Activation for Recover {
    fn name(&self) -> &'static str {
        "recover"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Recover {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let offline =
            transact(&mut conn, "expire_workers", async |conn: &mut Conn| self.expire(conn).await).await?;
        offline.iter().for_each(tell_offline);
        let mut lost = 0;
        loop {
            let attempts =
                transact(&mut conn, "end_lost", async |conn: &mut Conn| self.end_lost(conn).await).await?;
            attempts.iter().for_each(tell_lost);
            lost += attempts.len();
            if i64::try_from(attempts.len()).unwrap_or(i64::MAX) < BATCH {
                break;
            }
        }
        if offline.is_empty() && lost == 0 {
            return Ok(Report::idle());
        }
        if let Err(error) = notify::dispatches_wait_again(&mut conn).await {
            tracing::debug!(
                error = error.with_causes(),
                "Notifying the workers failed; they find the work when they poll."
            );
        }
        if lost > 0
            && let Err(error) = notify::jobs_ended(&mut conn).await
        {
            tracing::debug!(
                error = error.with_causes(),
                "Waking the task that runs dependents failed; it looks by itself."
            );
        }
        Ok(Report::worked(json!({"workers_offline": offline.len(), "attempts_lost": lost})))
    }

    async fn expire(&self, conn: &mut Conn) -> Result<Vec<(WorkerId, String)>, DbError> {
        tick::fence(conn, self.scope.instance, self.scope.term).await?;
        let expired = recovery::expire_workers(conn, self.worker_lease).await?;
        events::append(conn, &expired.iter().map(offline_event).collect::<Vec<_>>()).await?;
        Ok(expired)
    }

    async fn end_lost(&self, conn: &mut Conn) -> Result<Vec<OpenAttempt>, DbError> {
        tick::fence(conn, self.scope.instance, self.scope.term).await?;
        let open = recovery::lost_attempts(conn, BATCH).await?;
        let ended: Vec<Ended> = open.iter().map(|attempt| self.lost(attempt)).collect();
        let held = recovery::end_lost(conn, &ended).await?;
        recovery::forget_finished_claims(conn).await?;
        let lost: Vec<OpenAttempt> =
            open.into_iter().filter(|attempt| held.contains(&attempt.dispatch_id)).collect();
        events::append(conn, &lost.iter().map(lost_event).collect::<Vec<_>>()).await?;
        Ok(lost)
    }

    fn lost(&self, attempt: &OpenAttempt) -> Ended {
        let standard = RetryPolicy::standard(self.max_attempts);
        let policy = attempt.retry_policy.as_ref().unwrap_or(&standard);
        let outcome = AttemptOutcome::Lost;
        Ended {
            dispatch_id: attempt.dispatch_id,
            token: attempt.token,
            outcome,
            verdict: decide(outcome, Some("worker_lost"), attempt.failures, policy, rand::random()),
            record: Record {
                execution_id: execution_id(attempt.claimed_at, attempt.dispatch_id, attempt.token),
                started_at: attempt.claimed_at,
                duration: (attempt.now - attempt.claimed_at)
                    .max(TimeDelta::zero())
                    .to_std()
                    .unwrap_or_default(),
                exit_code: None,
                result: None,
                error_class: Some("worker_lost".into()),
                error_message: Some(format!(
                    "worker {} was given up after {:?} without a heartbeat; how far the attempt came is unknown",
                    attempt.worker_id, self.worker_lease
                )),
                output: Vec::new(),
                output_bytes: 0,
            },
        }
    }
}

fn tell_offline((worker, hostname): &(WorkerId, String)) {
    tracing::error!(worker.id = %worker, worker.hostname = hostname, "A worker is given up: its lease has expired.");
    metrics::counter!("sched_workers_lost_total").increment(1);
}

fn tell_lost(attempt: &OpenAttempt) {
    tracing::warn!(
        dispatch.id = %attempt.dispatch_id, job.name = attempt.job_name, attempt = attempt.attempt,
        worker.id = %attempt.worker_id, "An attempt was lost with its worker."
    );
    metrics::counter!("sched_attempts_lost_total").increment(1);
}

fn offline_event((worker, hostname): &(WorkerId, String)) -> NewEvent {
    NewEvent {
        tenant_id: None,
        project_id: None,
        job_id: None,
        dispatch_id: None,
        event_type: events::WORKER_OFFLINE,
        payload: json!({"worker_id": worker, "hostname": hostname}),
    }
}

fn lost_event(attempt: &OpenAttempt) -> NewEvent {
    NewEvent {
        tenant_id: Some(attempt.tenant_id),
        project_id: attempt.project_id,
        job_id: Some(attempt.job_id),
        dispatch_id: Some(attempt.dispatch_id),
        event_type: events::EXECUTION_LOST,
        payload: json!({"job_name": attempt.job_name, "attempt": attempt.attempt, "worker_id": attempt.worker_id}),
    }
}

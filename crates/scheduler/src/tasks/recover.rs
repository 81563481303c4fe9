//! Recovery: the work of lost workers is given to others.
//!
//! Each run looks, in one statement, whether there is anything to do. If so it marks workers OFFLINE whose lease has expired, and then
//! ends the attempts of OFFLINE workers as lost, under their own claim tokens: the dispatch is retried within its policy, or becomes a
//! dead letter, at the latest when it has taken three workers with it. These are separate fenced transactions, because jobs are
//! locked before workers everywhere; a run that dies leaves the rest to the next. It looks at every OFFLINE worker that still has
//! claims, not only at those it marked itself, so nothing depends on having seen the moment.

use std::time::Duration;

use sched_model::db::events::{self, NewEvent};
use sched_model::db::recovery;
use sched_model::db::{Conn, DbError, notify, tick, transact};
use sched_model::domain::ids::WorkerId;
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::lost::{Cause, Losses, Lost};
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
        let found = recovery::look(&mut conn, self.worker_lease).await?;
        let mut offline = Vec::new();
        if found.silent_workers {
            offline = transact(&mut conn, "expire_workers", async |conn: &mut Conn| self.expire(conn).await)
                .await?;
            offline.iter().for_each(tell_offline);
        }
        let mut lost = 0;
        while found.claims_of_the_lost || !offline.is_empty() {
            let attempts =
                transact(&mut conn, "end_lost", async |conn: &mut Conn| self.end_lost(conn).await).await?;
            attempts.iter().for_each(Lost::tell);
            lost += attempts.len();
            if i64::try_from(attempts.len()).unwrap_or(i64::MAX) < BATCH || self.scope.stop.is_cancelled() {
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

    async fn end_lost(&self, conn: &mut Conn) -> Result<Vec<Lost>, DbError> {
        tick::fence(conn, self.scope.instance, self.scope.term).await?;
        let cause = Cause::WorkerLost { lease: self.worker_lease };
        let open = recovery::lost_attempts(conn, BATCH).await?;
        let losses = Losses { max_attempts: self.max_attempts };
        let lost = losses.end(conn, open.into_iter().map(|attempt| (attempt, cause)).collect()).await?;
        recovery::forget_finished_claims(conn).await?;
        Ok(lost)
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
        event_type: events::WORKER_OFFLINE,
        payload: json!({"worker_id": worker, "hostname": hostname}),
    }
}

//! Expires runs that no worker started in time, and reports queues without a worker.
//!
//! Claims skip expired runs on their own, so no worker starts a run too late without a leader. A
//! pass opens a fenced transaction only to write. If a pass dies, the next one finds the same rows.

use std::time::Duration;

use sched_model::domain::ids::{JobId, TenantId};
use sched_model::events::append::{self, NewEvent};
use sched_model::running::expiry::{self, Expired, ServedQueue, UnservedQueue};
use sched_model::{
    Conn, DbError,
    connection::notify,
    dispatching::{overlap_queue, tick},
    transact,
};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, notify_workers, within};

/// Maximum delay between the expiry of a run and its report.
pub const PERIOD: Duration = Duration::from_secs(10);
/// How long a run must wait in a queue without a worker before a report. Longer than the restart of
/// a worker.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit of a run of this task. Committed batches stay.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Maximum number of runs expired in one transaction.
const BATCH: i64 = 500;

#[derive(Debug)]
pub struct Waiting {
    pub scope: Scope,
    /// Time that a run must wait in a queue without a worker before a report ([`PATIENCE`]).
    pub patience: Duration,
}

impl Activation for Waiting {
    fn name(&self) -> &'static str {
        "waiting"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Drop for Waiting {
    /// A former leader has no current value, so it reports zero.
    fn drop(&mut self) {
        metrics::gauge!("sched_queues_unserved").set(0.0);
    }
}

impl Waiting {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let found = expiry::pending_work(&mut conn, self.patience).await?;
        let mut expired = 0;
        let mut is_full = false;
        if found.has_expired {
            let (given_up, released) =
                transact(&mut conn, "expire_dispatches", async |conn: &mut Conn| self.expire(conn).await)
                    .await?;
            notify_workers(&mut conn, &released).await;
            if !given_up.is_empty()
                && let Err(error) = notify::jobs_ended(&mut conn).await
            {
                tracing::debug!(
                    error = error.with_causes(),
                    "Notifying about ended jobs failed; a later query finds them."
                );
            }
            given_up.iter().for_each(log_expired);
            expired = given_up.len();
            is_full = i64::try_from(expired).unwrap_or(i64::MAX) >= BATCH;
        }
        metrics::gauge!("sched_queues_unserved")
            .set(f64::from(u32::try_from(found.unserved.len()).unwrap_or(u32::MAX)));
        let (mut begun, mut over) = (Vec::new(), Vec::new());
        if !found.is_noted() {
            let noted =
                transact(&mut conn, "note_unserved", async |conn: &mut Conn| self.record(conn).await).await?;
            (begun, over) = noted;
            begun.iter().for_each(log_unserved);
            over.iter().for_each(log_served);
        }
        if expired == 0 && begun.is_empty() && over.is_empty() {
            return Ok(Report::idle());
        }
        let report = Report::worked(json!({
            "dispatches_expired": expired, "queues_unserved": begun.len(), "queues_served_again": over.len(),
        }));
        Ok(if is_full { report.next_in(Duration::ZERO) } else { report })
    }

    /// Also returns the queues of runs released from overlap queues.
    async fn expire(&self, conn: &mut Conn) -> Result<(Vec<Expired>, Vec<String>), DbError> {
        tick::fence(conn, self.scope.instance, self.scope.term).await?;
        let expired = expiry::expire(conn, BATCH).await?;
        let mut lines: Vec<(TenantId, JobId)> =
            expired.iter().filter(|one| one.has_line).map(|one| (one.tenant_id, one.job_id)).collect();
        lines.sort_unstable();
        lines.dedup();
        let released = overlap_queue::release(conn, &lines).await?;
        append::append(conn, &expired.iter().map(expired_event).collect::<Vec<_>>()).await?;
        Ok((expired, released))
    }

    async fn record(&self, conn: &mut Conn) -> Result<(Vec<UnservedQueue>, Vec<ServedQueue>), DbError> {
        tick::fence(conn, self.scope.instance, self.scope.term).await?;
        let found = expiry::pending_work(conn, self.patience).await?;
        let (begun, over) = expiry::note_unserved(conn, &found.unserved).await?;
        let events: Vec<NewEvent> =
            begun.iter().map(begun_event).chain(over.iter().map(over_event)).collect();
        append::append(conn, &events).await?;
        Ok((begun, over))
    }
}

fn log_expired(expired: &Expired) {
    tracing::warn!(
        run.id = %expired.dispatch_id, job.name = expired.job_name, queue = expired.queue, error = expired.message,
        "A run has expired: no worker began it in time."
    );
    metrics::counter!("sched_dispatches_expired_total").increment(1);
}

fn log_unserved(begun: &UnservedQueue) {
    tracing::error!(
        queue = begun.queue, since = %begun.since,
        "Dispatches wait in a queue that no living worker serves. Start one with --worker-queues naming it."
    );
}

fn log_served(over: &ServedQueue) {
    if over.has_live_worker {
        tracing::info!(queue = over.queue, "A queue is served again.");
    } else {
        tracing::info!(queue = over.queue, "Nothing waits any more in a queue that no living worker serves.");
    }
}

fn expired_event(expired: &Expired) -> NewEvent {
    NewEvent {
        tenant_id: Some(expired.tenant_id),
        project_id: expired.project_id,
        job_id: Some(expired.job_id),
        dispatch_id: Some(expired.dispatch_id),
        event_type: append::DISPATCH_EXPIRED,
        payload: json!({
            "job_name": expired.job_name, "queue": expired.queue, "scheduled_for": expired.scheduled_for,
            "available_at": expired.available_at, "expires_at": expired.expires_at, "reason": expired.message,
        }),
    }
}

fn begun_event(begun: &UnservedQueue) -> NewEvent {
    of_installation(append::QUEUE_UNSERVED, json!({"queue": begun.queue, "since": begun.since}))
}

fn over_event(over: &ServedQueue) -> NewEvent {
    let payload = json!({"queue": over.queue, "since": over.since, "has_live_worker": over.has_live_worker});
    of_installation(append::QUEUE_UNSERVED_ENDED, payload)
}

/// Workers serve a queue by its name, for all tenants, so the event has no tenant.
const fn of_installation(event_type: &'static str, payload: serde_json::Value) -> NewEvent {
    NewEvent { tenant_id: None, project_id: None, job_id: None, dispatch_id: None, event_type, payload }
}

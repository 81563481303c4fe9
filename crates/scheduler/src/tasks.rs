//! The leader's tasks. Each reads stored state and acts on it: the first run of a new leader is
//! like every other run, and the next run repairs one that died halfway.

pub mod ahead;
pub mod batch;
pub mod counters;
pub mod cursors;
pub mod dependents;
pub mod dispatch;
pub mod expiry;
pub mod heartbeat;
pub mod installation_metrics;
pub mod maintain;
pub mod notify;
pub mod overdue;
pub mod overlap_queue;
pub mod recover;
pub mod retain;
pub mod rezone;
pub mod strays;

use std::time::Duration;

use sched_model::domain::ids::{InstanceId, Term};
use sched_model::{Conn, Database, connection::notify as hints, recovery::lost_attempts};
use sched_runtime::traces::Traces;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone)]
pub struct Scope {
    pub database: Database,
    pub instance: InstanceId,
    /// The term that fences every write.
    pub term: Term,
    /// Cancelled when the term ends. Remaining work is left to the next leader, which waits for the
    /// end of this one.
    pub stop: CancellationToken,
    pub traces: Traces,
}

/// Counters of rare events start at 0, so that alerts on their growth see the first event.
pub fn show_counters() {
    lost_attempts::show_counters();
    self::notify::show_counters();
    installation_metrics::describe();
    heartbeat::show_counters();
    metrics::counter!("sched_dispatches_created_total").increment(0);
    metrics::counter!("sched_fires_planned_total").increment(0);
    metrics::counter!("sched_dispatches_expired_total").increment(0);
    metrics::counter!("sched_dispatches_refused_as_duplicate_total").increment(0);
}

/// The server rolls the transaction back.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the database within {0:?}")]
pub struct NoAnswer(Duration);

/// A call that hangs must not look like work.
async fn within<T, E: Into<sched_runtime::tasks::BoxError>>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, sched_runtime::tasks::BoxError> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_elapsed) => Err(Box::new(NoAnswer(limit))),
    }
}

/// Only a hint: workers poll too.
async fn notify_workers(conn: &mut Conn, queues: &[String]) {
    if let Err(error) = hints::dispatches_waiting(conn, queues).await {
        tracing::debug!(
            error = error.with_causes(),
            "Notifying the workers failed; they find the work when they poll."
        );
    }
}

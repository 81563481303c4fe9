//! The leader's tasks. Each looks at what is stored and does what is to be done: the first run of a new leader is like
//! every other, and a run that dies half-way is made good by the next.

pub mod batch;
pub mod dependents;
pub mod dispatch;
pub mod expiry;
pub mod maintain;
pub mod notify;
pub mod overdue;
pub mod overlap_queue;
pub mod recover;
pub mod retain;
pub mod rezone;
pub mod standing;
pub mod strays;

use std::time::Duration;

use sched_model::domain::ids::{InstanceId, Term};
use sched_model::{Conn, Database, connection::notify as hints, recovery::lost_attempts};
use sched_runtime::traces::Traces;
use tokio_util::sync::CancellationToken;

/// What every task of a term needs.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The way to the database.
    pub database: Database,
    /// Who we are.
    pub instance: InstanceId,
    /// The term that fences every write.
    pub term: Term,
    /// Cancelled when the term ends. A task that has more to do then leaves it to the next leader, who waits for it.
    pub stop: CancellationToken,
    /// Where spans go.
    pub traces: Traces,
}

/// Shows the counters of what may not happen for long before it first does, for alerts on their growth.
pub fn show_counters() {
    lost_attempts::show_counters();
    self::notify::show_counters();
    standing::describe();
    metrics::counter!("sched_dispatches_created_total").increment(0);
    metrics::counter!("sched_dispatches_expired_total").increment(0);
    metrics::counter!("sched_dispatches_refused_as_duplicate_total").increment(0);
}

/// A task did not get its answer in time; its transaction is rolled back by the server.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the database within {0:?}")]
pub struct NoAnswer(Duration);

/// Bounds a run: a call that hangs must not look like work.
async fn within<T, E: Into<sched_runtime::tasks::BoxError>>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, sched_runtime::tasks::BoxError> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_elapsed) => Err(Box::new(NoAnswer(limit))),
    }
}

/// Tells workers that dispatches may be waiting in `queues`: a hint, and no more.
async fn tell_waiting(conn: &mut Conn, queues: &[String]) {
    if let Err(error) = hints::dispatches_waiting(conn, queues).await {
        tracing::debug!(
            error = error.with_causes(),
            "Notifying the workers failed; they find the work when they poll."
        );
    }
}

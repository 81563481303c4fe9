//! The leader's tasks. Each looks at what is stored and does what is to be done: the first run of a new leader is like
//! every other, and a run that dies half-way is made good by the next.

pub mod dependents;
pub mod dispatch;
pub mod lines;
pub mod maintain;
pub mod recover;
pub mod rezone;

use std::time::Duration;

use sched_model::db::Database;
use sched_model::domain::ids::{InstanceId, Term};

/// What every task of a term needs.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The way to the database.
    pub database: Database,
    /// Who we are.
    pub instance: InstanceId,
    /// The term that fences every write.
    pub term: Term,
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

//! Ends attempts that exceed their time limit on live workers. Their runs continue.
//!
//! A worker that neither kills nor reports an attempt long after time-out and grace period has lost
//! control of it. Each pass finds such attempts through the claims of live workers, and ends them
//! as lost in a fenced transaction under their claim tokens. A later report of the worker changes
//! nothing. Attempts of dead workers belong to [`super::recover`].

use std::time::Duration;

use sched_model::recovery::dead_workers;
use sched_model::recovery::lost_attempts::{Cause, EndedLosses, Losses, Lost};
use sched_model::{Conn, DbError, connection::notify, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

/// Short compared with the margin after which an attempt is overdue.
pub const PERIOD: Duration = Duration::from_secs(10);
/// Time limit of a run of this task. Committed work stays.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Maximum number of attempts ended in one transaction.
const BATCH: i64 = 500;

#[derive(Debug)]
pub struct Overdue {
    pub scope: Scope,
    /// Time limit of attempts claimed by workers of an older release, which do not report a limit.
    pub unknown_limit: Duration,
    /// Maximum attempts of jobs without a retry policy.
    pub max_attempts: u32,
}

impl Activation for Overdue {
    fn name(&self) -> &'static str {
        "overdue"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Overdue {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        if dead_workers::overdue(&mut conn, self.unknown_limit, BATCH).await?.is_empty() {
            return Ok(Report::idle());
        }
        let EndedLosses { lost, has_more } =
            transact(&mut conn, "end_overdue", async |conn: &mut Conn| self.end(conn).await).await?;
        lost.iter().for_each(Lost::log);
        if let Err(error) = notify::dispatches_wait_again(&mut conn).await {
            tracing::debug!(
                error = error.with_causes(),
                "Notifying the workers failed; they find the work when they poll."
            );
        }
        if let Err(error) = notify::jobs_ended(&mut conn).await {
            tracing::debug!(
                error = error.with_causes(),
                "Waking the task that runs dependents failed; its next query finds the jobs."
            );
        }
        let report = Report::worked(json!({"attempts_overdue": lost.len()}));
        let is_full = i64::try_from(lost.len()).unwrap_or(i64::MAX) >= BATCH;
        Ok(if is_full || (has_more && !lost.is_empty()) { report.next_in(Duration::ZERO) } else { report })
    }

    async fn end(&self, conn: &mut Conn) -> Result<EndedLosses, DbError> {
        tick::fence(conn, self.scope.instance, self.scope.term).await?;
        let found = dead_workers::overdue(conn, self.unknown_limit, BATCH).await?;
        let found =
            found.into_iter().map(|overdue| (overdue.attempt, Cause::Overdue { limit: overdue.limit }));
        Losses { max_attempts: self.max_attempts }.end(conn, found.collect()).await
    }
}

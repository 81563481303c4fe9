//! Housekeeping: partitions made ahead and removed behind, and registrations of processes that are long gone removed.
//!
//! Nothing here is urgent: rows of a month without a partition go to the default one, old months only take room, and stale
//! registrations only clutter lists. So it runs seldom, and what is in use is simply tried again. Making partitions and
//! removing registrations do the same whoever does it; removing history is fenced. A run that dies leaves the rest to the next.

use std::time::Duration;

use sched_model::db::partitions::{self, ExpiredMonth};
use sched_model::db::{Conn, DbError, instances, tick, transact, workers};
use sched_model::domain::retention::{HistoryExpiry, Retention};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

/// Time between two runs.
pub const PERIOD: Duration = Duration::from_secs(60);
/// A run may take no longer.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// Keeps house.
#[derive(Debug)]
pub struct Maintain {
    /// The term it works in.
    pub scope: Scope,
    /// How long history is kept.
    pub retention: Retention,
    /// What becomes of months that are older.
    pub expiry: HistoryExpiry,
    /// Standbys silent for this long are removed.
    pub stale_scheduler: Duration,
    /// OFFLINE workers are shown for this long, so that an operator sees what happened, and then removed.
    pub stale_worker: Duration,
}

impl Activation for Maintain {
    fn name(&self) -> &'static str {
        "maintain"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Maintain {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let schedulers = instances::remove_stale(&mut conn, self.stale_scheduler).await?;
        let workers = workers::remove_stale(&mut conn, self.stale_worker).await?;
        let made = partitions::make_ahead(&mut conn).await?;
        let removed = self.remove_behind(&mut conn).await?;
        if made.is_empty() && removed.is_empty() && schedulers.is_empty() && workers.is_empty() {
            return Ok(Report::idle());
        }
        Ok(Report::worked(json!({
            "partitions_made": made,
            "partitions_removed": removed,
            "schedulers_removed": schedulers.len(),
            "workers_removed": workers.len(),
        })))
    }

    /// Drops or detaches the months that are over; returns their names. One that somebody uses is left for the next run.
    async fn remove_behind(&self, conn: &mut Conn) -> Result<Vec<String>, DbError> {
        let months = transact(conn, "find_expired_months", async |conn: &mut Conn| {
            let now = tick::fence(conn, self.scope.instance, self.scope.term).await?;
            partitions::expired(conn, self.retention.cutoffs(now).finished).await
        })
        .await?;
        let mut removed = Vec::new();
        for month in months {
            match transact(conn, "remove_month", async |conn: &mut Conn| self.remove(conn, &month).await)
                .await
            {
                Ok(()) => {
                    tracing::info!(partition = month.name, how = %self.expiry, "A month of history is over.");
                    metrics::counter!("sched_partitions_removed_total", "how" => self.expiry.as_str())
                        .increment(1);
                    removed.push(month.name);
                }
                Err(error @ DbError::TimedOut(_)) => {
                    let error = error.with_causes();
                    tracing::info!(
                        partition = month.name,
                        error,
                        "A month of history is in use; trying again later."
                    );
                }
                Err(error) if error.is_outage() || matches!(error, DbError::TermOver) => return Err(error),
                Err(error) => {
                    let error = error.with_causes();
                    tracing::error!(partition = month.name, error, "A month of history cannot be removed.");
                }
            }
        }
        Ok(removed)
    }

    async fn remove(&self, conn: &mut Conn, month: &ExpiredMonth) -> Result<(), DbError> {
        tick::fence(conn, self.scope.instance, self.scope.term).await?;
        partitions::remove(conn, month, self.expiry).await
    }
}

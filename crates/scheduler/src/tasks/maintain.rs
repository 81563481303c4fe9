//! Housekeeping: creates partitions ahead, removes expired ones, and removes stale registrations of
//! processes.
//!
//! Nothing is urgent: rows without a partition go to the default partition, and a partition in use
//! is retried in the next pass. Creating partitions and removing registrations are idempotent; the
//! removal of history is fenced. If a pass dies, the next one does the rest.
//!
//! The built-in jobs `sched.partitions` and `sched.stale_instances` do the same on a worker, but
//! partitions must exist without workers too. Each pass also stores the retention settings of this
//! scheduler for the built-in jobs.

use std::time::Duration;

use sched_model::cluster::housekeeping::{self, Housekeeping};
use sched_model::connection::partitions::{self, ExpiredMonth};
use sched_model::{
    Conn, DbError, cluster::leadership, dispatching::tick, events::stream, running::workers, transact,
};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

pub const PERIOD: Duration = Duration::from_secs(60);
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of events of another server settled by one statement. Such events exist only
/// after a restore.
const FOREIGN_AT_ONCE: i64 = 5_000;
/// Maximum number of such statements per pass, so that there is time for the rest.
const FOREIGN_STATEMENTS: u32 = 100;
/// After this time a pass starts no further such statement.
const FOREIGN_WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Maintain {
    pub scope: Scope,
    /// Retention of history and the treatment of expired months, the silence after which standbys
    /// are removed, and how long OFFLINE workers stay listed for the operator.
    pub settings: Housekeeping,
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
        transact(&mut conn, "tell_housekeeping", async |conn: &mut Conn| {
            tick::fence(conn, self.scope.instance, self.scope.term).await?;
            housekeeping::store(conn, &self.settings).await
        })
        .await?;
        let schedulers = leadership::remove_stale(&mut conn, self.settings.stale_scheduler).await?;
        let workers = workers::remove_stale(&mut conn, self.settings.stale_worker).await?;
        let settled = settle_foreign(&mut conn).await?;
        let created = partitions::make_ahead(&mut conn).await?;
        let removed = self.remove_behind(&mut conn).await?;
        if settled == 0
            && created.is_empty()
            && removed.is_empty()
            && schedulers.is_empty()
            && workers.is_empty()
        {
            return Ok(Report::idle());
        }
        Ok(Report::worked(json!({
            "events_settled": settled,
            "partitions_made": created,
            "partitions_removed": removed,
            "schedulers_removed": schedulers.len(),
            "workers_removed": workers.len(),
        })))
    }

    /// Returns the names of the months. A month that another transaction uses stays for the next
    /// pass.
    async fn remove_behind(&self, conn: &mut Conn) -> Result<Vec<String>, DbError> {
        let months = transact(conn, "find_expired_months", async |conn: &mut Conn| {
            let now = tick::fence(conn, self.scope.instance, self.scope.term).await?;
            partitions::expired(conn, self.settings.retention.cutoffs(now).finished).await
        })
        .await?;
        let mut removed = Vec::new();
        for month in months {
            match transact(conn, "remove_month", async |conn: &mut Conn| self.remove(conn, &month).await)
                .await
            {
                Ok(()) => {
                    tracing::info!(partition = month.name, how = %self.settings.expiry, "A month of history is over.");
                    metrics::counter!("sched_partitions_removed_total", "how" => self.settings.expiry.as_str())
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
        partitions::remove(conn, month, self.settings.expiry).await
    }
}

/// Settles the order of events of another server in small steps and returns their number. A failure
/// does not block the other work; the next pass retries.
async fn settle_foreign(conn: &mut Conn) -> Result<u64, DbError> {
    let (began, mut settled) = (monotonic(), 0);
    for _ in 0..FOREIGN_STATEMENTS {
        let found = match stream::settle_foreign(conn, FOREIGN_AT_ONCE).await {
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => {
                let error = error.with_causes();
                tracing::error!(
                    error,
                    "Events of a restored dump cannot be put in order; trying again later."
                );
                break;
            }
            Ok(0) => break,
            Ok(found) => found,
        };
        settled += found;
        if began.elapsed() >= FOREIGN_WITHIN {
            break;
        }
    }
    Ok(settled)
}

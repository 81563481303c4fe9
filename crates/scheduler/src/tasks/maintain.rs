//! Housekeeping: partitions made ahead and removed behind, and registrations of processes that are long gone removed.
//!
//! Nothing here is urgent: rows of a month without a partition go to the default one, old months only take room, and stale
//! registrations only clutter lists. So it runs seldom, and what is in use is simply tried again. Making partitions and
//! removing registrations do the same whoever does it; removing history is fenced. A run that dies leaves the rest to the next.
//!
//! The built-in jobs `sched.partitions` and `sched.stale_instances` do the same on a worker. The leader does not wait for them: months must be
//! there before they are needed, with or without workers. Each run also writes down what this scheduler was told about retention, for
//! the built-in jobs to go by.

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

/// Time between two runs.
pub const PERIOD: Duration = Duration::from_secs(60);
/// A run may take no longer.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// Most events of another server that are put in order by one statement; there are some after a restore alone.
const FOREIGN_AT_ONCE: i64 = 5_000;
/// Most statements of a run that do so, so that there is time for the rest.
const FOREIGN_STATEMENTS: u32 = 100;
/// A run begins no other one of them after this.
const FOREIGN_WITHIN: Duration = Duration::from_secs(20);

/// Keeps house.
#[derive(Debug)]
pub struct Maintain {
    /// The term it works in.
    pub scope: Scope,
    /// How long history is kept and what becomes of months that are older; after which silence standbys are removed; how long OFFLINE workers
    /// are shown, so that an operator sees what happened.
    pub told: Housekeeping,
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
            housekeeping::tell(conn, &self.told).await
        })
        .await?;
        let schedulers = leadership::remove_stale(&mut conn, self.told.stale_scheduler).await?;
        let workers = workers::remove_stale(&mut conn, self.told.stale_worker).await?;
        let settled = settle_foreign(&mut conn).await?;
        let made = partitions::make_ahead(&mut conn).await?;
        let removed = self.remove_behind(&mut conn).await?;
        if settled == 0
            && made.is_empty()
            && removed.is_empty()
            && schedulers.is_empty()
            && workers.is_empty()
        {
            return Ok(Report::idle());
        }
        Ok(Report::worked(json!({
            "events_settled": settled,
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
            partitions::expired(conn, self.told.retention.cutoffs(now).finished).await
        })
        .await?;
        let mut removed = Vec::new();
        for month in months {
            match transact(conn, "remove_month", async |conn: &mut Conn| self.remove(conn, &month).await)
                .await
            {
                Ok(()) => {
                    tracing::info!(partition = month.name, how = %self.told.expiry, "A month of history is over.");
                    metrics::counter!("sched_partitions_removed_total", "how" => self.told.expiry.as_str())
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
        partitions::remove(conn, month, self.told.expiry).await
    }
}

/// Puts events of another server in order, a few at a time; returns how many. What fails is tried again in the next run and keeps nothing
/// else from being done.
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

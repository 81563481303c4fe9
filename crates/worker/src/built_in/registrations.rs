//! `sched.partitions` and `sched.stale_instances`: housekeeping of the leader on demand.
//!
//! The leader does not delegate this work: its correctness depends on existing partitions and short
//! lists. So these jobs usually find no work.

use sched_model::connection::database_clock;
use sched_model::{Conn, DbError, cluster::leadership, connection::partitions, running::workers, transact};
use serde::{Deserialize, Serialize};

use super::{System, housekeeping_settings};
use crate::handlers::native::{Ctx, HandlerError};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArgs {}

#[derive(Debug, Default, Serialize)]
pub(super) struct Months {
    made: Vec<String>,
    removed: Vec<String>,
    /// In use, or not removable. The next run tries again.
    left: Vec<String>,
    how: &'static str,
}

/// Creates partitions ahead and removes expired ones.
pub(super) async fn partitions(system: &System, ctx: &Ctx, _: NoArgs) -> Result<Months, HandlerError> {
    let mut conn = system.conn().await?;
    let settings = housekeeping_settings(&mut conn).await?;
    let made = partitions::make_ahead(&mut conn).await?;
    for name in &made {
        ctx.log(format!("created {name}"));
    }
    let mut done = Months { made, how: settings.expiry.as_str(), ..Months::default() };
    let now = database_clock::now(&conn).await?;
    let months = partitions::expired(&mut conn, settings.retention.cutoffs(now).finished).await?;
    for month in months {
        if ctx.is_cancelled() {
            done.left.push(month.name);
            continue;
        }
        let removing = transact(&mut conn, "remove_month", async |conn: &mut Conn| {
            partitions::remove(conn, &month, settings.expiry).await
        });
        match removing.await {
            Ok(()) => {
                ctx.log(format!("{}: {}", settings.expiry, month.name));
                metrics::counter!("sched_partitions_removed_total", "how" => settings.expiry.as_str())
                    .increment(1);
                done.removed.push(month.name);
            }
            Err(error) if error.is_outage() => return Err(error.into()),
            Err(error @ DbError::TimedOut(_)) => {
                ctx.log(format!("{} is in use: {}", month.name, error.with_causes()));
                done.left.push(month.name);
            }
            Err(error) => {
                ctx.log(format!("{} cannot be removed: {}", month.name, error.with_causes()));
                done.left.push(month.name);
            }
        }
    }
    Ok(done)
}

#[derive(Debug, Serialize)]
pub(super) struct RemovedCounts {
    schedulers: usize,
    workers: usize,
}

/// Removes registrations of processes that ended long ago.
pub(super) async fn stale_instances(
    system: &System,
    ctx: &Ctx,
    _: NoArgs,
) -> Result<RemovedCounts, HandlerError> {
    let mut conn = system.conn().await?;
    let settings = housekeeping_settings(&mut conn).await?;
    let schedulers = leadership::remove_stale(&mut conn, settings.stale_scheduler).await?;
    let workers = workers::remove_stale(&mut conn, settings.stale_worker).await?;
    for id in &schedulers {
        ctx.log(format!("removed the scheduler {id}"));
    }
    for id in &workers {
        ctx.log(format!("removed the worker {id}"));
    }
    Ok(RemovedCounts { schedulers: schedulers.len(), workers: workers.len() })
}

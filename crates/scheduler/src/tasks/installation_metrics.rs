//! Exports the state of the installation as metrics: the number of workers and the wait of the
//! oldest run.
//!
//! Worker metrics cannot show that there are no workers. The leader queries the database in one
//! statement and exports gauges. Other schedulers export zeros, so that sums over all schedulers
//! are right; alerts must check for a leader. The task writes nothing, so it needs no fence. A
//! failed pass leaves the previous values.

use std::time::Duration;

use sched_model::domain::instance::WorkerStatus;
use sched_model::{DbError, cluster::health};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;

use super::{Scope, within};

/// Similar to the usual scrape interval.
pub const PERIOD: Duration = Duration::from_secs(10);
const RUN_LIMIT: Duration = Duration::from_secs(30);

/// Exports zeros, as on a scheduler that does not lead.
pub(super) fn describe() {
    metrics::describe_gauge!(
        "sched_workers_online",
        "Workers that are not given up, by status; shown by the leader, 0 elsewhere."
    );
    metrics::describe_gauge!(
        "sched_oldest_pending_seconds",
        "For how long the oldest PENDING dispatch could have been claimed; shown by the leader, 0 elsewhere."
    );
    show(0, 0, 0, 0.0);
}

#[derive(Debug)]
pub struct InstallationMetrics {
    pub scope: Scope,
}

impl Activation for InstallationMetrics {
    fn name(&self) -> &'static str {
        "standing"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Drop for InstallationMetrics {
    /// A former leader has no current values, so it reports zeros.
    fn drop(&mut self) {
        show(0, 0, 0, 0.0);
    }
}

impl InstallationMetrics {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let fleet = health::fleet(&mut conn).await?;
        show(fleet.idle, fleet.busy, fleet.draining, fleet.oldest_pending);
        Ok(Report::idle())
    }
}

fn show(idle: i64, busy: i64, draining: i64, oldest_pending: f64) {
    for (status, count) in
        [(WorkerStatus::Idle, idle), (WorkerStatus::Busy, busy), (WorkerStatus::Draining, draining)]
    {
        metrics::gauge!("sched_workers_online", "status" => status.public_name())
            .set(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    }
    metrics::gauge!("sched_oldest_pending_seconds").set(oldest_pending);
}

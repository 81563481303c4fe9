//! Shows how the installation stands, for whoever watches it: how many workers there are, and how long the oldest dispatch waits.
//!
//! The workers' own metrics cannot tell that there is none of them, nor the waiting line that nobody reads it. The leader asks the database every
//! few seconds, in one statement, and shows the answer as gauges; a scheduler that does not lead shows zeros, so that sums over all
//! schedulers are right, and alerts on them ask whether somebody leads. Nothing is written, so no fence is needed. A run that fails leaves what
//! was shown before.

use std::time::Duration;

use sched_model::domain::instance::WorkerStatus;
use sched_model::{DbError, cluster::health};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;

use super::{Scope, within};

/// Time between two runs: as often as metrics are read, more or less.
pub const PERIOD: Duration = Duration::from_secs(10);
/// A run may take no longer.
const RUN_LIMIT: Duration = Duration::from_secs(30);

/// Describes what is shown, and shows it as who does not lead.
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

/// Shows how the installation stands.
#[derive(Debug)]
pub struct Standing {
    /// The term it works in.
    pub scope: Scope,
}

impl Activation for Standing {
    fn name(&self) -> &'static str {
        "standing"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Drop for Standing {
    /// Who does not lead any more does not know.
    fn drop(&mut self) {
        show(0, 0, 0, 0.0);
    }
}

impl Standing {
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
        metrics::gauge!("sched_workers_online", "status" => status.as_str())
            .set(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    }
    metrics::gauge!("sched_oldest_pending_seconds").set(oldest_pending);
}

//! Housekeeping: partitions made ahead, and registrations of processes that are long gone removed.
//!
//! Nothing here is urgent: rows of a month without a partition go to the default one, and stale registrations only
//! clutter lists. So it runs seldom, and an error is simply tried again. Each step does the same whoever does it, so none needs
//! the fence of the term.

use std::time::Duration;

use sched_model::db::{DbError, instances, partitions, workers};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

/// Time between two runs.
pub const PERIOD: Duration = Duration::from_secs(60);
/// A run may take no longer.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Standbys silent for this long are removed (S0: two minutes).
const STALE_SCHEDULER: Duration = Duration::from_secs(120);
/// OFFLINE workers are shown for this long, so that an operator sees what happened, and then removed.
const STALE_WORKER: Duration = Duration::from_secs(24 * 3600);

/// Keeps house.
#[derive(Debug)]
pub struct Maintain {
    /// The term it works in.
    pub scope: Scope,
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
        let schedulers = instances::remove_stale(&mut conn, STALE_SCHEDULER).await?;
        let workers = workers::remove_stale(&mut conn, STALE_WORKER).await?;
        let made = partitions::make_ahead(&mut conn).await?;
        if made.is_empty() && schedulers.is_empty() && workers.is_empty() {
            return Ok(Report::idle());
        }
        Ok(Report::worked(json!({
            "partitions_made": made,
            "schedulers_removed": schedulers.len(),
            "workers_removed": workers.len(),
        })))
    }
}

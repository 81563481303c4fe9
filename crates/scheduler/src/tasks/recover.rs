//! Recovery: ends attempts of lost workers so that other workers can retry their runs.
//!
//! The term fences every transaction of the [`Recovery`]. The run is retried within its policy or
//! becomes a dead letter, at the latest when three workers were lost with it. If there is no leader
//! for long, a worker does the same.

use std::time::Duration;

use sched_model::DbError;
use sched_model::recovery::lost_attempts::{Losses, Recovered, Recoverer, Recovery};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

/// Time limit of a run of this task. Committed work stays.
const RUN_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Recover {
    pub scope: Scope,
    /// Silence after which a worker counts as lost.
    pub worker_lease: Duration,
    /// Maximum attempts of jobs without a retry policy.
    pub max_attempts: u32,
}

impl Activation for Recover {
    fn name(&self) -> &'static str {
        "recover"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Recover {
    async fn run(&self) -> Result<Report, DbError> {
        let Scope { database, instance, term, stop, .. } = &self.scope;
        let mut conn = database.conn().await?;
        let by = Recoverer::Leader { instance: *instance, term: *term };
        let losses = Losses { max_attempts: self.max_attempts };
        let recovery = Recovery { by, lease: self.worker_lease, losses };
        let Recovered { workers, attempts } = recovery.run(&mut conn, || stop.is_cancelled()).await?;
        if workers == 0 && attempts == 0 {
            return Ok(Report::idle());
        }
        Ok(Report::worked(json!({"workers_offline": workers, "attempts_lost": attempts})))
    }
}

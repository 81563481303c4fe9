//! Recomputes fire times after an update of the time zone tables.
//!
//! Each job stores the table version that computed its next fire. A leader with another version
//! visits those jobs in short fenced transactions and moves only cursors in the future. If a leader
//! dies half-way, the next one does the rest. If a process with older tables writes jobs meanwhile,
//! the next pass finds them.

use std::time::Duration;

use sched_model::domain::ids::{JobId, TenantId};
use sched_model::domain::timetable::tzdata_version;
use sched_model::{Conn, DbError, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;
use uuid::Uuid;

use super::{Scope, within};
use crate::calendars::Calendars;
use crate::plan::recompute;

pub const PERIOD: Duration = Duration::from_secs(3600);
/// Time limit of a run of this task. Committed work stays.
const RUN_LIMIT: Duration = Duration::from_secs(600);
/// Maximum number of jobs per transaction.
const BATCH: i64 = 500;

#[derive(Debug)]
pub struct Rezone {
    pub scope: Scope,
}

impl Activation for Rezone {
    fn name(&self) -> &'static str {
        "rezone"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Rezone {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let mut after = (TenantId(Uuid::nil()), JobId(Uuid::nil()));
        let mut moved = 0;
        while !self.scope.stop.is_cancelled() {
            let found = tick::computed_elsewhere(&mut conn, after, tzdata_version(), BATCH).await?;
            let Some(last) = found.last() else { break };
            after = *last;
            moved +=
                transact(&mut conn, "rezone", async |conn: &mut Conn| self.recompute(conn, &found).await)
                    .await?;
        }
        if moved == 0 {
            return Ok(Report::idle());
        }
        tracing::info!(
            jobs = moved,
            tzdata = tzdata_version(),
            "Next fires were computed again from new zone tables."
        );
        Ok(Report::worked(json!({"recomputed": moved})))
    }

    async fn recompute(&self, conn: &mut Conn, found: &[(TenantId, JobId)]) -> Result<usize, DbError> {
        let Scope { instance, term, .. } = self.scope;
        let now = tick::fence(conn, instance, term).await?;
        let jobs = tick::lock_computed_elsewhere(conn, now, tzdata_version(), found).await?;
        let mut calendars = Calendars::default();
        calendars.update(&jobs, tick::calendars_of(conn, &jobs).await?);
        let batch = recompute(&jobs, &calendars, now);
        tick::write(conn, instance, term, &batch).await?;
        Ok(batch.cursors.len())
    }
}

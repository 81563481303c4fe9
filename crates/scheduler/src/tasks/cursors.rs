//! Computes the cursors of jobs whose schedule was written with plain SQL
//! ([`sched_model::jobs::stale_cursors`]).
//!
//! The database marks these jobs and notifies the leader, and the period covers a lost
//! notification. The query for marks runs outside any transaction. A batch is one fenced
//! transaction; if the leader dies before the commit, the marks stay. If the database rejects a
//! batch, its jobs are written one by one, and a rejected job is disabled with the reason.

use std::time::Duration;

use sched_model::domain::ids::{JobId, TenantId};
use sched_model::jobs::stale_cursors::{self, Recomputed};
use sched_model::{Conn, DbError, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;
use uuid::Uuid;

use super::batch::is_of_the_rows;
use super::{Scope, within};

pub const PERIOD: Duration = Duration::from_secs(1);
/// Time limit of a run of this task. Committed batches stay.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Maximum number of jobs per transaction.
const BATCH: i64 = 100;

#[derive(Debug)]
pub struct Cursors {
    pub scope: Scope,
}

impl Activation for Cursors {
    fn name(&self) -> &'static str {
        "cursors"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Cursors {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let mut after = (TenantId(Uuid::nil()), JobId(Uuid::nil()));
        let (mut computed, mut disabled) = (0, 0);
        while !self.scope.stop.is_cancelled() {
            let found = stale_cursors::find(&mut conn, after, BATCH).await?;
            let Some(last) = found.last() else { break };
            after = *last;
            for done in self.recompute(&mut conn, &found).await? {
                match &done.disabled {
                    None => computed += 1,
                    Some(reason) => {
                        disabled += 1;
                        tracing::error!(
                            job.id = %done.job, job.name = done.name, reason,
                            "A job was disabled: it cannot be scheduled."
                        );
                    }
                }
            }
        }
        if computed == 0 && disabled == 0 {
            return Ok(Report::idle());
        }
        Ok(Report::worked(json!({"computed": computed, "disabled": disabled})))
    }

    async fn recompute(
        &self,
        conn: &mut Conn,
        found: &[(TenantId, JobId)],
    ) -> Result<Vec<Recomputed>, DbError> {
        match self.write(conn, found).await {
            Err(error) if is_of_the_rows(&error) => {}
            done => return done,
        }
        let mut all = Vec::new();
        for job in found {
            match self.write(conn, &[*job]).await {
                Err(error) if is_of_the_rows(&error) => {
                    let reason = format!("its next fire time was refused: {}", error.with_causes());
                    all.extend(self.refuse(conn, *job, reason).await?);
                }
                done => all.extend(done?),
            }
        }
        Ok(all)
    }

    async fn write(&self, conn: &mut Conn, jobs: &[(TenantId, JobId)]) -> Result<Vec<Recomputed>, DbError> {
        transact(conn, "compute_cursors", async |conn: &mut Conn| {
            tick::fence(conn, self.scope.instance, self.scope.term).await?;
            stale_cursors::recompute(conn, jobs).await
        })
        .await
    }

    async fn refuse(
        &self,
        conn: &mut Conn,
        job: (TenantId, JobId),
        reason: String,
    ) -> Result<Option<Recomputed>, DbError> {
        transact(conn, "disable_job", async |conn: &mut Conn| {
            tick::fence(conn, self.scope.instance, self.scope.term).await?;
            stale_cursors::refuse(conn, job, &reason).await
        })
        .await
    }
}

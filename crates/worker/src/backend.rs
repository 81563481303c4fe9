//! The database of the scheduler, for the life cycle of the worker.
//!
//! Only the built-in jobs bypass [`Backend`], because they maintain the database itself.

mod claims;
mod heartbeats;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sched_model::connection::migrations::SchemaError;
use sched_model::connection::{notify, startup};
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId, WorkerId};
use sched_model::recovery::lost_attempts::{self, Losses, Recoverer, Recovery};
use sched_model::running::{attempts, job_counters, live_output, upstream, workers};
use sched_model::{Database, definitions};

pub(crate) use sched_model::DbError;
pub(crate) use sched_model::connection::notify::{CANCEL_CHANNEL, Hint};
pub(crate) use sched_model::definitions::secrets::SealedSecret;
pub(crate) use sched_model::dispatching::cancellations::ClaimEndReason;
pub(crate) use sched_model::recovery::dead_workers::OpenAttempt;
pub(crate) use sched_model::recovery::lost_attempts::Recovered;
pub(crate) use sched_model::running::attempts::{Ended, JobColumns, OutputChunk, Record};
pub(crate) use sched_model::running::claims::{ClaimOutcome, ClaimRequest, Claimed};
pub(crate) use sched_model::running::live_output::{LiveUpdate, Piece};
pub(crate) use sched_model::running::workers::{Beat, BeatOutcome, NewWorker, Predecessor};

pub(crate) use claims::ClaimConnection;
pub(crate) use heartbeats::HeartbeatConnection;

/// Clones share the pool of connections.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    database: Arc<Database>,
}

impl Backend {
    pub(crate) fn new(database: Database) -> Self {
        Self { database: Arc::new(database) }
    }

    #[cfg(test)]
    pub(crate) fn unreachable() -> Self {
        let settings = sched_model::DatabaseSettings::new("postgres://nobody@127.0.0.1:1/none", "test");
        Self::new(Database::new(&settings).unwrap())
    }

    pub(crate) async fn wait_until_usable(&self) -> Result<(), SchemaError> {
        startup::wait_until_usable_for_runs(&self.database).await
    }

    /// Never returns. A worker that loses a notification finds its work by polling.
    pub(crate) async fn listen(&self, on_hint: impl FnMut(Hint)) {
        let channels = [notify::DISPATCH_CHANNEL, notify::CANCEL_CHANNEL];
        notify::listen(&self.database, &channels, on_hint).await;
    }

    /// Returns whether the worker must drain, because its predecessor had to.
    pub(crate) async fn register(
        &self,
        worker: &NewWorker,
        before: Option<Predecessor>,
    ) -> Result<bool, DbError> {
        workers::register(&mut *self.database.conn().await?, worker, before).await
    }

    /// Open claims of the worker are recovered at once.
    pub(crate) async fn leave(&self, worker: WorkerId) -> Result<(), DbError> {
        workers::unregister(&mut *self.database.conn().await?, worker).await
    }

    pub(crate) fn heartbeats(&self) -> HeartbeatConnection {
        HeartbeatConnection::new(self.database.clone())
    }

    pub(crate) async fn claims(&self) -> Result<ClaimConnection, DbError> {
        Ok(ClaimConnection::new(self.database.conn().await?))
    }

    /// Stores ended attempts and removes finished claims in one transaction. Returns the runs whose
    /// claim held.
    pub(crate) async fn finish(
        &self,
        ended: &[Ended],
        finished_claims: &[i64],
    ) -> Result<Vec<DispatchId>, DbError> {
        attempts::end(&mut *self.database.conn().await?, ended, finished_claims).await
    }

    /// Attempts that history holds with the end that this worker stored.
    pub(crate) async fn finished(
        &self,
        attempts: &[ExecutionId],
        since: DateTime<Utc>,
    ) -> Result<Vec<ExecutionId>, DbError> {
        attempts::was_ended(&mut *self.database.conn().await?, attempts, since).await
    }

    /// Removes claims of which every run has ended.
    pub(crate) async fn release(&self, claims: &[i64]) -> Result<(), DbError> {
        attempts::release_claims(&mut *self.database.conn().await?, claims).await
    }

    /// Counts ends that the leader has not counted within `patience`. Returns whether uncounted ends
    /// remain.
    pub(crate) async fn count_ends(&self, patience: Duration) -> Result<bool, DbError> {
        let mut conn = self.database.conn().await?;
        if job_counters::is_behind(&mut conn, patience).await? {
            job_counters::count_and_notify(&mut conn).await?;
        }
        job_counters::has_uncounted(&mut conn).await
    }

    pub(crate) async fn notify_released(&self) -> Result<(), DbError> {
        notify::dispatches_wait_again(&mut *self.database.conn().await?).await
    }

    pub(crate) async fn notify_queues(&self, queues: &[String]) -> Result<(), DbError> {
        notify::dispatches_waiting(&mut *self.database.conn().await?, queues).await
    }

    /// Returns the claims that held. Idempotent.
    pub(crate) async fn write_live(&self, news: &[LiveUpdate]) -> Result<Vec<ClaimToken>, DbError> {
        live_output::write(&mut *self.database.conn().await?, news).await
    }

    /// Returns the attempts without any row left. The end of each remaining attempt is not stored
    /// yet.
    pub(crate) async fn forget_live(
        &self,
        ended: &[(DispatchId, ClaimToken)],
    ) -> Result<Vec<ClaimToken>, DbError> {
        live_output::forget(&mut *self.database.conn().await?, ended).await
    }

    /// Sealed secrets that attempts of the job may use.
    pub(crate) async fn secrets(
        &self,
        tenant: TenantId,
        job: JobId,
        names: &[String],
    ) -> Result<Vec<SealedSecret>, DbError> {
        definitions::secrets::of_attempt(&mut *self.database.conn().await?, tenant, job, names).await
    }

    /// The run that a dependent run follows.
    pub(crate) async fn upstream(
        &self,
        tenant: TenantId,
        run: DispatchId,
    ) -> Result<Option<upstream::Upstream>, DbError> {
        upstream::of_run(&*self.database.conn().await?, tenant, run).await
    }

    /// Ends the attempts of dead workers, without a leader; also returns the number of living
    /// workers.
    ///
    /// The database permits one worker at a time, and none while a leader lives.
    pub(crate) async fn recover(
        &self,
        lease: Duration,
        max_attempts: u32,
        is_stopped: impl Fn() -> bool,
    ) -> Result<(Recovered, u64), DbError> {
        let mut conn = self.database.conn().await?;
        let recovery = Recovery { by: Recoverer::Worker, lease, losses: Losses { max_attempts } };
        let recovered = recovery.run(&mut conn, is_stopped).await?;
        Ok((recovered, workers::living(&mut conn).await?))
    }
}

/// With the value 0, for alerts on their growth.
pub(crate) fn show_counters() {
    lost_attempts::show_counters();
}

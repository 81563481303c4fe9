//! Claims: one pooled connection for all statements of one round.

use sched_model::DbError;
use sched_model::connection::pool::Pooled;
use sched_model::domain::ids::{ClaimToken, WorkerId};
use sched_model::recovery::dead_workers;
use sched_model::running::claims::{self, ClaimOutcome, ClaimRequest};

pub(crate) struct ClaimConnection(Pooled);

impl ClaimConnection {
    pub(super) fn new(conn: Pooled) -> Self {
        Self(conn)
    }

    /// Attempts that the database holds and that are not in `known`: claims whose answer was lost.
    pub(crate) async fn unknown(
        &mut self,
        worker: WorkerId,
        known: &[ClaimToken],
    ) -> Result<Vec<dead_workers::OpenAttempt>, DbError> {
        dead_workers::unknown_claims(&mut self.0, worker, known).await
    }

    /// Claims a run that waits alone, for a fraction of the cost of [`ClaimConnection::claim`].
    pub(crate) async fn claim_lone(
        &mut self,
        worker: WorkerId,
        queues: &[String],
        lease_ms: Option<i32>,
    ) -> Result<ClaimOutcome, DbError> {
        claims::claim_lone(&mut self.0, worker, queues, lease_ms).await
    }

    pub(crate) async fn claim(&mut self, wanted: &ClaimRequest<'_>) -> Result<ClaimOutcome, DbError> {
        claims::claim_unlimited(&mut self.0, wanted).await
    }

    pub(crate) async fn claim_limited(&mut self, wanted: &ClaimRequest<'_>) -> Result<ClaimOutcome, DbError> {
        claims::claim_limited(&mut self.0, wanted).await
    }
}

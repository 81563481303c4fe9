//! Heartbeats: a dedicated connection, so that no other work of the worker can delay one.

use std::sync::Arc;

use sched_model::dispatching::cancellations::{self, ClaimEndReason};
use sched_model::domain::ids::{ClaimToken, DispatchId, WorkerId};
use sched_model::running::workers::{self, Beat, BeatOutcome};
use sched_model::{Conn, Database, DbError};

/// Opened on first use.
///
/// A future that fails or is dropped closes the connection, because an answer may be half-read.
pub(crate) struct HeartbeatConnection {
    database: Arc<Database>,
    conn: Option<Conn>,
}

impl HeartbeatConnection {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, conn: None }
    }

    pub(crate) async fn beat(&mut self, worker: WorkerId, beat: Beat) -> Result<BeatOutcome, DbError> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.database.dedicated().await?,
        };
        let outcome = workers::heartbeat(&mut conn, worker, beat).await?;
        self.conn = Some(conn);
        Ok(outcome)
    }

    /// Attempts that are cancelled or whose claim was taken away. Reads nothing before the first
    /// heartbeat.
    pub(crate) async fn attempts_to_end(
        &mut self,
        held: &[(DispatchId, ClaimToken)],
    ) -> Result<Vec<(ClaimToken, ClaimEndReason)>, DbError> {
        let Some(mut conn) = self.conn.take() else { return Ok(Vec::new()) };
        let claims = cancellations::claims_to_end(&mut conn, held).await;
        self.conn = Some(conn);
        claims
    }
}

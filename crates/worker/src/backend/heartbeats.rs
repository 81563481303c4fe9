//! Heartbeats: a dedicated connection, so that no other work of the worker can delay one.

use std::sync::Arc;

use sched_model::dispatching::cancellations::{self, Word};
use sched_model::domain::ids::{ClaimToken, DispatchId, WorkerId};
use sched_model::running::workers::{self, Beat, BeatOutcome};
use sched_model::{Conn, Database, DbError};

/// The connection of the heartbeats, opened when it is needed.
///
/// A future that fails or is dropped takes its connection along, because the connection may be in
/// the middle of an answer. The next call opens a new one.
pub(crate) struct HeartbeatConnection {
    database: Arc<Database>,
    conn: Option<Conn>,
}

impl HeartbeatConnection {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, conn: None }
    }

    /// Renews the lease, unless it is lost.
    pub(crate) async fn beat(&mut self, worker: WorkerId, beat: Beat) -> Result<BeatOutcome, DbError> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.database.dedicated().await?,
        };
        let outcome = workers::heartbeat(&mut conn, worker, beat).await?;
        self.conn = Some(conn);
        Ok(outcome)
    }

    /// The attempts among these that must end: cancelled ones, and ones whose claim was taken away.
    /// Reads nothing while no heartbeat has opened the connection.
    pub(crate) async fn attempts_to_end(
        &mut self,
        held: &[(DispatchId, ClaimToken)],
    ) -> Result<Vec<(ClaimToken, Word)>, DbError> {
        let Some(mut conn) = self.conn.take() else { return Ok(Vec::new()) };
        let words = cancellations::word_of(&mut conn, held).await;
        self.conn = Some(conn);
        words
    }
}

//! Resignation: the work stops, the term ends, the standbys are notified. Also the final
//! unregistration.
//!
//! Every step has a time limit. If this process dies meanwhile, the lease expires and the
//! registration is removed as stale. If it lives, its next heartbeat finds the term and gives it
//! up.

use std::time::Duration;

use sched_model::domain::ids::Term;
use sched_model::{Conn, DbError, cluster::leadership, connection::notify};
use sched_runtime::monotonic_clock::monotonic;

use super::{Leadership, Loss};

/// Time limit of a resignation and of the unregistration: the supervisor of the process does not
/// wait for ever.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// Time that a resigning leader waits for its work to stop. A transaction still in flight then
/// delays the end of the term by its lock; a later one is rejected.
const STOP_WORK_WITHIN: Duration = Duration::from_secs(2);

impl Leadership {
    /// Resigns. If another scheduler should lead, gives it time to take over.
    pub(super) async fn step_aside(&mut self, loss: Loss) {
        self.resign(loss).await;
        self.hold_back_if(matches!(loss, Loss::SteppedDown | Loss::Stalled));
    }

    /// Suspends the candidacy for two leases if another scheduler should lead.
    pub(super) fn hold_back_if(&mut self, is_for_another: bool) {
        if is_for_another {
            self.no_candidate_before = Some(monotonic() + self.timing.lease.duration() * 2);
        }
    }

    /// Gives up leadership: stops the work, ends the term, notifies the standbys. Does nothing on a
    /// standby.
    pub async fn resign(&mut self, loss: Loss) {
        let Some(held) = self.held.take() else { return };
        let term = held.term;
        self.lost(loss);
        // After the trust window another scheduler may lead already; waiting would only delay.
        let patience = held.trust.until().saturating_duration_since(monotonic()).min(STOP_WORK_WITHIN);
        let idle = self.work.wait_for(|running| running.is_empty());
        if tokio::time::timeout(patience, idle).await.is_err() {
            tracing::warn!(
                leader.term = term.0,
                "The work of the term has not stopped yet; what it still writes is refused."
            );
        }
        match tokio::time::timeout(LEAVE_WITHIN, self.try_resign(term)).await {
            Ok(Ok(())) => tracing::info!(leader.term = term.0, reason = loss.as_str(), "Resigned."),
            Ok(Err(error)) => {
                let error = error.with_causes();
                tracing::warn!(error, "Resigning failed; a standby takes over when the lease expires.");
            }
            Err(_elapsed) => {
                tracing::warn!("Resigning took too long; a standby takes over when the lease expires.");
            }
        }
    }

    /// No other work can occupy the connection of the heartbeats.
    async fn try_resign(&mut self, term: Term) -> Result<(), DbError> {
        let mut conn = self.conn().await?;
        self.end_term(&mut conn, term).await?;
        self.conn = Some(conn);
        Ok(())
    }

    /// Ends the term if this process still holds it, and notifies the standbys.
    pub(super) async fn end_term(&self, conn: &mut Conn, term: Term) -> Result<(), DbError> {
        if leadership::resign(conn, self.instance.id, term).await? {
            notify::leader_resigned(conn).await?;
        }
        Ok(())
    }

    pub async fn leave(mut self) {
        self.resign(Loss::Stopped).await;
        let removed = async {
            let mut conn = self.conn().await?;
            leadership::unregister(&mut conn, self.instance.id).await
        };
        match tokio::time::timeout(LEAVE_WITHIN, removed).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = error.with_causes();
                tracing::warn!(error, "Removing the registration failed; it is removed as stale later.");
            }
            Err(_elapsed) => {
                tracing::warn!("Removing the registration took too long; it is removed as stale later.");
            }
        }
    }
}

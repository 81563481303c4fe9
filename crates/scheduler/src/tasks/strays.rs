//! Ends attempts without a claim, which recovery cannot find, when an operator requests it (`POST
//! /maintenance/reset-stuck`).
//!
//! Only manual changes of a table create such rows. The search reads the whole table
//! `job_dispatch`, so only the leader does it, and only on request. It must not cause a run to
//! execute twice at once. A worker that is gone, or whose registration is gone, has killed its
//! attempts at most one lease later. So an attempt is ended only if two checks, one lease apart,
//! find it under the same token. On a live worker, its time limit must be over as well, as in
//! [`super::overdue`]. The term and the token fence the end. A leader that dies or steps down
//! between the checks has ended nothing and loses the request.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sched_model::domain::ids::{ClaimToken, DispatchId};
use sched_model::recovery::dead_workers::{self, StrayAttempt};
use sched_model::recovery::lost_attempts::{Cause, Losses, Lost};
use sched_model::{Conn, DbError, connection::notify, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

/// Time between two passes without a request, which do nothing.
pub const PERIOD: Duration = Duration::from_secs(3600);
/// Time limit of a run of this task. Committed work stays.
const RUN_LIMIT: Duration = Duration::from_secs(120);
/// Maximum number of attempts checked and ended at once.
const BATCH: i64 = 500;

#[derive(Debug)]
pub struct Strays {
    pub scope: Scope,
    /// Silence after which a worker is lost and has killed its attempts.
    pub worker_lease: Duration,
    /// Minimum time that an attempt may run on a live worker.
    pub unknown_limit: Duration,
    /// Maximum attempts of jobs without a retry policy.
    pub max_attempts: u32,
    /// Whether there is a request. The setter also wakes this task.
    pub requested: Arc<AtomicBool>,
    /// Result of the first check.
    pub seen: Option<Sighting>,
}

#[derive(Debug, Clone)]
pub struct Sighting {
    at: Instant,
    claims: HashSet<(DispatchId, ClaimToken)>,
}

impl Activation for Strays {
    fn name(&self) -> &'static str {
        "strays"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Strays {
    async fn run(&mut self) -> Result<Report, DbError> {
        let Some(seen) = self.seen.take() else {
            // Cleared first: a request during the check causes another one.
            if !self.requested.swap(false, Ordering::Relaxed) {
                return Ok(Report::idle());
            }
            let looked = self.find().await;
            // If the table cannot be read in time, an immediate retry would fail too.
            if looked.as_ref().is_err_and(DbError::is_outage) {
                self.requested.store(true, Ordering::Relaxed);
            }
            return looked;
        };
        let rest = self.worker_lease.saturating_sub(monotonic().saturating_duration_since(seen.at));
        if !rest.is_zero() {
            self.seen = Some(seen);
            return Ok(Report::idle().next_in(rest));
        }
        let mut conn = match self.scope.database.conn().await {
            Ok(conn) => conn,
            Err(error) => {
                self.seen = Some(seen);
                return Err(error);
            }
        };
        let ended = match self.second_look(&mut conn, &seen).await {
            Ok(ended) => ended,
            Err(error) => {
                // A table that cannot be read in time is not read repeatedly.
                self.seen = Some(seen).filter(|_| error.is_outage());
                return Err(error);
            }
        };
        ended.iter().for_each(Lost::log);
        if ended.is_empty() {
            let again = self.requested.load(Ordering::Relaxed);
            return Ok(if again { Report::idle().next_in(Duration::ZERO) } else { Report::idle() });
        }
        for notified in [notify::dispatches_wait_again(&mut conn).await, notify::jobs_ended(&mut conn).await]
        {
            if let Err(error) = notified {
                tracing::debug!(
                    error = error.with_causes(),
                    "A notification is lost; the next query finds the work."
                );
            }
        }
        // More attempts may remain than one check takes.
        self.requested.store(true, Ordering::Relaxed);
        Ok(Report::worked(json!({"attempts_stray": ended.len()})).next_in(Duration::ZERO))
    }

    /// Ends the attempts that are still without a claim.
    ///
    /// The check runs without the fence, so that no transaction waits while it reads a whole table.
    /// This is safe: an attempt without a claim never gets one, and the token identifies an attempt
    /// that has ended meanwhile.
    async fn second_look(&self, conn: &mut Conn, seen: &Sighting) -> Result<Vec<Lost>, DbError> {
        let found = dead_workers::strays(conn, self.unknown_limit, BATCH).await?;
        let found: Vec<StrayAttempt> =
            found.into_iter().filter(|stray| seen.claims.contains(&claim(stray))).collect();
        transact(conn, "end_strays", async |conn: &mut Conn| self.end(conn, &found).await).await
    }

    /// Runs the first check. It decides nothing, so it needs no fence.
    async fn find(&mut self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let found = dead_workers::strays(&mut conn, self.unknown_limit, BATCH).await?;
        if found.is_empty() {
            return Ok(Report::idle());
        }
        tracing::warn!(
            attempts = found.len(),
            "Attempts run that no claim names; they are ended if that is still so in a lease."
        );
        let claims = found.iter().map(claim).collect();
        // From the end of the check: the workers lost the attempts before it.
        self.seen = Some(Sighting { at: monotonic(), claims });
        Ok(Report::worked(json!({"attempts_suspected": found.len()})).next_in(self.worker_lease))
    }

    async fn end(&self, conn: &mut Conn, found: &[StrayAttempt]) -> Result<Vec<Lost>, DbError> {
        tick::fence(conn, self.scope.instance, self.scope.term).await?;
        let found = found.iter().map(|stray| (stray.attempt.clone(), Cause::Stray)).collect();
        // The task runs again after any ended attempt, so attempts may be left.
        Ok(Losses { max_attempts: self.max_attempts }.end(conn, found).await?.lost)
    }
}

fn claim(stray: &StrayAttempt) -> (DispatchId, ClaimToken) {
    (stray.attempt.dispatch_id, stray.attempt.token)
}

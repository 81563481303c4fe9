//! Attempts that no claim names, which recovery cannot find: ended when an operator asks for it (`POST /maintenance/reset-stuck`).
//!
//! Nothing of ours makes such a row; a table that was changed by hand does. Looking for them reads the whole table of dispatches, so it is done
//! when it is asked for, and by the leader alone. Nothing may run twice at once by that: a worker that is gone, or whose registration is, has
//! killed its work a lease later at the latest, so an attempt is ended only when it was seen so twice, a lease apart and under the same token;
//! on a worker that lives, only when its time is over as well, as [`super::overdue`] has it. The end is fenced by the term and the token, like
//! every other. A leader that dies or steps down between the looks has ended nothing, and forgets that it was asked.

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

/// Time between two runs that do nothing because nobody has asked.
pub const PERIOD: Duration = Duration::from_secs(3600);
/// A run may take no longer; what it has committed stays.
const RUN_LIMIT: Duration = Duration::from_secs(120);
/// Most attempts looked at, and ended, at once.
const BATCH: i64 = 500;

/// Ends attempts that no claim names, once somebody has asked for it.
#[derive(Debug)]
pub struct Strays {
    /// The term it works in.
    pub scope: Scope,
    /// Silence after which a worker is given up, and has killed its work.
    pub worker_lease: Duration,
    /// How long an attempt may run on a worker that lives, at least.
    pub unknown_limit: Duration,
    /// Attempts of jobs without a policy.
    pub max_attempts: u32,
    /// Whether somebody has asked; whoever sets it wakes this task.
    pub asked: Arc<AtomicBool>,
    /// What the first look has seen.
    pub seen: Option<Sighting>,
}

/// Attempts that no claim names.
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
            // Who asks while this looks is looked for again.
            if !self.asked.swap(false, Ordering::Relaxed) {
                return Ok(Report::idle());
            }
            let looked = self.look().await;
            // A table that cannot be read in time cannot be read again at once either, and that is told as a failure.
            if looked.as_ref().is_err_and(DbError::is_outage) {
                self.asked.store(true, Ordering::Relaxed);
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
                // As of the first look: what cannot be read in time is not read again and again.
                self.seen = Some(seen).filter(|_| error.is_outage());
                return Err(error);
            }
        };
        ended.iter().for_each(Lost::tell);
        if ended.is_empty() {
            let again = self.asked.load(Ordering::Relaxed);
            return Ok(if again { Report::idle().next_in(Duration::ZERO) } else { Report::idle() });
        }
        for told in [notify::dispatches_wait_again(&mut conn).await, notify::jobs_ended(&mut conn).await] {
            if let Err(error) = told {
                tracing::debug!(error = error.with_causes(), "A hint is lost; they look by themselves.");
            }
        }
        // There may be more than one look takes.
        self.asked.store(true, Ordering::Relaxed);
        Ok(Report::worked(json!({"attempts_stray": ended.len()})).next_in(Duration::ZERO))
    }

    /// Ends those that are still there. Looks without the fence, which nobody is to wait for while a whole table is read: nothing makes a claim of
    /// an attempt that has none, and one that has ended meanwhile is told by its token.
    async fn second_look(&self, conn: &mut Conn, seen: &Sighting) -> Result<Vec<Lost>, DbError> {
        let found = dead_workers::strays(conn, self.unknown_limit, BATCH).await?;
        let found: Vec<StrayAttempt> =
            found.into_iter().filter(|stray| seen.claims.contains(&claim(stray))).collect();
        transact(conn, "end_strays", async |conn: &mut Conn| self.end(conn, &found).await).await
    }

    /// The first look. Decides nothing, so it needs no fence.
    async fn look(&mut self) -> Result<Report, DbError> {
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
        // From after the look: whoever ran them has lost hold of them before.
        self.seen = Some(Sighting { at: monotonic(), claims });
        Ok(Report::worked(json!({"attempts_suspected": found.len()})).next_in(self.worker_lease))
    }

    async fn end(&self, conn: &mut Conn, found: &[StrayAttempt]) -> Result<Vec<Lost>, DbError> {
        tick::fence(conn, self.scope.instance, self.scope.term).await?;
        let found = found.iter().map(|stray| (stray.attempt.clone(), Cause::Stray)).collect();
        Losses { max_attempts: self.max_attempts }.end(conn, found).await
    }
}

fn claim(stray: &StrayAttempt) -> (DispatchId, ClaimToken) {
    (stray.attempt.dispatch_id, stray.attempt.token)
}

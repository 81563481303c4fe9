//! Jobs that run after others: dispatched when those have ended.
//!
//! Ends are told in a table by whoever closes a dispatch ([`sched_model::dispatching::dependents`]), in the same transaction; here they are taken
//! from it in batches, each a fenced transaction of a constant number of round trips, until there are none. If the process dies, what
//! is not committed is done by the next leader. A notification wakes this task after the commit of an end; losing it costs the period.
//! A look that finds nothing costs one statement and no transaction of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use sched_model::dispatching::dependents::{self, Followed, Limits};
use sched_model::{Conn, DbError, connection::notify, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

/// Time between two looks that nobody asked for.
pub const PERIOD: Duration = Duration::from_secs(10);
/// A run may take no longer; what it has committed stays.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// After this a run ends between two batches and begins anew at once, so that its success is seen while it works off a burst.
const RUN_FOR: Duration = Duration::from_secs(3);
/// What one transaction takes: it stays well below the time-outs of those that wait for its jobs.
const LIMITS: Limits = Limits { ends: 500, dependents: 2_000 };

/// Dispatches jobs after the ends of others.
#[derive(Debug)]
pub struct Dependents {
    /// The term it works in.
    pub scope: Scope,
}

impl Activation for Dependents {
    fn name(&self) -> &'static str {
        "dependents"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Dependents {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let started = monotonic();
        let mut sum = Followed::default();
        while dependents::any(&mut conn).await? {
            let mut done =
                transact(&mut conn, "run_dependents", async |conn: &mut Conn| self.batch(conn).await).await?;
            if done.ends == 0 {
                // Another leader, which does not know yet that it is none, holds what there is.
                break;
            }
            measure(&done);
            notify_queues(&mut conn, std::mem::take(&mut done.queues)).await;
            sum.ends += done.ends;
            sum.dispatched += done.dispatched;
            sum.skipped.append(&mut done.skipped);
            if started.elapsed() > RUN_FOR || self.scope.stop.is_cancelled() {
                return Ok(report(&sum).next_in(Duration::ZERO));
            }
        }
        Ok(report(&sum))
    }

    async fn batch(&self, conn: &mut Conn) -> Result<Followed, DbError> {
        let Scope { instance, term, .. } = self.scope;
        let now = tick::fence(conn, instance, term).await?;
        dependents::run_dependents(conn, instance, term, now, LIMITS).await
    }
}

fn report(sum: &Followed) -> Report {
    if sum.ends == 0 {
        return Report::idle();
    }
    Report::worked(json!({"ends": sum.ends, "dispatched": sum.dispatched, "skipped": sum.skipped.len()}))
}

fn measure(done: &Followed) {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    metrics::counter!("sched_job_ends_followed_total").increment(count(done.ends));
    metrics::counter!("sched_dispatches_created_total").increment(count(done.dispatched));
    for reason in &done.skipped {
        metrics::counter!("sched_fires_skipped_total", "reason" => reason.as_str()).increment(1);
    }
}

async fn notify_queues(conn: &mut Conn, queues: BTreeSet<String>) {
    let queues: Vec<String> = queues.into_iter().collect();
    if let Err(error) = notify::dispatches_waiting(conn, &queues).await {
        tracing::debug!(
            error = error.with_causes(),
            "Notifying the workers failed; they find the work when they poll."
        );
    }
}

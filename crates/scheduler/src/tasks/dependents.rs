//! Dispatches jobs that run after other jobs have ended.
//!
//! The transaction that closes a run inserts its end into a table
//! ([`sched_model::dispatching::dependents`]). This task takes the ends in fenced batches. If the
//! process dies, the next leader does the uncommitted work. A lost notification delays the work by
//! at most one period.

use std::collections::BTreeSet;
use std::time::Duration;

use sched_model::dispatching::dependents::{self, DependentsResult, Limits};
use sched_model::running::job_counters;
use sched_model::{Conn, DbError, connection::notify, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

/// Time between two checks without a notification.
pub const PERIOD: Duration = Duration::from_secs(10);
/// Time limit of a run of this task. Committed batches stay.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// After this time the task returns between two batches and starts again at once, so that a long
/// burst still reports success.
const RUN_FOR: Duration = Duration::from_secs(3);
/// One transaction must end well before the time-outs of transactions that wait for its job locks.
const LIMITS: Limits = Limits { ends: 500, dependents: 2_000 };

#[derive(Debug)]
pub struct Dependents {
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
        let mut sum = DependentsResult::default();
        while dependents::any(&mut conn).await? {
            // So that the plan knows the room of the dependents.
            job_counters::count_and_notify(&mut conn).await?;
            let mut done =
                transact(&mut conn, "run_dependents", async |conn: &mut Conn| self.batch(conn).await).await?;
            if done.ends == 0 {
                // A former leader that has not noticed the end of its term has locked the remaining
                // rows.
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

    async fn batch(&self, conn: &mut Conn) -> Result<DependentsResult, DbError> {
        let Scope { instance, term, .. } = self.scope;
        dependents::run_dependents(conn, instance, term, LIMITS).await
    }
}

fn report(sum: &DependentsResult) -> Report {
    if sum.ends == 0 {
        return Report::idle();
    }
    Report::worked(json!({"ends": sum.ends, "dispatched": sum.dispatched, "skipped": sum.skipped.len()}))
}

fn measure(done: &DependentsResult) {
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

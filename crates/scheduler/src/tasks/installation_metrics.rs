//! Exports the state of the installation as metrics: the number of workers and the wait of the
//! oldest run. Also reads the jobs that `/status` shows.
//!
//! Worker metrics cannot show that there are no workers. The leader queries the database in one
//! statement and exports gauges. Other schedulers export zeros, so that sums over all schedulers
//! are right; alerts must check for a leader. The task writes nothing, so it needs no fence. A
//! failed pass leaves the previous values.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sched_model::cluster::health::{self, JobCounts, NextDue};
use sched_model::domain::instance::WorkerStatus;
use sched_model::{Conn, DbError};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use tokio::sync::watch;

use super::{Scope, within};

/// Similar to the usual scrape interval.
pub const PERIOD: Duration = Duration::from_secs(10);
const RUN_LIMIT: Duration = Duration::from_secs(30);
/// A count reads all jobs, so jobs are counted rarely.
const COUNT_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of jobs that are counted.
pub const MOST_COUNTED: i64 = 100_000;
/// Maximum number of due jobs in `/status`.
const SHOWN_DUE: i64 = 10;

/// Exports zeros, as on a scheduler that does not lead.
pub(super) fn describe() {
    metrics::describe_gauge!(
        "sched_workers_online",
        "Workers that are not given up, by status; shown by the leader, 0 elsewhere."
    );
    metrics::describe_gauge!(
        "sched_oldest_pending_seconds",
        "For how long the oldest PENDING dispatch could have been claimed; shown by the leader, 0 elsewhere."
    );
    show(0, 0, 0, 0.0);
}

/// The jobs of the installation, as the leader last read them.
#[derive(Debug, Clone)]
pub struct JobsSeen {
    /// At most [`MOST_COUNTED`] in all.
    pub counts: JobCounts,
    pub counted: Instant,
    pub next_due: Vec<NextDue>,
    pub read: Instant,
}

#[derive(Debug)]
pub struct InstallationMetrics {
    pub scope: Scope,
    pub jobs: Arc<watch::Sender<Option<JobsSeen>>>,
}

impl Activation for InstallationMetrics {
    fn name(&self) -> &'static str {
        "standing"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Drop for InstallationMetrics {
    /// A former leader has no current values, so it reports zeros.
    fn drop(&mut self) {
        show(0, 0, 0, 0.0);
    }
}

impl InstallationMetrics {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let fleet = health::fleet(&mut conn).await?;
        show(fleet.idle, fleet.busy, fleet.draining, fleet.oldest_pending);
        self.read_jobs(&mut conn).await?;
        Ok(Report::idle())
    }

    async fn read_jobs(&self, conn: &mut Conn) -> Result<(), DbError> {
        let fresh = self
            .jobs
            .borrow()
            .as_ref()
            .filter(|seen| seen.counted.elapsed() < COUNT_EVERY)
            .map(|seen| (seen.counts, seen.counted));
        let (counts, counted) = match fresh {
            Some(fresh) => fresh,
            None => (health::job_counts(conn, MOST_COUNTED).await?, monotonic()),
        };
        let next_due = health::next_due(conn, SHOWN_DUE).await?;
        self.jobs.send_replace(Some(JobsSeen { counts, counted, next_due, read: monotonic() }));
        Ok(())
    }
}

fn show(idle: i64, busy: i64, draining: i64, oldest_pending: f64) {
    for (status, count) in
        [(WorkerStatus::Idle, idle), (WorkerStatus::Busy, busy), (WorkerStatus::Draining, draining)]
    {
        metrics::gauge!("sched_workers_online", "status" => status.public_name())
            .set(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    }
    metrics::gauge!("sched_oldest_pending_seconds").set(oldest_pending);
}

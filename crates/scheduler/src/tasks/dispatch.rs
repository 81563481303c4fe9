//! The tick: due fire times become dispatches.
//!
//! One transaction per batch: fence, lock the due jobs, decide (pure), insert, record, advance; until a batch is not full.
//! Then the queues touched are notified, each once, outside of the transaction: a notification takes a lock that serialises
//! commits, and losing one costs nothing but latency. If the process dies before a commit, nothing has happened and the
//! next leader finds the same jobs due; if it dies after, the dispatches are there and only the hint is missing.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sched_model::db::events::{self, NewEvent};
use sched_model::db::tick::{self, Batch, DueJob, Written};
use sched_model::db::{Conn, DbError, notify, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};
use crate::plan::{Disabled, plan_batch};

/// A run may take no longer; what it has committed stays.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Shortest pause before looking at a job again that is due but was locked by somebody.
const LOCKED_PAUSE: Duration = Duration::from_millis(5);

/// Turns due fire times into dispatches.
#[derive(Debug)]
pub struct Dispatch {
    /// The term it works in.
    pub scope: Scope,
    /// Most jobs per transaction.
    pub batch_size: i64,
    /// Longest sleep; the task asks for a shorter one when a job is due earlier.
    pub poll_interval: Duration,
}

/// What a run did, summed over its batches.
#[derive(Debug, Default)]
struct Sum {
    jobs: usize,
    written: Written,
    disabled: usize,
    queues: BTreeSet<String>,
}

impl Activation for Dispatch {
    fn name(&self) -> &'static str {
        "dispatch"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Dispatch {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let mut sum = Sum::default();
        loop {
            let jobs = self.tick(&mut conn, &mut sum).await?;
            // The hint goes out with each batch: workers need not wait for the whole burst.
            notify_queues(&mut conn, &mut sum.queues).await;
            if i64::try_from(jobs).unwrap_or(i64::MAX) < self.batch_size {
                break;
            }
        }
        let (next_due, now) = tick::next_due(&mut conn).await?;
        Ok(self.report(&sum, next_due, now))
    }

    fn report(&self, sum: &Sum, next_due: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Report {
        let report = if sum.jobs == 0 {
            Report::idle()
        } else {
            Report::worked(json!({
                "jobs": sum.jobs,
                "dispatched": sum.written.dispatched,
                "already_dispatched": sum.written.already_dispatched,
                "skipped": sum.written.skipped,
                "disabled": sum.disabled,
            }))
        };
        let until_due = next_due.map(|due| (due - now).to_std().unwrap_or_default().max(LOCKED_PAUSE));
        report.next_in(until_due.unwrap_or(self.poll_interval).min(self.poll_interval))
    }

    /// One batch; returns how many jobs it took.
    async fn tick(&self, conn: &mut Conn, sum: &mut Sum) -> Result<usize, DbError> {
        let done =
            transact(conn, "tick", async |conn: &mut Conn| self.tick_in_transaction(conn).await).await?;
        let Some(done) = done else { return Ok(0) };
        done.measure();
        sum.jobs += done.jobs.len();
        sum.written.dispatched += done.written.dispatched;
        sum.written.already_dispatched += done.written.already_dispatched;
        sum.written.skipped += done.written.skipped;
        sum.disabled += done.disabled.len();
        sum.queues.extend(done.batch.dispatches.into_iter().map(|dispatch| dispatch.queue));
        Ok(done.jobs.len())
    }

    async fn tick_in_transaction(&self, conn: &mut Conn) -> Result<Option<Done>, DbError> {
        let Scope { instance, term, .. } = self.scope;
        let now = tick::fence(conn, instance, term).await?;
        let jobs = tick::lock_due(conn, now, self.batch_size).await?;
        if jobs.is_empty() {
            return Ok(None);
        }
        let (batch, disabled) = plan_batch(&jobs, now);
        let written = tick::write(conn, instance, term, &batch).await?;
        events::append(conn, &disabled_events(&jobs, &disabled)).await?;
        Ok(Some(Done { now, jobs, batch, disabled, written }))
    }
}

/// A committed batch.
struct Done {
    now: DateTime<Utc>,
    jobs: Vec<DueJob>,
    batch: Batch,
    disabled: Vec<Disabled>,
    written: Written,
}

impl Done {
    fn measure(&self) {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        metrics::counter!("sched_dispatches_created_total").increment(count(self.written.dispatched));
        metrics::histogram!("sched_tick_batch_jobs")
            .record(f64::from(u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)));
        for dispatch in &self.batch.dispatches {
            let lateness = (self.now - dispatch.scheduled_for).to_std().unwrap_or_default();
            metrics::histogram!("sched_fire_lateness_seconds").record(lateness.as_secs_f64());
        }
        for skip in &self.batch.skips {
            let fires = u64::try_from(skip.fire_count).unwrap_or(0);
            metrics::counter!("sched_fires_skipped_total", "reason" => skip.reason.as_str()).increment(fires);
        }
        if self.written.already_dispatched > 0 {
            metrics::counter!("sched_dispatches_refused_as_duplicate_total")
                .increment(count(self.written.already_dispatched));
            tracing::error!(
                fires = self.written.already_dispatched,
                "Fire times had been dispatched before; the unique key held where another guard failed."
            );
        }
        for disabled in &self.disabled {
            if let Some(job) = self.jobs.get(disabled.position) {
                tracing::error!(job.id = %job.id, job.name, reason = disabled.reason, "A job was disabled: it cannot be scheduled.");
            }
        }
    }
}

fn disabled_events(jobs: &[DueJob], disabled: &[Disabled]) -> Vec<NewEvent> {
    disabled
        .iter()
        .filter_map(|disabled| Some((jobs.get(disabled.position)?, &disabled.reason)))
        .map(|(job, reason)| NewEvent {
            tenant_id: Some(job.tenant_id),
            project_id: job.project_id,
            job_id: Some(job.id),
            dispatch_id: None,
            event_type: events::JOB_DISABLED,
            payload: json!({"job_name": job.name, "reason": reason}),
        })
        .collect()
}

async fn notify_queues(conn: &mut Conn, queues: &mut BTreeSet<String>) {
    let queues: Vec<String> = std::mem::take(queues).into_iter().collect();
    if let Err(error) = notify::dispatches_waiting(conn, &queues).await {
        tracing::debug!(
            error = error.with_causes(),
            "Notifying the workers failed; they find the work when they poll."
        );
    }
}

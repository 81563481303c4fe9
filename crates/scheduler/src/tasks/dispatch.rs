//! The tick: due fire times become dispatches.
//!
//! One transaction per batch: fence, lock the due jobs, decide (pure), insert, record, advance; until a batch is not full.
//! Then the queues touched are notified, each once, outside of the transaction: a notification takes a lock that serialises
//! commits, and losing one costs nothing but latency. If the process dies before a commit, nothing has happened and the
//! next leader finds the same jobs due; if it dies after, the dispatches are there and only the hint is missing.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sched_model::db::events::{self, NewEvent};
use sched_model::db::tick::{self, Batch, DueJob, Written};
use sched_model::db::{Conn, DbError, notify, transact};
use sched_runtime::clock::monotonic;
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};
use crate::calendars::Calendars;
use crate::plan::{Disabled, MAX_DISPATCHES, disable_all, plan_batch};

/// A run may take no longer; what it has committed stays.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// After this a run ends between two batches and begins anew at once, so that its success is seen while it works off a burst.
const RUN_FOR: Duration = Duration::from_secs(3);
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
    /// Calendars read so far in this term. Locked only while a batch is decided, never across an await.
    pub calendars: Mutex<Calendars>,
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
        let started = monotonic();
        loop {
            let is_full = match self.tick(&mut conn, &mut sum).await {
                Err(error) if is_of_the_batch(&error) => self.one_by_one(&mut conn, &mut sum, &error).await?,
                result => result?,
            };
            // The hint goes out with each batch: workers need not wait for the whole burst.
            notify_queues(&mut conn, &mut sum.queues).await;
            if !is_full || started.elapsed() > RUN_FOR || self.scope.stop.is_cancelled() {
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

    /// One batch; returns whether it was full, so that more may be due.
    async fn tick(&self, conn: &mut Conn, sum: &mut Sum) -> Result<bool, DbError> {
        self.tick_of(conn, sum, self.batch_size).await
    }

    /// After a batch that the database refused: the same jobs one at a time, so that the one that is refused is found and
    /// disabled and the others go on. Returns whether more may be due.
    async fn one_by_one(&self, conn: &mut Conn, sum: &mut Sum, refused: &DbError) -> Result<bool, DbError> {
        tracing::error!(
            error = refused.with_causes(),
            "A batch of due jobs was refused; taking them one at a time."
        );
        for _ in 0..self.batch_size {
            match self.tick_of(conn, sum, 1).await {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) if is_of_the_batch(&error) => self.disable_first(conn, &error).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Disables the job that is due longest: dispatching it alone was refused.
    async fn disable_first(&self, conn: &mut Conn, refused: &DbError) -> Result<(), DbError> {
        let reason = format!("dispatching it was refused: {}", refused.with_causes());
        transact(conn, "disable_job", async |conn: &mut Conn| {
            let Scope { instance, term, .. } = self.scope;
            let now = tick::fence(conn, instance, term).await?;
            let jobs = tick::lock_due(conn, now, 1).await?;
            let (batch, disabled) = disable_all(&jobs, now, &reason);
            tick::write(conn, instance, term, &batch).await?;
            events::append(conn, &disabled_events(&jobs, &disabled)).await
        })
        .await
    }

    async fn tick_of(&self, conn: &mut Conn, sum: &mut Sum, batch_size: i64) -> Result<bool, DbError> {
        let done =
            transact(conn, "tick", async |conn: &mut Conn| self.tick_in_transaction(conn, batch_size).await)
                .await?;
        let Some(done) = done else { return Ok(false) };
        done.measure();
        sum.jobs += done.jobs.len();
        sum.written.dispatched += done.written.dispatched;
        sum.written.already_dispatched += done.written.already_dispatched;
        sum.written.skipped += done.written.skipped;
        sum.disabled += done.disabled.len();
        let is_full = i64::try_from(done.jobs.len()).unwrap_or(i64::MAX) >= batch_size
            || done.batch.dispatches.len() >= MAX_DISPATCHES;
        sum.queues.extend(done.batch.dispatches.into_iter().map(|dispatch| dispatch.queue));
        Ok(is_full)
    }

    async fn tick_in_transaction(&self, conn: &mut Conn, batch_size: i64) -> Result<Option<Done>, DbError> {
        let Scope { instance, term, .. } = self.scope;
        let now = tick::fence(conn, instance, term).await?;
        let jobs = tick::lock_due(conn, now, batch_size).await?;
        if jobs.is_empty() {
            return Ok(None);
        }
        let found = tick::calendars_of(conn, &jobs).await?;
        let (batch, disabled) = {
            // A panic in between leaves whole entries only.
            let mut calendars = self.calendars.lock().unwrap_or_else(PoisonError::into_inner);
            calendars.update(&jobs, found);
            plan_batch(&jobs, &calendars, now)
        };
        let written = tick::write(conn, instance, term, &batch).await?;
        events::append(conn, &disabled_events(&jobs, &disabled)).await?;
        Ok(Some(Done { now, jobs, batch, disabled, written }))
    }
}

/// Errors that lie in what a batch would write, so that trying it again as it is cannot help.
const fn is_of_the_batch(error: &DbError) -> bool {
    matches!(error, DbError::Constraint { .. } | DbError::Corrupt { .. } | DbError::Other(_))
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

//! One batch of the tick: one transaction.
//!
//! The order is: fence, lock the due jobs, plan (pure), insert, record, advance. If the process
//! dies before the commit, nothing has changed and the next leader finds the same jobs due.
//!
//! The cause of a rejected write may be one job or the database (a revoked privilege, a trigger, a
//! damaged table). A job is disabled only after a trial dispatch of another job succeeds, or if
//! there is no other job to try. A lacking right is never the fault of the only job.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use sched_model::connection::transaction::TransactionError;
use sched_model::dispatching::insert::NewDispatch;
use sched_model::dispatching::tick::{self, Batch, DueJob, Written};
use sched_model::domain::ids::JobId;
use sched_model::domain::trace::TraceContext;
use sched_model::{Conn, DbError, transact};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::traces::{Kind, Span, SpanContext, Traces};

use super::Scope;
use crate::calendars::Calendars;
use crate::plan::{Disabled, disable_all, plan_batch};

/// Clones may run at the same time.
#[derive(Debug, Clone)]
pub struct Batches {
    pub scope: Scope,
    /// Calendars read in this term. The lock is held only while a batch is planned, never across an
    /// await.
    pub calendars: Arc<RwLock<Calendars>>,
}

#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: DbError,
    /// The first job of the batch; `None` if the batch failed before the jobs were locked.
    pub(super) first: Option<JobId>,
}

impl Failed {
    /// Whether the rows of the batch caused the error, so that an unchanged retry cannot succeed.
    pub(super) const fn is_of_the_batch(&self) -> bool {
        is_refusal(&self.error) && self.first.is_some()
    }

    const fn is_of_the_login(&self) -> bool {
        matches!(self.error, DbError::NoPermission(_))
    }
}

/// Whether an unchanged retry cannot succeed.
const fn is_refusal(error: &DbError) -> bool {
    is_of_the_rows(error) || matches!(error, DbError::NoPermission(_))
}

/// Whether the database rejected the content of the rows.
pub(super) const fn is_of_the_rows(error: &DbError) -> bool {
    matches!(error, DbError::Constraint { .. } | DbError::Corrupt { .. } | DbError::Other(_))
}

/// How far behind a rejected job other jobs are tried, in due order. The transaction locks every
/// job that it passes over.
const FARTHEST_TRIED: i64 = 4_096;

/// Result of a trial. A trial writes nothing.
enum Trial {
    NoJob,
    /// The plan has no dispatch for the job, so the trial proves nothing.
    Silent,
    /// The database accepted a dispatch.
    Accepted,
    Failed(DbError),
}

impl From<DbError> for Trial {
    fn from(error: DbError) -> Self {
        Self::Failed(error)
    }
}

impl TransactionError for Trial {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_retryable())
    }
}

impl Batches {
    /// Dispatches up to `limit` due jobs; `None` if no job is due.
    pub(super) async fn run_batch(&self, conn: &mut Conn, limit: i64) -> Result<Option<Done>, Failed> {
        let first = Mutex::new(None);
        let taken =
            transact(conn, "tick", async |conn: &mut Conn| self.in_transaction(conn, limit, &first).await);
        match taken.await {
            Ok(mut done) => {
                if let Some(done) = &mut done {
                    done.measure();
                    done.trace(&self.scope.traces);
                }
                Ok(done)
            }
            Err(error) => {
                let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
                Err(Failed { error, first })
            }
        }
    }

    async fn in_transaction(
        &self,
        conn: &mut Conn,
        limit: i64,
        first: &Mutex<Option<JobId>>,
    ) -> Result<Option<Done>, DbError> {
        let Scope { instance, term, .. } = self.scope;
        let mut phases = Phases::start();
        let now = tick::fence(conn, instance, term).await?;
        phases.end("fence");
        let fenced = phases.since;
        let mut jobs = tick::lock_due(conn, now, limit).await?;
        let Some(earliest) = jobs.first() else { return Ok(None) };
        *first.lock().unwrap_or_else(PoisonError::into_inner) = Some(earliest.id);
        tick::open_quotas(conn, now, &mut jobs).await?;
        self.read_calendars(conn, &jobs).await?;
        phases.end("lock");
        let (batch, disabled) = {
            // A panic under the lock leaves only complete entries, so a poisoned lock is safe to
            // use.
            let calendars = self.calendars.read().unwrap_or_else(PoisonError::into_inner);
            plan_batch(&jobs, &calendars, now)
        };
        phases.end("plan");
        let written = tick::write(conn, instance, term, &batch).await?;
        phases.end("write");
        Ok(Some(Done { now, fenced, jobs, batch, disabled, written, phases }))
    }

    async fn read_calendars(&self, conn: &mut Conn, jobs: &[DueJob]) -> Result<(), DbError> {
        if jobs.iter().all(|job| job.calendars.is_empty()) {
            return Ok(());
        }
        let found = tick::calendars_of(conn, jobs).await?;
        self.calendars.write().unwrap_or_else(PoisonError::into_inner).update(jobs, found);
        Ok(())
    }

    /// Returns whether the database accepts a dispatch of another job than the first due one. If
    /// so, or if there is no other job to try, the first job is the cause of `failed`.
    ///
    /// The dispatch is a trial and is rolled back. Neighbours may share a cause of their own, so
    /// the distance between trials doubles, and the last trials approach the end of the due order.
    pub(super) async fn accepts_another(&self, conn: &mut Conn, failed: &Failed) -> Result<bool, DbError> {
        let (mut refused, mut tried, mut end) = (false, 0, None);
        while tried < FARTHEST_TRIED {
            let skip = end.map_or((tried * 2).max(1), |end: i64| i64::midpoint(tried, end));
            if skip == tried {
                break;
            }
            let Err(trial) = transact(conn, "try_another", async |conn: &mut Conn| {
                Err::<(), Trial>(self.try_one(conn, skip).await?)
            })
            .await
            else {
                break;
            };
            match trial {
                Trial::NoJob => {
                    end = Some(skip);
                    continue;
                }
                Trial::Silent => {}
                Trial::Accepted => return Ok(true),
                Trial::Failed(error) if is_refusal(&error) => refused = true,
                Trial::Failed(error) => return Err(error),
            }
            tried = skip;
        }
        Ok(!refused && !failed.is_of_the_login())
    }

    async fn try_one(&self, conn: &mut Conn, skip: i64) -> Result<Trial, DbError> {
        let Scope { instance, term, .. } = self.scope;
        let now = tick::fence(conn, instance, term).await?;
        let Some(job) = tick::lock_another(conn, now, skip).await? else { return Ok(Trial::NoJob) };
        // Plans the job as if it were due.
        let now = now.max(job.cursor);
        let jobs = [job];
        self.read_calendars(conn, &jobs).await?;
        let (batch, _) = {
            let calendars = self.calendars.read().unwrap_or_else(PoisonError::into_inner);
            plan_batch(&jobs, &calendars, now)
        };
        if batch.dispatches.is_empty() {
            return Ok(Trial::Silent);
        }
        tick::write(conn, instance, term, &batch).await?;
        Ok(Trial::Accepted)
    }

    /// Disables the rejected job, if it is still the longest due one.
    pub(super) async fn disable(&self, conn: &mut Conn, failed: &Failed) -> Result<(), DbError> {
        let reason = format!("dispatching it was refused: {}", failed.error.with_causes());
        transact(conn, "disable_job", async |conn: &mut Conn| {
            let Scope { instance, term, .. } = self.scope;
            let now = tick::fence(conn, instance, term).await?;
            let jobs = tick::lock_due(conn, now, 1).await?;
            if jobs.first().map(|job| job.id) != failed.first {
                return Ok(());
            }
            tick::write(conn, instance, term, &disable_all(&jobs, now, &reason)).await.map(drop)
        })
        .await
    }
}

/// Measures the duration of each phase of a batch with the monotonic clock.
pub(super) struct Phases {
    since: std::time::Instant,
}

impl Phases {
    pub(super) fn start() -> Self {
        Self { since: monotonic() }
    }

    pub(super) const fn since(&self) -> std::time::Instant {
        self.since
    }

    pub(super) fn end(&mut self, phase: &'static str) {
        let now = monotonic();
        let took = now.saturating_duration_since(self.since);
        metrics::histogram!("sched_tick_phase_seconds", "phase" => phase).record(took.as_secs_f64());
        self.since = now;
    }
}

pub(super) struct Done {
    /// Database clock at the fence.
    now: DateTime<Utc>,
    /// The same instant, or later, on the monotonic clock of this process.
    fenced: std::time::Instant,
    pub(super) jobs: Vec<DueJob>,
    pub(super) batch: Batch,
    pub(super) disabled: Vec<Disabled>,
    pub(super) written: Written,
    phases: Phases,
}

impl Done {
    /// Exports one span per dispatch. The span begins with the batch and has the ids that attempts
    /// use as their parent.
    fn trace(&self, traces: &Traces) {
        if !traces.are_on() {
            return;
        }
        let names: HashMap<JobId, &str> = self.jobs.iter().map(|job| (job.id, job.name.as_str())).collect();
        let took = self.fenced.elapsed();
        for dispatch in &self.batch.dispatches {
            let context = TraceContext::of_dispatch(dispatch.id, None);
            let ((trace, span), is_sampled) = (context.ids(), context.is_sampled());
            let lateness = (self.now - dispatch.scheduled_for).to_std().unwrap_or_default() + took;
            let job = names.get(&dispatch.job_id).copied().unwrap_or_default();
            traces.ended(SpanContext { trace, span, is_sampled }, took, || span_of(dispatch, job, lateness));
        }
    }

    fn measure(&mut self) {
        self.phases.end("commit");
        // A fire is late until its dispatch is committed.
        let committed_after = self.fenced.elapsed();
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        metrics::counter!("sched_dispatches_created_total").increment(count(self.written.dispatched));
        metrics::histogram!("sched_tick_batch_jobs")
            .record(f64::from(u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)));
        for dispatch in &self.batch.dispatches {
            let lateness = (self.now - dispatch.scheduled_for).to_std().unwrap_or_default() + committed_after;
            metrics::histogram!("sched_fire_lateness_seconds").record(lateness.as_secs_f64());
        }
        for skip in &self.batch.skips {
            let fires = u64::try_from(skip.fire_count).unwrap_or(0);
            metrics::counter!("sched_fires_skipped_total", "reason" => skip.reason.as_str()).increment(fires);
        }
        metrics::counter!("sched_jobs_held_back_total", "reason" => "quota")
            .increment(count(self.batch.holds.len()));
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

pub(super) fn span_of(dispatch: &NewDispatch<'_>, job: &str, lateness: Duration) -> Span {
    let late_ms = i64::try_from(lateness.as_millis()).unwrap_or(i64::MAX);
    Span {
        parent: None,
        name: format!("dispatch {job}"),
        kind: Kind::Producer,
        attributes: vec![
            ("tenant.id", dispatch.tenant_id.to_string().into()),
            ("job.id", dispatch.job_id.to_string().into()),
            ("job.name", job.into()),
            ("run.id", dispatch.id.to_string().into()),
            ("queue", dispatch.queue.as_str().into()),
            ("fire_time", dispatch.scheduled_for.to_rfc3339_opts(SecondsFormat::AutoSi, true).into()),
            ("lateness_ms", late_ms.into()),
        ],
        failure: None,
    }
}

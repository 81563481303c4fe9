//! Planned fires: the leader computes fires up to two seconds ahead, and dispatches them at the
//! instant with one statement per batch.
//!
//! The plans are in the memory of the dispatch task, so they end with its term, and a jump of the
//! clock ends the term. A plan is a forecast only: the statement compares it with the stored rows.
//! All jobs that a batch does not dispatch stay due, and the ordinary tick takes them at once.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::dispatching::planned::{self, PlannedFire};
use sched_model::dispatching::tick;
use sched_model::domain::ids::DispatchId;
use sched_model::domain::trace::TraceContext;
use sched_model::{Conn, DbError};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::traces::SpanContext;

use super::batch::{self, Phases};
use super::{Scope, notify_workers};
use crate::plan::ahead::{Sources, plan_fire};

/// How far ahead fires are planned.
pub const LOOK_AHEAD: TimeDelta = TimeDelta::seconds(2);
/// Jobs read by one statement, so that planning ends soon before the next fire.
const PAGE: i64 = 500;
/// No page is read this shortly before the next fire.
const MARGIN: Duration = Duration::from_millis(20);
/// Bounds the memory. The ordinary tick dispatches further fires.
const MOST_PLANNED: usize = 50_000;

/// Time limit of planning in one run of the task. A job that a change makes due waits at most this long.
const PLAN_FOR: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub struct Plans {
    /// Ascending by fire time.
    fires: VecDeque<PlannedFire>,
    /// Where planning continues, if it has not reached the end of the look-ahead.
    rest: Option<Position>,
}

#[derive(Debug, Clone, Copy)]
struct Position {
    after: (DateTime<Utc>, i32),
    until: DateTime<Utc>,
}

impl Plans {
    /// Whether all planned fires were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fires.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.fires.len()
    }

    #[must_use]
    pub const fn are_incomplete(&self) -> bool {
        self.rest.is_some()
    }

    /// Nothing is due within the look-ahead: an incomplete read has no rest.
    pub(super) fn stop_reading(&mut self) {
        self.rest = None;
    }

    /// After an error nothing is known about the stored rows.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes and returns the fires that are due at `now`.
    pub(super) fn take_due(&mut self, now: DateTime<Utc>) -> Vec<PlannedFire> {
        let due = self.fires.partition_point(|fire| fire.run.scheduled_for <= now);
        let taken = self.fires.drain(..due).collect();
        if self.fires.is_empty() {
            // Frees the memory.
            self.fires = VecDeque::new();
        }
        taken
    }

    /// Plans fires after `now` until the end of the look-ahead, or until shortly before the next
    /// due time `next_due`. Continues the last read if that is not complete.
    pub(super) async fn read(
        &mut self,
        scope: &Scope,
        now: DateTime<Utc>,
        next_due: Instant,
    ) -> Result<(), DbError> {
        let started = monotonic();
        let from_now = Position { after: (now, i32::MAX), until: now + LOOK_AHEAD };
        let mut position = self.rest.take().filter(|rest| rest.after.0 > now).unwrap_or(from_now);
        let mut conn = scope.database.conn().await?;
        let mut sources = Sources::default();
        while self.len() < MOST_PLANNED && !scope.stop.is_cancelled() && monotonic() + MARGIN < next_due {
            if started.elapsed() > PLAN_FOR {
                self.rest = Some(position);
                break;
            }
            let jobs = tick::read_ahead(&mut conn, position.after, position.until, PAGE).await?;
            let is_full = i64::try_from(jobs.len()).is_ok_and(|read| read >= PAGE);
            if let Some(last) = jobs.last() {
                position.after = (last.cursor, last.burst_order);
            }
            self.fires.extend(jobs.into_iter().filter_map(|job| plan_fire(job, &mut sources)));
            if !is_full {
                break;
            }
        }
        Ok(())
    }
}

/// Dispatches batches of planned fires one after the other on one connection. Returns the number
/// of dispatched fires and of batches.
///
/// # Errors
/// Only if the term is over. The ordinary tick meets every other cause again and reports it.
pub(super) async fn run_lane(
    scope: Scope,
    mut fires: Vec<PlannedFire>,
    per_batch: usize,
) -> Result<(usize, usize), DbError> {
    let (mut dispatched, mut batches) = (0, 0);
    let mut conn = scope.database.conn().await?;
    for batch in fires.chunks_mut(per_batch.max(1)) {
        if scope.stop.is_cancelled() {
            break;
        }
        // The lock order.
        batch.sort_unstable_by_key(|fire| fire.run.job_id.0);
        match run_batch(&scope, &mut conn, batch).await {
            Ok(created) => dispatched += created,
            Err(DbError::TermOver) => return Err(DbError::TermOver),
            Err(error) => {
                tracing::info!(
                    error = error.with_causes(),
                    fires = batch.len(),
                    "Planned fires were not dispatched; the tick takes their jobs."
                );
                break;
            }
        }
        batches += 1;
    }
    Ok((dispatched, batches))
}

async fn run_batch(scope: &Scope, conn: &mut Conn, fires: &[PlannedFire]) -> Result<usize, DbError> {
    let mut phases = Phases::start();
    let started = phases.since();
    let done = planned::dispatch(conn, scope.instance, scope.term, fires).await?;
    phases.end("planned");
    // The statement read the clock after `started`, and a fire is late until its run is committed.
    let took = started.elapsed();
    let created: HashSet<DispatchId> = done.created.iter().copied().collect();
    let fires: Vec<&PlannedFire> = fires.iter().filter(|fire| created.contains(&fire.run.id)).collect();
    let count = u64::try_from(fires.len()).unwrap_or(u64::MAX);
    metrics::counter!("sched_fires_planned_total").increment(count);
    metrics::counter!("sched_dispatches_created_total").increment(count);
    metrics::histogram!("sched_tick_batch_jobs")
        .record(f64::from(u32::try_from(fires.len()).unwrap_or(u32::MAX)));
    for fire in &fires {
        let lateness = (done.now - fire.run.scheduled_for).to_std().unwrap_or_default() + took;
        metrics::histogram!("sched_fire_lateness_seconds").record(lateness.as_secs_f64());
        if scope.traces.are_on() {
            let context = TraceContext::of_dispatch(fire.run.id, None);
            let ((trace, span), is_sampled) = (context.ids(), context.is_sampled());
            scope.traces.ended(SpanContext { trace, span, is_sampled }, took, || {
                batch::span_of(&fire.run, &fire.job_name, lateness)
            });
        }
    }
    let queues: BTreeSet<&String> = fires.iter().map(|fire| &fire.run.queue).collect();
    // Workers need not wait for the whole burst.
    notify_workers(conn, &queues.into_iter().cloned().collect::<Vec<_>>()).await;
    Ok(fires.len())
}

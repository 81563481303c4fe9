//! The tick: the leader dispatches due fires.
//!
//! Fires that were planned ahead go first ([`super::ahead`]); a pass of the ordinary tick follows for
//! all other due jobs.
//!
//! Batches ([`super::batch`]) follow each other until one is not full, and continue if more jobs
//! have become due. In a burst several lanes run at once, each with its own connection and task, so
//! that one plans while the others write. Lanes lock different jobs; each transaction is fenced by
//! the same term. All lanes end with the run of this task. Each batch notifies each affected queue
//! once, outside the transaction, because a notification takes a lock that serialises commits. A
//! lost notification costs only latency, also if the process dies after the commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sched_model::dispatching::planned::PlannedFire;
use sched_model::dispatching::tick::{self, Outlook};
use sched_model::running::job_counters;
use sched_model::{Conn, DbError, connection::notify};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::{BoxError, spawn_owned};
use serde_json::json;
use tokio::sync::watch;

use super::ahead::{self, LOOK_AHEAD, Plans};
use super::batch::{Batches, Done, Failed};
use super::{notify_workers, within};
use crate::plan::MAX_DISPATCHES;

/// Time limit of a run of this task. Committed batches stay.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// After this time the task starts again at once, so that a long burst still reports success.
const RUN_FOR: Duration = Duration::from_secs(3);
/// Minimum pause before a retry of due jobs that another transaction has locked.
const LOCKED_PAUSE: Duration = Duration::from_millis(5);
/// With fewer due jobs per lane, a second lane does not pay off.
const LEAST_PER_LANE: i64 = 100;

#[derive(Debug)]
pub struct Dispatch {
    pub batches: Batches,
    /// Maximum number of jobs per transaction.
    pub batch_size: i64,
    /// Maximum number of transactions at once.
    pub lanes: u32,
    /// Maximum sleep; shorter if a job is due earlier.
    pub poll_interval: Duration,
    pub seen: Arc<watch::Sender<Option<Outlook>>>,
    /// The expected outlook at the next due time, and that time on the monotonic clock, never too
    /// early.
    pub ahead: Option<(Instant, Outlook)>,
    pub plans: Plans,
}

impl Activation for Dispatch {
    fn name(&self) -> &'static str {
        "dispatch"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        let result = within(RUN_LIMIT, self.run()).await;
        if result.is_err() {
            self.plans.clear();
        }
        result
    }
}

#[derive(Debug, Default)]
struct Sum {
    jobs: usize,
    batches: usize,
    planned: usize,
    dispatched: usize,
    already_dispatched: usize,
    skipped: usize,
    disabled: usize,
    held_back: usize,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.batches += other.batches;
        self.planned += other.planned;
        self.dispatched += other.dispatched;
        self.already_dispatched += other.already_dispatched;
        self.skipped += other.skipped;
        self.disabled += other.disabled;
        self.held_back += other.held_back;
    }

    fn count(&mut self, done: &Done) {
        self.add(&Self {
            jobs: done.jobs.len(),
            batches: 1,
            planned: 0,
            dispatched: done.written.dispatched,
            already_dispatched: done.written.already_dispatched,
            skipped: done.written.skipped,
            disabled: done.disabled.len(),
            held_back: done.batch.holds.len(),
        });
    }
}

impl Dispatch {
    async fn run(&mut self) -> Result<Report, BoxError> {
        let mut sum = Sum::default();
        let come = self.ahead.take().filter(|(at, _)| monotonic() >= *at);
        let mut outlook = match come {
            Some((_, outlook)) => self.show(outlook),
            None => self.read_outlook().await?,
        };
        let started = monotonic();
        // Passes alternate, so that planned fires do not delay other due jobs.
        let mut may_plan = true;
        while outlook.due() > 0 {
            let before = sum.jobs;
            let planned = if may_plan { self.plans.take_due(outlook.now) } else { Vec::new() };
            let is_ordinary = planned.is_empty();
            if is_ordinary {
                self.count_ends().await?;
                self.work_off(outlook.due(), started, &mut sum).await?;
            } else {
                self.dispatch_planned(planned, &mut sum).await?;
            }
            may_plan = is_ordinary;
            outlook = self.read_outlook().await?;
            // Dispatches jobs that have become due meanwhile. If the pass took no job, other
            // transactions have locked all of them, and a pause follows.
            let is_stuck = is_ordinary && sum.jobs == before;
            if is_stuck || started.elapsed() > RUN_FOR || self.batches.scope.stop.is_cancelled() {
                break;
            }
        }
        self.plan_ahead(outlook).await?;
        Ok(self.report(&sum, outlook))
    }

    /// Plans again once all plans are used. If jobs are due now, they go first.
    async fn plan_ahead(&mut self, outlook: Outlook) -> Result<(), DbError> {
        let next = self.ahead.filter(|(_, next)| next.now - outlook.now <= LOOK_AHEAD);
        let Some((at, _)) = next else {
            self.plans.stop_reading();
            return Ok(());
        };
        // Another way dispatched these fires, or their jobs changed.
        self.plans.take_due(outlook.now);
        if self.plans.is_empty() || self.plans.are_incomplete() {
            self.plans.read(&self.batches.scope, outlook.now, at).await?;
        }
        Ok(())
    }

    async fn dispatch_planned(&self, mut fires: Vec<PlannedFire>, sum: &mut Sum) -> Result<(), BoxError> {
        let due = i64::try_from(fires.len()).unwrap_or(i64::MAX);
        let lanes = self.lanes_for(due);
        let per_batch = usize::try_from(per_batch(due, lanes, self.batch_size)).unwrap_or(1);
        let share = fires.len().div_ceil(usize::try_from(lanes).unwrap_or(1));
        let mut running = Vec::new();
        while !fires.is_empty() {
            let rest = fires.split_off(share.min(fires.len()));
            let lane = ahead::run_lane(self.batches.scope.clone(), fires, per_batch);
            running.push(spawn_owned("planned_lane", lane));
            fires = rest;
        }
        for ended in join_all(running).await {
            let (dispatched, batches) = ended??;
            sum.add(&Sum { jobs: dispatched, batches, planned: dispatched, dispatched, ..Sum::default() });
        }
        Ok(())
    }

    fn lanes_for(&self, due: i64) -> i64 {
        (due / LEAST_PER_LANE).clamp(1, i64::from(self.lanes))
    }

    /// So that the tick knows the room of the due jobs. Planned fires need no count: a job that seems
    /// to have no room is left to the tick.
    async fn count_ends(&self) -> Result<(), DbError> {
        let mut conn = self.batches.scope.database.conn().await?;
        job_counters::count_and_notify(&mut conn).await.map(drop)
    }

    async fn read_outlook(&mut self) -> Result<Outlook, DbError> {
        let mut conn = self.batches.scope.database.conn().await?;
        let outlook = tick::outlook(&mut conn, self.batch_size * i64::from(self.lanes)).await?;
        // Counts from the arrival of the answer, so that the wait never ends early by the database
        // clock.
        let ahead = outlook.at_next_due().and_then(|then| {
            let wait = (then.now - outlook.now).to_std().ok()?;
            Some((monotonic().checked_add(wait)?, then))
        });
        self.ahead = ahead;
        Ok(self.show(outlook))
    }

    fn show(&self, outlook: Outlook) -> Outlook {
        metrics::gauge!("sched_due_jobs").set(f64::from(u32::try_from(outlook.due()).unwrap_or(u32::MAX)));
        let lag = outlook.next_due.map_or(0, |due| (outlook.now - due).num_milliseconds().max(0));
        let lag = Duration::from_millis(u64::try_from(lag).unwrap_or(0));
        metrics::gauge!("sched_due_lag_seconds").set(lag.as_secs_f64());
        self.seen.send_replace(Some(outlook));
        outlook
    }

    fn report(&self, sum: &Sum, outlook: Outlook) -> Report {
        let report = if sum.jobs == 0 && sum.disabled == 0 {
            Report::idle()
        } else {
            Report::worked(json!({
                "jobs": sum.jobs,
                "batches": sum.batches,
                "planned": sum.planned,
                "dispatched": sum.dispatched,
                "already_dispatched": sum.already_dispatched,
                "skipped": sum.skipped,
                "disabled": sum.disabled,
                "held_back": sum.held_back,
                "still_due": outlook.due(),
            }))
        };
        // Other transactions have locked the due jobs. An immediate retry would slow them down.
        let pause = if sum.jobs == 0 && outlook.due() > 0 { LOCKED_PAUSE * 20 } else { LOCKED_PAUSE };
        // Planning took a part of the time until the next job is due. The first run is early enough
        // to plan, the next one is at the due time.
        let until_due = match self.ahead {
            Some(_) if self.plans.are_incomplete() => Some(Duration::ZERO),
            Some((at, _)) => {
                let wait = at.saturating_duration_since(monotonic());
                // It is positive.
                let ahead = LOOK_AHEAD.to_std().unwrap_or_default();
                Some(if wait > ahead { wait - ahead } else { wait }.max(pause))
            }
            None => outlook.next_due.map(|due| (due - outlook.now).to_std().unwrap_or_default().max(pause)),
        };
        report.next_in(until_due.unwrap_or(self.poll_interval).min(self.poll_interval))
    }

    /// Uses as many lanes as the due jobs justify. If the database rejects a batch, jobs are taken
    /// one at a time after the other lanes have ended. This finds and disables the rejected job. If
    /// the database rejects every job, no job is disabled.
    async fn work_off(&self, due: i64, started: Instant, sum: &mut Sum) -> Result<(), BoxError> {
        let lanes = self.lanes_for(due);
        let per_batch = per_batch(due, lanes, self.batch_size);
        let lane = Lane { batches: self.batches.clone(), per_batch, started };
        let lanes = (0..lanes).map(|_| spawn_owned("dispatch_lane", lane.clone().run()));
        let mut refused = None;
        for ended in join_all(lanes).await {
            let (done, end) = ended?;
            sum.add(&done);
            match end {
                Ok(()) => {}
                Err(failed) if failed.is_of_the_batch() => refused = Some(failed),
                Err(failed) => return Err(failed.error.into()),
            }
        }
        match refused {
            Some(failed) => Ok(self.one_by_one(sum, &failed).await?),
            None => Ok(()),
        }
    }

    async fn one_by_one(&self, sum: &mut Sum, refused: &Failed) -> Result<(), DbError> {
        tracing::error!(
            error = refused.error.with_causes(),
            "A batch of due jobs was refused; taking them one at a time."
        );
        let mut conn = self.batches.scope.database.conn().await?;
        for _ in 0..self.batch_size {
            if self.batches.scope.stop.is_cancelled() {
                return Ok(());
            }
            match self.batches.run_batch(&mut conn, 1).await {
                Ok(None) => return Ok(()),
                Ok(Some(done)) => {
                    sum.count(&done);
                    notify(&mut conn, &done).await;
                }
                Err(failed) if failed.is_of_the_batch() => {
                    if !self.batches.accepts_another(&mut conn, &failed).await? {
                        tracing::error!("All dispatches are refused, so no job is disabled for it.");
                        return Err(failed.error);
                    }
                    self.batches.disable(&mut conn, &failed).await?;
                    sum.disabled += 1;
                }
                Err(failed) => return Err(failed.error),
            }
        }
        Ok(())
    }
}

/// Number of jobs per batch for `due` jobs and `lanes` lanes.
///
/// A single lane takes all jobs due when it locks them, even more than `due`: a limit would
/// dispatch jobs that become due one after the other in separate transactions, with growing delay.
fn per_batch(due: i64, lanes: i64, most: i64) -> i64 {
    if lanes == 1 {
        return most;
    }
    let share = due.div_euclid(lanes);
    // No job is left over.
    let share = if share * lanes < due { share + 1 } else { share };
    share.clamp(1, most)
}

/// Runs batches one after the other on one connection.
#[derive(Debug, Clone)]
struct Lane {
    batches: Batches,
    /// Maximum number of jobs per transaction.
    per_batch: i64,
    /// Start of the run of the task, not of the lane.
    started: Instant,
}

impl Lane {
    /// Until a batch is not full or the time is over.
    async fn run(self) -> (Sum, Result<(), Failed>) {
        let mut sum = Sum::default();
        let end = self.run_into(&mut sum).await;
        (sum, end)
    }

    async fn run_into(&self, sum: &mut Sum) -> Result<(), Failed> {
        let Self { batches, per_batch, started } = self;
        let conn = batches.scope.database.conn().await;
        let mut conn = conn.map_err(|error| Failed { error, first: None })?;
        loop {
            let Some(done) = batches.run_batch(&mut conn, *per_batch).await? else { return Ok(()) };
            sum.count(&done);
            // Workers need not wait for the whole burst.
            notify(&mut conn, &done).await;
            let is_full = i64::try_from(done.jobs.len()).unwrap_or(i64::MAX) >= *per_batch
                || done.batch.dispatches.len() >= MAX_DISPATCHES;
            if !is_full || started.elapsed() > RUN_FOR || batches.scope.stop.is_cancelled() {
                return Ok(());
            }
        }
    }
}

/// Notifies workers of new runs and of attempts to stop.
async fn notify(conn: &mut Conn, done: &Done) {
    let queues: BTreeSet<&String> = done.batch.dispatches.iter().map(|dispatch| &dispatch.queue).collect();
    let queues: Vec<String> = queues.into_iter().cloned().collect();
    notify_workers(conn, &queues).await;
    if let Err(error) = notify::cancellations(conn, &done.written.cancelled_on).await {
        tracing::debug!(
            error = error.with_causes(),
            "Notifying workers of cancelled work failed; they read it with their next heartbeat."
        );
    }
}

#[cfg(test)]
mod tests {
    use super::per_batch;

    #[test]
    fn one_lane_takes_whatever_is_due_and_several_share_what_was_seen() {
        assert_eq!(per_batch(1, 1, 500), 500, "more may have come due");
        assert_eq!(per_batch(199, 1, 500), 500);
        assert_eq!(per_batch(200, 2, 500), 100);
        assert_eq!(per_batch(301, 3, 500), 101, "none is left over");
        assert_eq!(per_batch(9_000, 4, 500), 500);
    }
}

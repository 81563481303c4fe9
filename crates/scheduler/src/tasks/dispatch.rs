//! The tick: the leader dispatches due fires.
//!
//! Batches ([`super::batch`]) follow each other until one is not full, and continue if more jobs
//! have become due. In a burst several lanes run at once, each with its own connection and task, so
//! that one plans while the others write. Lanes lock different jobs; each transaction is fenced by
//! the same term. Each batch notifies each affected queue once, outside the transaction, because a
//! notification takes a lock that serialises commits. A lost notification costs only latency, also
//! if the process dies after the commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sched_model::dispatching::tick::{self, Outlook};
use sched_model::{Conn, DbError, connection::notify};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::{BoxError, spawn_owned};
use serde_json::json;
use tokio::sync::watch;

use super::batch::{Batches, Done, Failed};
use super::{notify_workers, within};
use crate::plan::MAX_DISPATCHES;

/// Committed batches stay.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// After this time the task starts again at once, so that a long burst still reports success.
const RUN_FOR: Duration = Duration::from_secs(3);
/// For due jobs that another transaction has locked.
const LOCKED_PAUSE: Duration = Duration::from_millis(5);
/// With fewer due jobs per lane, a second lane does not pay off.
const LEAST_PER_LANE: i64 = 100;

#[derive(Debug)]
pub struct Dispatch {
    pub batches: Batches,
    /// Jobs per transaction.
    pub batch_size: i64,
    /// Transactions at once.
    pub lanes: u32,
    /// Maximum sleep; shorter if a job is due earlier.
    pub poll_interval: Duration,
    pub seen: Arc<watch::Sender<Option<Outlook>>>,
    /// The expected outlook at the next due time, and that time on the monotonic clock, never too
    /// early.
    pub ahead: Option<(Instant, Outlook)>,
}

impl Activation for Dispatch {
    fn name(&self) -> &'static str {
        "dispatch"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

#[derive(Debug, Default)]
struct Sum {
    jobs: usize,
    batches: usize,
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
        while outlook.due() > 0 {
            let before = sum.jobs;
            self.work_off(outlook.due(), started, &mut sum).await?;
            outlook = self.read_outlook().await?;
            // Dispatches jobs that have become due meanwhile. If the pass took no job, other
            // transactions have locked all of them, and a pause follows.
            if sum.jobs == before || started.elapsed() > RUN_FOR || self.batches.scope.stop.is_cancelled() {
                break;
            }
        }
        Ok(self.report(&sum, outlook))
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
        let until_due =
            outlook.next_due.map(|due| (due - outlook.now).to_std().unwrap_or_default().max(pause));
        report.next_in(until_due.unwrap_or(self.poll_interval).min(self.poll_interval))
    }

    /// Uses as many lanes as the due jobs justify. If the database rejects a batch, jobs are taken
    /// one at a time after the other lanes have ended. This finds and disables the rejected job. If
    /// the database rejects every job, no job is disabled.
    async fn work_off(&self, due: i64, started: Instant, sum: &mut Sum) -> Result<(), BoxError> {
        let lanes = (due / LEAST_PER_LANE).clamp(1, i64::from(self.lanes));
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
                    if !self.batches.accepts_another(&mut conn).await? {
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

/// Uses one connection.
#[derive(Debug, Clone)]
struct Lane {
    batches: Batches,
    /// Jobs per transaction.
    per_batch: i64,
    /// Of the task, not of the lane.
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

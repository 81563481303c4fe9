//! A burst: the jobs of `bench.due` come due at one instant, and the running leader dispatches them.
//!
//! What is read afterwards is what the database wrote: the commit timestamp of each dispatch's transaction. PostgreSQL takes that
//! just before it flushes the commit to disk, so the flush of a commit of that size, measured on the same server in the same
//! run, is added to the last one ([`Flush`]).
//!
//! Emptying and vacuuming tables makes every session forget its plans. In an installation jobs fire all the time; here those of
//! [`WARM`] do, a second before, so that the leader plans its statements for them. (pgbench's first transaction does not count either.)

use std::time::Duration;

use anyhow::{Context, ensure};

use crate::daemon::Scheduler;
use crate::figures::median;
use crate::sql::{Db, Micros, SECOND, fill, instant, micros};

/// Jobs of one transaction, by the scheduler's default settings and in pgbench's script.
pub(crate) const BATCH: usize = 1_000;

/// The names of jobs that fire before the burst begin with this; there need not be any.
pub(crate) const WARM: &str = "warm";

/// How long the commit of one batch takes to reach the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flush(pub(crate) f64);

impl Flush {
    /// Measures commits of about as many bytes of log as a batch writes, `rows` of a kilobyte each.
    pub(crate) async fn measure(db: &Db, rows: usize) -> anyhow::Result<Self> {
        let mut seconds = Vec::new();
        for _ in 0..9 {
            db.run(&format!(
                "BEGIN; INSERT INTO bench.scratch SELECT repeat('x', 1000) FROM generate_series(1, {rows})"
            ))
            .await?;
            let started = sched_runtime::monotonic_clock::monotonic();
            db.run("COMMIT").await?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        db.run("TRUNCATE bench.scratch").await?;
        Ok(Self(median(&seconds)))
    }
}

/// A burst that was dispatched.
pub(crate) struct Burst {
    /// When the jobs came due.
    pub(crate) due: Micros,
    /// Seconds from then until the last dispatch was committed and on disk.
    pub(crate) wall: f64,
    /// Rows per second of the tick transactions alone, by the scheduler's own measure.
    pub(crate) tick_rate: f64,
}

/// Whether what earlier bursts dispatched goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// All dispatches are removed: the table is empty.
    Empty,
    /// Those of earlier bursts are removed, the history stays.
    KeepHistory,
}

/// Removes what earlier bursts left behind.
pub(crate) async fn clear(db: &Db, earlier: Earlier) -> anyhow::Result<()> {
    match earlier {
        Earlier::Empty => db.run("TRUNCATE job_dispatch, skipped_fires CASCADE").await?,
        Earlier::KeepHistory => {
            // Only what waits: the history is finished.
            db.run("DELETE FROM job_dispatch WHERE claimable_at IS NOT NULL").await?;
            db.run("VACUUM job_dispatch").await?;
        }
    }
    Ok(())
}

/// Sets the cursors of the chosen jobs to `due`, and vacuums what that has left behind.
pub(crate) async fn arm(db: &Db, due: Micros) -> anyhow::Result<()> {
    db.run(&fill(include_str!("../sql/arm.sql"), &[("due", &instant(due))])).await?;
    db.run("VACUUM scheduled_jobs").await
}

/// Arms the chosen jobs and lets the leader dispatch them.
pub(crate) async fn run(
    db: &Db,
    scheduler: &Scheduler,
    flush: Flush,
    earlier: Earlier,
) -> anyhow::Result<Burst> {
    clear(db, earlier).await?;
    let due = arm_in_time(db).await?;
    let jobs = db.count("SELECT count(*) FROM bench.due").await?;
    // Late, so that few of the looks that find nothing count.
    db.wait_until(due - SECOND / 4).await?;
    let before = scheduler.tick_seconds().await?;
    db.wait_until(due + SECOND).await?;
    let open = format!(
        "SELECT (NOT EXISTS (SELECT FROM bench.due JOIN scheduled_jobs USING (tenant_id, id) WHERE next_run_at <= {}))::int",
        instant(due)
    );
    db.wait_count(&open, 1, Duration::from_secs(1), Duration::from_secs(300)).await?;
    let after = scheduler.tick_seconds().await?;
    let last = db
        .rows(&format!(
            "SELECT count(*), {} FROM bench.due AS d
             JOIN job_dispatch AS x ON x.job_id = d.id AND x.scheduled_for = {} AND x.trigger_id IS NULL",
            micros("max(pg_xact_commit_timestamp(x.xmin))"),
            instant(due)
        ))
        .await?;
    let [found, last] = last.first().context("one row")?.as_slice() else {
        anyhow::bail!("two columns were asked for");
    };
    ensure!(found.parse() == Ok(jobs), "{found} of {jobs} jobs were dispatched");
    let last: Micros = last.parse().context("commits have no timestamps")?;
    let (wall, jobs) = ((last - due) as f64 / 1e6 + flush.0, jobs as f64);
    Ok(Burst { due, wall, tick_rate: jobs / (after.0 - before.0) })
}

/// Arms for an instant that is still ahead when everything is done, by more than the leader's poll interval.
async fn arm_in_time(db: &Db) -> anyhow::Result<Micros> {
    for lead in [4, 8, 16, 32, 64, 128] {
        let due = (db.now().await? / SECOND + lead) * SECOND;
        db.run(&fill(include_str!("../sql/warm.sql"), &[("warm", WARM), ("due", &instant(due - SECOND))]))
            .await?;
        arm(db, due).await?;
        if due - db.now().await? > 2 * SECOND {
            return Ok(due);
        }
        // Some may have been dispatched already; they are armed anew.
        clear(db, Earlier::KeepHistory).await?;
    }
    anyhow::bail!("making the jobs due takes longer than two minutes")
}

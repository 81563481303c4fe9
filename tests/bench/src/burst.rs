//! A burst: the jobs of `bench.due` become due at one instant, and the leader dispatches them.
//!
//! The result uses the commit timestamps. PostgreSQL takes them right before it flushes the commit
//! to disk, so the time of a flush on the same server is added ([`Flush`]).
//!
//! Truncating and vacuuming tables invalidates the plans of every session. The jobs of [`WARM`]
//! fire a second earlier, so that the leader plans its statements again. (The first transaction of
//! pgbench does not count either.)

use std::time::Duration;

use anyhow::{Context, ensure};

use crate::daemon::Scheduler;
use crate::figures::median;
use crate::sql::{Db, Micros, Polling, SECOND, fill, instant, micros};

/// Jobs per transaction: the default of the scheduler, also for pgbench.
pub(crate) const BATCH: usize = 1_000;

pub(crate) const WARM: &str = "warm";

/// Seconds until the commit of one batch is on disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flush(pub(crate) f64);

impl Flush {
    /// Measures commits with the WAL of a batch: `rows` rows of a kilobyte each.
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

pub(crate) struct Burst {
    pub(crate) due: Micros,
    /// Seconds from the due time until the last dispatch is on disk.
    pub(crate) wall: f64,
    /// Rows per second of the tick transactions alone, by the scheduler's metrics.
    pub(crate) tick_rate: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    Empty,
    /// The history stays.
    KeepHistory,
}

pub(crate) async fn clear(db: &Db, earlier: Earlier) -> anyhow::Result<()> {
    match earlier {
        Earlier::Empty => db.run("TRUNCATE job_dispatch, skipped_fires CASCADE").await?,
        Earlier::KeepHistory => {
            // Only waiting dispatches: the history is finished.
            db.run("DELETE FROM job_dispatch WHERE claimable_at IS NOT NULL").await?;
            db.run("VACUUM job_dispatch").await?;
        }
    }
    Ok(())
}

/// Sets the cursors of the chosen jobs to `due`, and vacuums.
pub(crate) async fn arm(db: &Db, due: Micros) -> anyhow::Result<()> {
    db.run(&fill(include_str!("../sql/arm.sql"), &[("due", &instant(due))])).await?;
    db.run("VACUUM scheduled_jobs").await
}

pub(crate) async fn run(
    db: &Db,
    scheduler: &Scheduler,
    flush: Flush,
    earlier: Earlier,
) -> anyhow::Result<Burst> {
    clear(db, earlier).await?;
    let due = arm_in_time(db).await?;
    let jobs = db.count("SELECT count(*) FROM bench.due").await?;
    // Shortly before the due time, so that few empty ticks count.
    db.wait_until(due - SECOND / 4).await?;
    let before = scheduler.tick_seconds().await?;
    db.wait_until(due + SECOND).await?;
    let open = format!(
        "SELECT (NOT EXISTS (SELECT FROM bench.due JOIN scheduled_jobs USING (tenant_id, id) WHERE next_run_at <= {}))::int",
        instant(due)
    );
    db.wait_count(&open, 1, Polling { step: Duration::from_secs(1), limit: Duration::from_secs(300) })
        .await?;
    let after = scheduler.tick_seconds().await?;
    let last = db
        .rows(&format!(
            "SELECT count(*), {} FROM bench.due AS d
             JOIN job_dispatch AS x ON x.job_id = d.id AND x.scheduled_for = {} AND x.trigger_id IS NULL",
            micros("max(pg_xact_commit_timestamp(x.xmin))"),
            instant(due)
        ))
        .await?;
    let [found, last] = last.first().context("the query has no row")?.as_slice() else {
        anyhow::bail!("the query has two columns");
    };
    ensure!(found.parse() == Ok(jobs), "{found} of {jobs} jobs were dispatched");
    let last: Micros = last.parse().context("commits have no timestamps")?;
    let (wall, jobs) = ((last - due) as f64 / 1e6 + flush.0, jobs as f64);
    Ok(Burst { due, wall, tick_rate: jobs / (after.0 - before.0) })
}

/// Arms the jobs for an instant that is then more than a poll interval ahead.
async fn arm_in_time(db: &Db) -> anyhow::Result<Micros> {
    for lead in [4, 8, 16, 32, 64, 128] {
        let due = (db.now().await? / SECOND + lead) * SECOND;
        db.run(&fill(include_str!("../sql/warm.sql"), &[("warm", WARM), ("due", &instant(due - SECOND))]))
            .await?;
        arm(db, due).await?;
        if due - db.now().await? > 2 * SECOND {
            return Ok(due);
        }
        // Some jobs may have been dispatched already.
        clear(db, Earlier::KeepHistory).await?;
    }
    anyhow::bail!("arming the jobs takes longer than two minutes")
}

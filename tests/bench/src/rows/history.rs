//! The rate of a burst with many unrelated rows in the tables, against the same jobs in empty
//! tables.
//!
//! Two databases on one server, each with a leader. The first has only the jobs of the burst. The
//! second has a hundred times as many jobs that are not due, and ten finished dispatches of every
//! job. The bursts alternate. For the plot, the row also measures with one finished dispatch of
//! every job. Two further measurements have no bar. The first is a burst right after the start and
//! a checkpoint: nothing is in memory, and the first change of every page logs the whole page. In
//! the second, the due jobs are spread over all pages of the table.

use anyhow::Context;

use super::{Bench, rate};
use crate::burst::{self, Earlier, Flush};
use crate::curves::{Curve, Shown};
use crate::daemon::{self, Scheduler};
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::seed::{self, Jobs};
use crate::sql::Db;

const EACH: usize = 10;

struct Side {
    db: Db,
    scheduler: Scheduler,
    flush: Flush,
    earlier: Earlier,
}

impl Side {
    /// Rows per second of one burst.
    async fn rate(&self) -> anyhow::Result<f64> {
        let jobs = self.db.number("SELECT count(*) FROM bench.due").await?;
        let burst = burst::run(&self.db, &self.scheduler, self.flush, self.earlier).await?;
        Ok(jobs / burst.wall)
    }
}

/// The rate with the first part of the history, and the number of its rows. Stops the leader.
async fn with_some(bench: &Bench<'_>, db: Db, flush: Flush) -> anyhow::Result<((f64, f64), Db)> {
    let finished = db.number("SELECT count(*) FROM job_dispatch").await?;
    let scheduler = daemon::start_leading(&db).await?;
    let side = Side { db, scheduler, flush, earlier: Earlier::KeepHistory };
    side.rate().await.context("the warm-up burst failed")?;
    let mut rates = Vec::new();
    for _ in 0..bench.scale.pick(3, 1) {
        rates.push(side.rate().await?);
    }
    side.scheduler.stop().await;
    Ok(((finished, median(&rates)), side.db))
}

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let jobs = bench.scale.pick(10_000, 2_000);
    let (db, scheduler, flush) = rate::prepare(bench, jobs).await?;
    let empty = Side { db, scheduler, flush, earlier: Earlier::Empty };

    let db = bench.workspace.second_database().await?;
    rate::due_jobs(&db, jobs).await?;
    seed::jobs(&db, &Jobs { count: bench.scale.pick(1_000_000, 10_000), ..Jobs::default() }).await?;
    seed::history(&db, EACH..=EACH).await.context("failed to create the first part of the history")?;
    let (some, db) = with_some(bench, db, flush).await?;
    seed::history(&db, 1..=EACH - 1).await.context("failed to create the history")?;
    let finished = db.number("SELECT count(*) FROM job_dispatch").await?;
    let size = db.number("SELECT pg_database_size(current_database()) / 1e9").await?;
    let scheduler = daemon::start_leading(&db).await?;
    let full = Side { db, scheduler, flush, earlier: Earlier::KeepHistory };

    let first = full.rate().await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.repetitions() {
        without.push(empty.rate().await?);
        with.push(full.rate().await?);
    }
    seed::choose_scattered(&full.db, jobs).await?;
    full.rate().await.context("the warm-up burst failed")?;
    let mut scattered = Vec::new();
    for _ in 0..bench.scale.repetitions() {
        scattered.push(full.rate().await?);
    }
    empty.scheduler.stop().await;
    full.scheduler.stop().await;

    let reference_rate = median(&without);
    let reference = Reference::value("the same jobs in empty tables, same run", reference_rate);
    let figure = Figure::new(
        "dispatch_rate_with_history",
        "rows/s",
        &with,
        Goal { reference, bar: Bar::RatioAtLeast(0.8) },
    )
    .also("the first burst, after a cold start and a checkpoint", first, "rows/s")
    .also("due jobs spread over the whole table", median(&scattered), "rows/s")
    .also("finished dispatches", finished, "rows")
    .also("size of the database", size, "GB")
    .curve(Curve::through(
        Shown::History,
        "dispatch",
        &[(0.0, reference_rate), some, (finished, median(&with))],
    ));
    Ok(vec![figure])
}

//! The rate of a burst with much in the tables that has nothing to do with it, against the same jobs in empty tables.
//!
//! First the burst is measured with nothing else in the database; then a hundred times as many jobs that are not due are added, and ten
//! finished dispatches for every job, the due ones included; then it is measured again. The due jobs lie where they lay. Beside it,
//! without a bar: the burst right after a checkpoint, when the first touch of every page is logged whole; and other due jobs that
//! are strewn over all pages of the table, each of which must then be read and written for one job.

use anyhow::Context;

use super::{Bench, rate};
use crate::burst::{self, Earlier, Flush};
use crate::daemon::{self, Scheduler};
use crate::figures::{Bar, Figure, Reference, median};
use crate::seed::{self, Jobs};
use crate::sql::Db;

/// Finished dispatches of each job.
const EACH: usize = 10;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let jobs = bench.scale.pick(10_000, 2_000);
    let others = bench.scale.pick(1_000_000, 10_000);
    let (db, scheduler, flush) = rate::prepare(bench, jobs).await?;
    let empty = rates(bench, &db, &scheduler, flush, Earlier::Empty).await?;
    scheduler.stop().await;

    seed::jobs(&db, &Jobs { count: others, ..Jobs::default() }).await?;
    burst::clear(&db, Earlier::Empty).await?;
    seed::history(&db, EACH).await.context("failed to make the history")?;
    let finished = db.number("SELECT count(*) FROM job_dispatch").await?;
    let size = db.number("SELECT pg_database_size(current_database()) / 1e9").await?;

    let scheduler = daemon::start_leading(&db).await?;
    let first = burst::run(&db, &scheduler, flush, Earlier::KeepHistory).await?;
    let full = rates(bench, &db, &scheduler, flush, Earlier::KeepHistory).await?;
    seed::choose_scattered(&db, jobs).await?;
    burst::run(&db, &scheduler, flush, Earlier::KeepHistory).await.context("the burst to warm up failed")?;
    let scattered = rates(bench, &db, &scheduler, flush, Earlier::KeepHistory).await?;
    scheduler.stop().await;

    let reference = Reference::value("the same jobs in empty tables, same run", median(&empty));
    let figure =
        Figure::new("dispatch_rate_with_history", "rows/s", &full, reference, Bar::RatioAtLeast(0.8))
            .also(
                "the first burst, with a cold start and right after a checkpoint",
                jobs as f64 / first.wall,
                "rows/s",
            )
            .also("due jobs strewn over the whole table", median(&scattered), "rows/s")
            .also("finished dispatches", finished, "rows")
            .also("size of the database", size, "GB");
    Ok(vec![figure])
}

async fn rates(
    bench: &Bench<'_>,
    db: &Db,
    scheduler: &Scheduler,
    flush: Flush,
    earlier: Earlier,
) -> anyhow::Result<Vec<f64>> {
    let jobs = db.number("SELECT count(*) FROM bench.due").await?;
    let mut rates = Vec::new();
    for _ in 0..bench.scale.repetitions() {
        rates.push(jobs / burst::run(db, scheduler, flush, earlier).await?.wall);
    }
    Ok(rates)
}

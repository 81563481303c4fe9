//! The dispatch rate of a burst, against pgbench with hand-written statements.
//!
//! The scheduler has one connection for dispatching, like pgbench. Its rate is the number of rows
//! over the time from the due instant to the last commit on disk, including wake-up, decisions and
//! notifications. The rate of pgbench is rows over the time of its transactions. Repetitions
//! alternate.

use anyhow::Context;

use super::Bench;
use crate::burst::{self, BATCH, Earlier, Flush};
use crate::daemon::{self, Scheduler};
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::limit::{self, Script};
use crate::seed::{self, Jobs};
use crate::sql::Db;

/// Jobs before each burst: enough that the leader uses all of its connections.
const WARM: usize = 400;

/// Fills a database with jobs for bursts, and starts a leader that has dispatched them once.
pub(super) async fn prepare(bench: &Bench<'_>, jobs: usize) -> anyhow::Result<(Db, Scheduler, Flush)> {
    let db = bench.workspace.database().await?;
    due_jobs(&db, jobs).await?;
    let flush = Flush::measure(&db, jobs.min(BATCH)).await?;
    let scheduler = daemon::start_leading(&db).await?;
    burst::run(&db, &scheduler, flush, Earlier::Empty).await.context("the warm-up burst failed")?;
    Ok((db, scheduler, flush))
}

pub(super) async fn due_jobs(db: &Db, jobs: usize) -> anyhow::Result<()> {
    seed::tenants(db, 1).await?;
    seed::jobs(db, &Jobs { prefix: "due", count: jobs, ..Jobs::default() }).await?;
    seed::jobs(db, &Jobs { prefix: burst::WARM, count: WARM, ..Jobs::default() }).await?;
    seed::choose_due(db, "due-").await?;
    seed::settle(db).await
}

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let jobs = bench.scale.pick(10_000, 3_000);
    let (db, scheduler, flush) = prepare(bench, jobs).await?;
    let mut defaults = Vec::new();
    for _ in 0..bench.scale.repetitions() {
        let burst = burst::run(&db, &scheduler, flush, Earlier::Empty).await?;
        defaults.push(jobs as f64 / burst.wall);
    }
    scheduler.stop().await;
    // pgbench has one connection.
    let scheduler = daemon::start_leading_alone(&db).await?;
    let (mut ours, mut ticks, mut by_hand, mut one) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.scale.repetitions() {
        let burst = burst::run(&db, &scheduler, flush, Earlier::Empty).await?;
        ours.push(jobs as f64 / burst.wall);
        ticks.push(burst.tick_rate);
        by_hand.push(limit::run(bench.workspace, &db, Script::ByHand, bench.into).await?);
        one.push(limit::run(bench.workspace, &db, Script::OneStatement, bench.into).await?);
    }
    scheduler.stop().await;
    let reference =
        Reference::value("pgbench, hand-written SELECT, INSERT, UPDATE, same run", median(&by_hand));
    let figure =
        Figure::new("dispatch_rate", "rows/s", &ours, Goal { reference, bar: Bar::RatioAtLeast(0.7) })
            .also("with its default of two connections", median(&defaults), "rows/s")
            .also("tick transactions alone, by the scheduler's metrics", median(&ticks), "rows/s")
            .also("pgbench, one statement", median(&one), "rows/s")
            .also("added for the flush of the last commit", flush.0 * 1e3, "ms");
    Ok(vec![figure])
}

//! The drain with 10 million finished dispatches and their attempts, against the same backlog in
//! empty tables.
//!
//! Two databases on one server. The second also has a hundred times as many jobs, and ten finished
//! dispatches of every job with their attempts. Drains alternate.

use anyhow::Context;

use super::backlog::{self, Earlier, Function};
use super::hosted::{Program, TUNED};
use crate::curves::{Curve, Shown};
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;
use crate::seed::{self, Jobs};

const EACH: usize = 10;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(200_000, 60_000);
    let empty = bench.workspace.database().await?;
    backlog::prepare(&empty, Function::NOOP).await?;
    let full = bench.workspace.second_database().await?;
    backlog::prepare(&full, Function::NOOP).await?;
    seed::jobs(&full, &Jobs { count: bench.scale.pick(990_000, 10_000), ..Jobs::default() }).await?;
    seed::history(&full, 1..=EACH).await.context("failed to create the history")?;
    full.run(include_str!("../../sql/log.sql")).await.context("failed to create the log")?;
    full.run("VACUUM ANALYZE job_execution_log").await?;
    full.run("CHECKPOINT").await?;
    let finished = full.number("SELECT count(*) FROM job_dispatch").await?;
    let size = full.number("SELECT pg_database_size(current_database()) / 1e9").await?;

    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.pick(5, 1) {
        backlog::fill_with(&empty, count, Earlier::Nothing).await?;
        without.push(backlog::drain(&empty, count, Program::Native, &TUNED).await?);
        // Without a mark the first time: all rows are older than the measurement.
        backlog::fill_with(&full, count, Earlier::History).await?;
        with.push(backlog::drain(&full, count, Program::Native, &TUNED).await?);
    }
    let reference = Reference::value("the same backlog in empty tables, same run", median(&without));
    let figure =
        Figure::new("drain_with_history", "1/s", &with, Goal { reference, bar: Bar::RatioAtLeast(0.85) })
            .also("finished dispatches", finished, "rows")
            .also("size of the database", size, "GB")
            .curve(Curve::through(
                Shown::History,
                "drain",
                &[(0.0, median(&without)), (finished, median(&with))],
            ));
    Ok(vec![figure])
}

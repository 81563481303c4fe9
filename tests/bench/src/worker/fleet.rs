//! Throughput of several worker processes that drain a backlog of no-op dispatches, against one.
//!
//! The workers are tuned as in the drain by one worker, and start together. On a machine with few
//! cores, more processes cannot be faster. The bar requires that they are not much slower.

use super::backlog::{self, Earlier, Function, Workers};
use super::hosted::{Program, TUNED};
use crate::curves::{Curve, Shown};
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;

const SIZES: [u32; 4] = [1, 2, 4, 8];

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(200_000, 60_000);
    let db = bench.workspace.database().await?;
    backlog::prepare(&db, Function::NOOP).await?;
    let mut rates = SIZES.map(|size| (size, Vec::new()));
    for _ in 0..bench.scale.pick(5, 1) {
        for (size, runs) in &mut rates {
            backlog::fill_with(&db, count, Earlier::Nothing).await?;
            let workers = Workers { number: *size, program: Program::Native, settings: &TUNED };
            runs.push(backlog::drain_by(&db, count, workers).await?);
        }
    }
    let points = rates.each_ref().map(|(size, runs)| (f64::from(*size), median(runs)));
    let [(_, one), middle @ .., (most, all)] = rates;
    let reference = Reference::value("the drain by 1 worker, same run", median(&one));
    let mut figure = Figure::new(
        &format!("drain_by_{most}_workers"),
        "1/s",
        &all,
        Goal { reference, bar: Bar::RatioAtLeast(0.9) },
    )
    .curve(Curve::through(Shown::Workers, "drain", &points));
    for (size, runs) in &middle {
        figure = figure.also(format!("by {size} workers"), median(runs), "1/s");
    }
    Ok(vec![figure])
}

//! How fast several worker processes drain a backlog of no-op dispatches, against one: what they cost each other.
//!
//! Each is the standard worker with one native handler more, tuned as for the drain by one. All are started at once, and the time counts from just before that, as
//! it does for one. On a machine with few cores more processes cannot be faster; that they are not much slower is the bar.

use super::backlog::{self, Earlier, Function};
use super::hosted::{Program, TUNED};
use crate::curves::{Curve, Shown};
use crate::figures::{Bar, Figure, Reference, median};
use crate::rows::Bench;

/// How many workers there are, one size after the other.
const SIZES: [u32; 4] = [1, 2, 4, 8];

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(200_000, 60_000);
    let db = bench.place.database().await?;
    backlog::prepare(&db, Function::NOOP).await?;
    let mut rates = SIZES.map(|size| (size, Vec::new()));
    for _ in 0..bench.scale.pick(5, 1) {
        for (size, runs) in &mut rates {
            backlog::fill_with(&db, count, Earlier::Nothing).await?;
            runs.push(backlog::drain_by(&db, count, *size, Program::Native, &TUNED).await?);
        }
    }
    let points = rates.each_ref().map(|(size, runs)| (f64::from(*size), median(runs)));
    let [(_, one), middle @ .., (most, all)] = rates;
    let reference = Reference::value("the drain by 1 worker, same run", median(&one));
    let mut figure =
        Figure::new(&format!("drain_by_{most}_workers"), "1/s", &all, reference, Bar::RatioAtLeast(0.8))
            .curve(Curve::through(Shown::Workers, "drain", &points));
    for (size, runs) in &middle {
        figure = figure.also(format!("by {size} workers"), median(runs), "1/s");
    }
    Ok(vec![figure])
}

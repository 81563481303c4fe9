//! Time from the due instant to the commit of the last dispatch, for 1,000 and 10,000 jobs due at
//! one second.

use super::{Bench, rate};
use crate::burst::{self, Earlier};
use crate::figures::{Bar, Figure, Goal, Reference};

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let small =
        Reference::value("graphile-worker 0.18.0, first start after 1,000 due (docs/benchmarks.md)", 352.0);
    let large =
        Reference::value("graphile-worker 0.18.0, first start after 10,000 due (docs/benchmarks.md)", 4772.0);
    let mut figures = Vec::new();
    for (name, jobs, reference, bar) in [
        ("wall_1000", bench.scale.pick(1_000, 100), small, 50.0),
        ("wall_10000", bench.scale.pick(10_000, 1_000), large, 500.0),
    ] {
        let (db, scheduler, flush) = rate::prepare(bench, jobs).await?;
        let mut runs = Vec::new();
        for _ in 0..bench.scale.repetitions() {
            runs.push(burst::run(&db, &scheduler, flush, Earlier::Empty).await?.wall * 1e3);
        }
        scheduler.stop().await;
        let figure = Figure::new(name, "ms", &runs, Goal { reference, bar: Bar::AtMost(bar) }).also(
            "of it for the flush of the last commit",
            flush.0 * 1e3,
            "ms",
        );
        figures.push(figure);
    }
    Ok(figures)
}

//! Programs per second in ten slots, against a bare loop that starts the same program and waits for
//! it, ten at a time.
//!
//! The standard worker drains dispatches that run `/bin/true`. The loop only starts the program
//! through the same interface of tokio and waits. Repetitions alternate.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::ensure;
use futures_util::future::try_join_all;
use tokio::process::Command;

use super::backlog::{self, Earlier, Function};
use super::hosted::Program;
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;

/// The default of the worker.
const SLOTS: usize = 10;
const TRUE: &str = "/bin/true";

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(10_000, 1_000);
    let db = bench.workspace.database().await?;
    backlog::prepare(&db, Function { handler_type: "process", config: r#"{"program": "/bin/true"}"# })
        .await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.pick(5, 1) {
        backlog::fill_with(&db, count, Earlier::Nothing).await?;
        ours.push(backlog::drain(&db, count, Program::Standard, &[]).await?);
        bare.push(loop_bare(count).await?);
    }
    let reference = Reference::value("start and wait, ten at once, same run", median(&bare));
    Ok(vec![Figure::new("process", "1/s", &ours, Goal { reference, bar: Bar::RatioAtLeast(0.6) })])
}

async fn loop_bare(count: usize) -> anyhow::Result<f64> {
    let left = AtomicUsize::new(count);
    let started = sched_runtime::monotonic_clock::monotonic();
    try_join_all((0..SLOTS).map(|_| async {
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            let status = Command::new(TRUE)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .await?;
            ensure!(status.success(), "{TRUE} ended with {status}");
        }
        Ok(())
    }))
    .await?;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

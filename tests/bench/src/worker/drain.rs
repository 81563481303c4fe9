//! Throughput of one worker that drains 200,000 no-op dispatches, against pgbench with the same
//! statements.
//!
//! The standard worker has an additional native handler that does nothing. It writes history,
//! counters and events as always. pgbench executes the claim and completion over the same number of
//! connections with the same batch size. Repetitions alternate. The tuned worker has more slots and
//! logs no line per attempt. With `--peers`, graphile-worker and pg-boss drain their own backlogs
//! in the same run.

use super::backlog::{self, Earlier, Function};
use super::hosted::{Program, TUNED};
use super::peers::{Load, Peers, Task};
use super::reference;
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;

pub(super) async fn measure(bench: &Bench<'_>, peers: Option<&Peers>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(200_000, 60_000);
    let db = bench.workspace.database().await?;
    backlog::prepare(&db, Function::NOOP).await?;
    let (mut tuned, mut limit, mut default) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.scale.pick(5, 2) {
        backlog::fill_with(&db, count, Earlier::Nothing).await?;
        tuned.push(backlog::drain(&db, count, Program::Native, &TUNED).await?);
        backlog::fill_with(&db, count, Earlier::Nothing).await?;
        limit.push(reference::drain(bench.workspace, &db, count, bench.into).await?);
    }
    for _ in 0..bench.scale.pick(3, 1) {
        backlog::fill_with(&db, count, Earlier::Nothing).await?;
        default.push(backlog::drain(&db, count, Program::Native, &[]).await?);
    }
    let what = format!(
        "pgbench, the same statements, batches of {} over {} connections, same run",
        reference::BATCH,
        reference::CONNECTIONS
    );
    let mut figures = vec![Figure::new(
        "drain",
        "1/s",
        &tuned,
        Goal { reference: Reference::value(what, median(&limit)), bar: Bar::RatioAtLeast(0.7) },
    )];
    match peers {
        Some(peers) => {
            let runs = bench.scale.pick(3, 1);
            let of = async |task, count| peers.drain(bench.workspace, Load { task, count }, runs).await;
            let boss = of(Task::PgBoss("tuned"), bench.scale.pick(100_000, 10_000)).await?;
            let graphile = of(Task::Graphile("tuned"), bench.scale.pick(100_000, 10_000)).await?;
            let graphile_default = of(Task::Graphile("default"), bench.scale.pick(20_000, 2_000)).await?;
            figures.push(Figure::new(
                "drain_vs_pg_boss",
                "1/s",
                &tuned,
                Goal { reference: boss, bar: Bar::RatioAtLeast(0.6) },
            ));
            figures.push(Figure::new(
                "drain_vs_graphile_worker",
                "1/s",
                &tuned,
                Goal { reference: graphile, bar: Bar::RatioAtLeast(1.0) },
            ));
            figures.push(Figure::new(
                "drain_default_vs_graphile_worker",
                "1/s",
                &default,
                Goal { reference: graphile_default, bar: Bar::RatioAtLeast(2.0) },
            ));
        }
        None => {
            if let Some(figure) = figures.pop() {
                figures.push(
                    figure
                        .also("with default settings", median(&default), "1/s")
                        .also("published: pg-boss 12.35.0 tuned", 46_665.0, "1/s")
                        .also("published: graphile-worker 0.18.0 tuned", 68_398.0, "1/s")
                        .also("published: graphile-worker 0.18.0 default", 4_779.0, "1/s"),
                );
            }
        }
    }
    Ok(figures)
}

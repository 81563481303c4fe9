//! Throughput of one worker that drains 200,000 no-op dispatches, against pgbench with the same
//! statements.
//!
//! The standard worker has an additional native handler that does nothing. It writes history,
//! counters and events as always. pgbench executes the claim and completion over the same number of
//! connections with the same batch size. Repetitions alternate. The tuned worker has more slots and
//! logs no line per attempt; the default is ten slots. With `--peers`, graphile-worker and pg-boss
//! drain their own backlogs in the same run. The tuned drains also give the cost of one dispatch:
//! processor time of the worker and of PostgreSQL, and bytes of write-ahead log.

use super::backlog::{self, Cost, Earlier, Function, Workers};
use super::hosted::{Program, TUNED};
use super::peers::{Load, Peers, Task};
use super::reference;
use crate::curves::{Curve, Shown};
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;

pub(super) async fn measure(bench: &Bench<'_>, peers: Option<&Peers>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(200_000, 60_000);
    let db = bench.workspace.database().await?;
    backlog::prepare(&db, Function::NOOP).await?;
    let (mut tuned, mut limit, mut default) = (Vec::new(), Vec::new(), Vec::new());
    let mut costs = Vec::new();
    let workers = Workers { number: 1, program: Program::Native, settings: &TUNED };
    for _ in 0..bench.scale.pick(5, 2) {
        backlog::fill_with(&db, count, Earlier::Nothing).await?;
        let (rate, cost) = backlog::drain_with_cost(bench.workspace, &db, count, workers).await?;
        tuned.push(rate);
        costs.push(cost);
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
    let costs = cost_figures(&costs);
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
                Goal { reference: boss.clone(), bar: Bar::RatioAtLeast(0.7) },
            ));
            figures.push(Figure::new(
                "drain_vs_graphile_worker",
                "1/s",
                &tuned,
                Goal { reference: graphile.clone(), bar: Bar::RatioAtLeast(1.0) },
            ));
            let bars = [
                ("sched, full history and events", median(&tuned)),
                ("pg-boss 12.35.0, keeps rows", boss.value.unwrap_or_default()),
                ("graphile-worker 0.18.0, deletes rows", graphile.value.unwrap_or_default()),
            ];
            if let Some(figure) = figures.pop() {
                figures.push(bars.into_iter().zip(1_u32..).fold(
                    figure,
                    |figure, ((name, rate), position)| {
                        figure.curve(Curve::bar(Shown::Throughput, name, (f64::from(position), rate)))
                    },
                ));
            }
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
    figures.extend(costs);
    Ok(figures)
}

/// The costs of one dispatch in the tuned drains.
fn cost_figures(costs: &[Cost]) -> Vec<Figure> {
    let of = |part: fn(&Cost) -> f64| costs.iter().map(part).collect::<Vec<_>>();
    let goal = |most| Goal { reference: Reference::none("in the tuned drains"), bar: Bar::AtMost(most) };
    vec![
        Figure::new("drain_worker_cpu", "us", &of(|cost| cost.worker_micros), goal(12.0)),
        Figure::new("drain_postgres_cpu", "us", &of(|cost| cost.postgres_micros), goal(45.0)),
        Figure::new("drain_wal", "B", &of(|cost| cost.wal_bytes), goal(1_800.0)),
    ]
}

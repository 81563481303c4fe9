//! Transactions per second of 100 idle workers, including heartbeats.
//!
//! The workers are processes with default settings. The measurement begins when their poll
//! intervals have grown to the maximum. The transaction count is read from another database.
//! Autovacuum is off meanwhile.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};

use super::backlog::{self, Function};
use super::hosted::{self, Hosted, Program};
use crate::figures::{Bar, Figure, Goal, Reference};
use crate::rows::Bench;
use crate::sql::SECOND;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    bench.workspace.set_autovacuum(false).await?;
    let measured = fleet(bench).await;
    bench.workspace.set_autovacuum(true).await?;
    measured
}

async fn fleet(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(100, 10);
    let db = bench.workspace.database().await?;
    backlog::prepare(&db, Function::NOOP).await?;
    let workers = try_join_all(
        (0..count).map(|_| Hosted::start(Program::Standard, &db, &[("LOG_LEVEL", "info,sched_worker=warn")])),
    )
    .await?;
    hosted::wait_registered(&db, count).await?;
    // From one second to thirty, each half longer, with jitter: less than a minute and a half.
    tokio::time::sleep(Duration::from_secs(bench.scale.pick(100, 15) as u64)).await;
    let window = i64::try_from(bench.scale.pick(30, 5))?;
    let admin = &bench.workspace.admin;
    let counter = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'bench'";
    let mut runs = Vec::new();
    for _ in 0..bench.scale.pick(3, 1) {
        let (from, before) = (admin.now().await?, admin.number(counter).await?);
        admin.wait_until(from + window * SECOND).await?;
        let (until, after) = (admin.now().await?, admin.number(counter).await?);
        runs.push((after - before) * 1e6 / (until - from) as f64);
    }
    join_all(workers.into_iter().map(Hosted::stop)).await;
    let reference =
        Reference::value("100 times underway 0.2.0's 0.11 of one in 20 (docs/benchmarks.md)", 11.0);
    Ok(vec![Figure::new("idle_fleet", "1/s", &runs, Goal { reference, bar: Bar::AtMost(12.0) }).also(
        "workers",
        count as f64,
        "",
    )])
}

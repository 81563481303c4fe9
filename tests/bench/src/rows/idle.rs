//! The cost of an idle leader: transactions per second with 100,000 jobs.
//!
//! The transaction count of the database is read from another database. Autovacuum is off: its
//! commits after the fill are not work of the leader. A window of a minute contains the work that
//! is done once a minute.

use std::time::Duration;

use super::Bench;
use crate::daemon;
use crate::figures::{Bar, Figure, Goal, Reference};
use crate::seed::{self, Jobs};
use crate::sql::SECOND;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    bench.workspace.set_autovacuum(false).await?;
    let measured = leader(bench).await;
    bench.workspace.set_autovacuum(true).await?;
    measured
}

async fn leader(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let window = i64::try_from(bench.scale.pick(60, 3))?;
    let db = bench.workspace.database().await?;
    seed::tenants(&db, 1).await?;
    seed::jobs(&db, &Jobs { count: bench.scale.pick(100_000, 1_000), ..Jobs::default() }).await?;
    seed::settle(&db).await?;
    let scheduler = daemon::start_leading(&db).await?;
    // A new leader has more work. Sessions report their work at most once a second, idle sessions
    // only after ten seconds or with their next work.
    tokio::time::sleep(Duration::from_secs(25)).await;
    let admin = &bench.workspace.admin;
    let count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'bench'";
    let mut runs = Vec::new();
    for _ in 0..bench.scale.pick(3, 1) {
        let (from, before) = (admin.now().await?, admin.number(count).await?);
        admin.wait_until(from + window * SECOND).await?;
        let (until, after) = (admin.now().await?, admin.number(count).await?);
        runs.push((after - before) * 1e6 / (until - from) as f64);
    }
    scheduler.stop().await;
    let reference = Reference::value("underway 0.2.0, one idle worker (docs/benchmarks.md)", 0.6);
    Ok(vec![Figure::new("idle_transactions", "1/s", &runs, Goal { reference, bar: Bar::AtMost(3.0) })])
}

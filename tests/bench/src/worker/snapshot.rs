//! The drain while another session holds an old snapshot.
//!
//! Vacuum cannot remove rows that were changed since that snapshot, so the index of waiting
//! dispatches fills with dead entries. The session takes its snapshot when the backlog is written,
//! and keeps it until the drain is over. Runs with and without it alternate.

use super::backlog::{self, Earlier, Function};
use super::hosted::{Program, TUNED};
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;
use crate::sql::Db;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(200_000, 60_000);
    let db = bench.workspace.database().await?;
    backlog::prepare(&db, Function::NOOP).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.pick(3, 1) {
        backlog::fill_with(&db, count, Earlier::Nothing).await?;
        without.push(backlog::drain(&db, count, Program::Native, &TUNED).await?);
        backlog::fill_with(&db, count, Earlier::Nothing).await?;
        let old = Db::connect(db.url()).await?;
        old.run("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        old.count("SELECT count(*) FROM worker_registration").await?;
        with.push(backlog::drain(&db, count, Program::Native, &TUNED).await?);
        old.run("COMMIT").await?;
    }
    let reference = Reference::value("no snapshot, same run", median(&without));
    Ok(vec![Figure::new(
        "drain_with_old_snapshot",
        "1/s",
        &with,
        Goal { reference, bar: Bar::RatioAtLeast(0.5) },
    )])
}

//! 100,000 jobs of 20 tenants due at one instant: the time until all are dispatched, and the
//! fairness between tenants.
//!
//! The wait of a tenant is the mean over its jobs of commit minus due time. The bar is about
//! tenants of equal size. In a further measurement, one tenant has four fifths of all jobs; the
//! others must not wait for it.

use anyhow::Context;

use super::Bench;
use crate::burst::{self, BATCH, Earlier, Flush};
use crate::daemon;
use crate::figures::{Bar, Figure, Goal, Reference, largest, median, smallest};
use crate::seed::{self, Jobs};
use crate::sql::instant;

const TENANTS: usize = 20;

/// The bursts with one distribution of the jobs over tenants.
struct Crowd {
    walls: Vec<f64>,
    unfairness: Vec<f64>,
    /// Mean wait of the first tenant over that of all others together.
    first_to_others: Vec<f64>,
}

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let jobs = bench.scale.pick(100_000, 2_000);
    let equal = crowd(bench, &[jobs / TENANTS; TENANTS]).await?;
    let mut shares = vec![jobs / 5 / (TENANTS - 1); TENANTS];
    if let Some(first) = shares.first_mut() {
        *first = jobs * 4 / 5;
    }
    let unequal = crowd(bench, &shares).await?;
    let none = || Reference::none("no peer was measured at this size");
    let wall =
        Figure::new("crowd_wall", "s", &equal.walls, Goal { reference: none(), bar: Bar::AtMost(10.0) })
            .also("with 80 % of the jobs in one tenant", median(&unequal.walls), "s");
    let fairness = Figure::new(
        "crowd_fairness",
        "largest/smallest wait",
        &equal.unfairness,
        Goal { reference: none(), bar: Bar::AtMost(1.5) },
    )
    .also("with 80 % in one tenant: largest/smallest", median(&unequal.unfairness), "")
    .also("with 80 % in one tenant: its wait / that of the others", median(&unequal.first_to_others), "");
    Ok(vec![wall, fairness])
}

async fn crowd(bench: &Bench<'_>, shares: &[usize]) -> anyhow::Result<Crowd> {
    let db = bench.workspace.database().await?;
    seed::tenants(&db, shares.len()).await?;
    for (position, count) in shares.iter().enumerate() {
        let jobs = Jobs { tenant: position + 1, prefix: "due", count: *count, ..Jobs::default() };
        seed::jobs(&db, &jobs).await?;
    }
    seed::choose_due(&db, "due-").await?;
    seed::settle(&db).await?;
    let flush = Flush::measure(&db, BATCH).await?;
    let scheduler = daemon::start_leading(&db).await?;
    let mut crowd = Crowd { walls: Vec::new(), unfairness: Vec::new(), first_to_others: Vec::new() };
    for _ in 0..bench.scale.pick(3, 1) {
        let burst = burst::run(&db, &scheduler, flush, Earlier::Empty).await?;
        let waits = |group: &str| {
            format!(
                "SELECT avg(extract(epoch FROM pg_xact_commit_timestamp(xmin) - scheduled_for)) FROM job_dispatch
                 WHERE scheduled_for = {} GROUP BY {group} ORDER BY {group}",
                instant(burst.due)
            )
        };
        let tenants = db.numbers(&waits("tenant_id")).await?;
        let split = db.numbers(&waits("tenant_id > bench.tenant(1)")).await?;
        let [first, others] = split.as_slice() else { anyhow::bail!("not all tenants were dispatched") };
        crowd.walls.push(burst.wall);
        crowd.unfairness.push(largest(&tenants) / smallest(&tenants));
        crowd.first_to_others.push(first / others);
    }
    scheduler.stop().await;
    db.run("TRUNCATE job_dispatch CASCADE").await.context("failed to clean up")?;
    Ok(crowd)
}

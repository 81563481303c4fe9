//! Triggers per second of 8 clients, against pgbench with 8 clients that insert the same row. Each
//! trigger is durable before its response.
//!
//! A client triggers one job after the other, so that no client waits for the job of another.
//! pgbench inserts the row into `job_dispatch` with the same columns, keys, checks and indexes, and
//! commits. It reads nothing, updates no counter, sends no notification, and writes no audit event.
//! Repetitions alternate on the same tables.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;

use super::hosted::Api;
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;
use crate::seed::{self, Jobs};
use crate::sql::Db;

const CLIENTS: usize = 8;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let seconds = bench.scale.pick(10, 2);
    let db = bench.workspace.database().await?;
    let jobs = prepare(&db, bench.scale.pick(10_000, 1_000)).await?;
    db.run(include_str!("../../sql/pick.sql")).await?;
    let api = Api::start(&db).await?;
    run(&api, &jobs, 1).await?;
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.pick(5, 1) {
        clear(&db).await?;
        let before = db.count("SELECT count(*) FROM job_dispatch").await?;
        let (rate, answered) = run(&api, &jobs, seconds).await?;
        let written = db.count("SELECT count(*) FROM job_dispatch").await? - before;
        ensure!(
            usize::try_from(written)? == answered,
            "{answered} triggers were answered, {written} dispatches exist"
        );
        ours.push(rate);
        clear(&db).await?;
        limit.push(pgbench(bench, &db, seconds).await?);
    }
    api.stop().await;
    let reference =
        Reference::value("pgbench, 8 clients, one insert of the same row, same run", median(&limit));
    Ok(vec![Figure::new("trigger", "1/s", &ours, Goal { reference, bar: Bar::RatioAtLeast(0.9) })])
}

/// Creates a tenant with jobs that allow any number of concurrent runs.
pub(super) async fn prepare(db: &Db, count: usize) -> anyhow::Result<Vec<String>> {
    seed::tenants(db, 1).await?;
    seed::jobs(db, &Jobs { count, overlap: "allow", ..Jobs::default() }).await?;
    seed::settle(db).await?;
    let jobs = db.rows("SELECT id FROM scheduled_jobs ORDER BY id").await?;
    Ok(jobs.into_iter().flatten().collect())
}

async fn clear(db: &Db) -> anyhow::Result<()> {
    db.run("TRUNCATE job_dispatch, events, uncounted_openings CASCADE; UPDATE scheduled_jobs SET active_dispatches = 0").await?;
    seed::settle(db).await
}

/// Triggers for this number of seconds; returns triggers per second, and their number.
async fn run(api: &Api, jobs: &[String], seconds: usize) -> anyhow::Result<(f64, usize)> {
    let next = AtomicUsize::new(0);
    let begun = sched_runtime::monotonic_clock::monotonic();
    let until = begun + Duration::from_secs(u64::try_from(seconds)?);
    let done = try_join_all((0..CLIENTS).map(async |_| {
        let mut client = api.client().await?;
        let mut done = 0_usize;
        while sched_runtime::monotonic_clock::monotonic() < until {
            let position = next.fetch_add(1, Ordering::Relaxed) % jobs.len();
            let job = jobs.get(position).context("the list has the job")?;
            client.post(&format!("/jobs/{job}/trigger")).await?;
            done += 1;
        }
        anyhow::Ok(done)
    }))
    .await?;
    let done: usize = done.into_iter().sum();
    Ok((done as f64 / begun.elapsed().as_secs_f64(), done))
}

async fn pgbench(bench: &Bench<'_>, db: &Db, seconds: usize) -> anyhow::Result<f64> {
    let file = bench.into.join("trigger.sql");
    std::fs::write(&file, include_str!("../../sql/trigger.sql"))
        .context("failed to write the script of pgbench")?;
    let (clients, seconds) = (CLIENTS.to_string(), seconds.to_string());
    let output = tokio::process::Command::new(bench.workspace.bin("pgbench")?)
        .args(["-n", "-M", "prepared", "-c", &clients, "-j", "2", "-T", &seconds, "-f"])
        .arg(&file)
        .arg(db.url())
        .stdin(Stdio::null())
        .output()
        .await
        .context("failed to run pgbench")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pgbench failed: {errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split_whitespace().next()?.parse::<f64>().ok());
    rate.with_context(|| format!("pgbench printed no rate: {text}"))
}

//! The start of a scheduler after an outage of a day: 50,000 jobs that fire every minute, with
//! `fire_once`.
//!
//! The benchmark sets the cursors a day back while no scheduler runs. The start is shortly after a
//! full minute, so that the next fire comes after the leader has caught up. Memory is constant if
//! the peak is that of a tenth of the jobs.

use std::time::Duration;

use anyhow::Context;

use super::Bench;
use crate::burst::{BATCH, Flush};
use crate::daemon;
use crate::figures::{Bar, Figure, Goal, Reference};
use crate::seed::{self, Jobs};
use crate::sql::{Db, Micros, Polling, SECOND, instant, micros};
use crate::workspace::Workspace;

const MINUTE: Micros = 60 * SECOND;

struct Start {
    /// Seconds from just before the start of the process to the first dispatch on disk.
    first: f64,
    /// Seconds until the last one.
    last: f64,
    /// Peak memory in MiB.
    peak: f64,
    /// Jobs with wrong records. A correct job has one dispatch of the minute of the start, and one
    /// skip record over all earlier minutes.
    wrong: f64,
}

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let jobs = bench.scale.pick(50_000, 1_000);
    let idle = peak_of_idle(bench.workspace).await?;
    let tenth = start(bench, jobs / 10).await?;
    let mut starts = Vec::new();
    for _ in 0..bench.scale.pick(3, 1) {
        starts.push(start(bench, jobs).await?);
    }
    let column = |value: fn(&Start) -> f64| -> Vec<f64> { starts.iter().map(value).collect() };
    let none = || Reference::none("no peer was measured after an outage");
    let first = Figure::new(
        "outage_first_dispatch",
        "s",
        &column(|s| s.first),
        Goal { reference: none(), bar: Bar::Below(2.0) },
    )
    .by_largest()
    .also("until the last of the jobs is dispatched", crate::figures::median(&column(|s| s.last)), "s");
    let reference = Reference::value("the same with a tenth of the jobs, same run", tenth.peak);
    let memory = Figure::new(
        "outage_memory",
        "MiB",
        &column(|s| s.peak),
        Goal { reference, bar: Bar::RatioAtMost(1.5) },
    )
    .by_largest()
    .also("a leader without any job", idle, "MiB");
    let wrong = Figure::new(
        "outage_wrong_records",
        "jobs",
        &column(|s| s.wrong),
        Goal { reference: Reference::none("-"), bar: Bar::Exactly(0.0) },
    )
    .by_largest();
    Ok(vec![first, memory, wrong])
}

async fn peak_of_idle(workspace: &Workspace) -> anyhow::Result<f64> {
    let db = workspace.database().await?;
    let scheduler = daemon::start_leading(&db).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let peak = scheduler.peak_memory()?;
    scheduler.stop().await;
    Ok(peak)
}

async fn start(bench: &Bench<'_>, jobs: usize) -> anyhow::Result<Start> {
    let db = bench.workspace.database().await?;
    seed::tenants(&db, 1).await?;
    let since = db.now().await? / MINUTE * MINUTE - 24 * 60 * MINUTE;
    let minutely = Jobs {
        prefix: "minutely",
        count: jobs,
        job_type: "cron",
        config: r#"'{"expression": "* * * * *"}'"#,
        next: &instant(since),
        settled_before: "interval '30 seconds'",
        ..Jobs::default()
    };
    seed::jobs(&db, &minutely).await?;
    seed::settle(&db).await?;
    let flush = Flush::measure(&db, jobs.min(BATCH)).await?;

    let minute = (db.now().await? / MINUTE + 1) * MINUTE;
    db.wait_until(minute + SECOND).await?;
    let started = db.now().await?;
    let scheduler = daemon::start(&db).await?;
    let caught_up = format!(
        "SELECT (NOT EXISTS (SELECT FROM scheduled_jobs WHERE next_run_at IS NOT NULL AND next_run_at <= {}))::int",
        instant(minute)
    );
    db.wait_count(
        &caught_up,
        1,
        Polling { step: Duration::from_millis(500), limit: Duration::from_secs(120) },
    )
    .await
    .context("the leader did not catch up")?;
    let peak = scheduler.peak_memory()?;
    scheduler.stop().await;

    let commits = |which: &str| {
        let at = micros(&format!("{which}(pg_xact_commit_timestamp(xmin))"));
        format!("SELECT {at} FROM job_dispatch")
    };
    let (first, last) = (db.count(&commits("min")).await?, db.count(&commits("max")).await?);
    let seconds = |at: Micros| (at - started) as f64 / 1e6 + flush.0;
    Ok(Start { first: seconds(first), last: seconds(last), peak, wrong: wrong(&db, since, minute).await? })
}

/// Counts the jobs with wrong records, and prints those of one job. The count of a range may be a
/// lower bound; its ends must be exact.
async fn wrong(db: &Db, since: Micros, minute: Micros) -> anyhow::Result<f64> {
    let condition = format!(
        "(SELECT (count(*), min(scheduled_for)) FROM job_dispatch AS d WHERE d.job_id = j.id) IS DISTINCT FROM (1::bigint, {at})
         OR (SELECT (count(*), min(first_fire_at), max(last_fire_at), bool_and(reason = 'misfire'),
                     bool_and(CASE WHEN is_count_exact THEN fire_count = {minutes} ELSE fire_count < {minutes} END))
             FROM skipped_fires AS s WHERE s.job_id = j.id)
            IS DISTINCT FROM (1::bigint, {since}, {before}, true, true)",
        at = instant(minute),
        since = instant(since),
        before = instant(minute - MINUTE),
        minutes = (minute - since) / MINUTE,
    );
    let wrong = db.number(&format!("SELECT count(*) FROM scheduled_jobs AS j WHERE {condition}")).await?;
    if wrong > 0.0 {
        let sample = db
            .text(&format!(
                "SELECT 'dispatches at ' || (SELECT coalesce(string_agg(scheduled_for::text, ', '), '-') FROM job_dispatch WHERE job_id = j.id)
                     || '; skips ' || (SELECT coalesce(string_agg(format('%s %s to %s (%s)', reason, first_fire_at, last_fire_at, fire_count), ', '), '-')
                                       FROM skipped_fires WHERE job_id = j.id)
                 FROM scheduled_jobs AS j WHERE {condition} LIMIT 1"
            ))
            .await?;
        eprintln!("  records of one of {wrong} jobs with wrong records: {sample}");
    }
    Ok(wrong)
}

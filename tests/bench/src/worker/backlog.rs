//! A backlog of waiting dispatches that a worker or pgbench drains.
//!
//! The drain is timed by the database clock, from right before the start of the process until the
//! commit timestamp of the last end. So connecting and registering are included. Afterwards the
//! history must have exactly one successful attempt of each dispatch; otherwise the measurement
//! fails.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::{join_all, try_join_all};

use super::cpu;
use super::hosted::{Hosted, Program};
use crate::seed::{self, Jobs};
use crate::sql::{Db, Micros, Polling, fill, micros};
use crate::workspace::Workspace;

/// Bytes of write-ahead log since the beginning of the server.
pub(super) const WAL: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')";
const JOBS: usize = 10_000;
/// A worker stores its last results within milliseconds. The counting of stored ends costs tens of
/// milliseconds of the server, so it is repeated rarely.
const STORED: Polling = Polling { step: Duration::from_millis(500), limit: Duration::from_secs(60) };
const STALLED_AFTER: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Earlier {
    Nothing,
    History,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Function<'a> {
    pub(super) handler_type: &'a str,
    pub(super) config: &'a str,
}

impl Function<'_> {
    pub(super) const NOOP: Function<'static> =
        Function { handler_type: "native", config: r#"{"handler": "noop"}"# };
}

pub(super) async fn prepare(db: &Db, function: Function<'_>) -> anyhow::Result<()> {
    seed::tenants(db, 1).await?;
    set_function(db, function).await?;
    seed::jobs(db, &Jobs { prefix: "due", count: JOBS, ..Jobs::default() }).await?;
    seed::choose_due(db, "due-").await?;
    seed::settle(db).await
}

/// Gives all functions this handler.
pub(super) async fn set_function(db: &Db, function: Function<'_>) -> anyhow::Result<()> {
    let Function { handler_type, config } = function;
    let set =
        format!("UPDATE task_functions SET handler_type = '{handler_type}', handler_config = '{config}'");
    db.run(&set).await
}

/// Replaces the rows of an earlier measurement by `count` dispatches that are claimable at once.
pub(super) async fn fill_with(db: &Db, count: usize, earlier: Earlier) -> anyhow::Result<()> {
    fill_claimable(db, count, earlier, "fire").await
}

/// The same, claimable from an instant given as SQL.
pub(super) async fn fill_claimable(
    db: &Db,
    count: usize,
    earlier: Earlier,
    claimable: &str,
) -> anyhow::Result<()> {
    match earlier {
        Earlier::Nothing => {
            db.run(
                "TRUNCATE job_dispatch, job_execution_log, job_execution_output, job_ends, events, run_start_batches,
                 run_end_batches, uncounted_ends, uncounted_openings, worker_claims CASCADE",
            )
            .await?;
        }
        Earlier::History => {
            db.run(include_str!("../../sql/clear_backlog.sql")).await?;
            db.run("VACUUM job_execution_log").await?;
        }
    }
    db.run(include_str!("../../sql/mark.sql")).await?;
    let values = [("count", count.to_string()), ("claimable", claimable.to_owned())];
    let values = values.each_ref().map(|(name, value)| (*name, value.as_str()));
    db.run(&fill(include_str!("../../sql/backlog.sql"), &values)).await?;
    seed::settle(db).await
}

/// Dispatches per second from `begun` to the last commit.
pub(super) async fn rate(db: &Db, count: usize, begun: Micros) -> anyhow::Result<f64> {
    let last = check(db, count).await?;
    Ok(count as f64 * 1e6 / (last - begun) as f64)
}

/// Checks that each dispatch was completed once; returns the last end.
pub(super) async fn check(db: &Db, count: usize) -> anyhow::Result<Micros> {
    let rows = db
        .rows(&format!(
            "SELECT count(*), count(*) FILTER (WHERE status = 'COMPLETED'), kept.attempts, kept.dispatches, {}
             FROM job_dispatch, LATERAL (
                 SELECT count(*) AS attempts, count(DISTINCT dispatch_id) AS dispatches
                 FROM job_execution_log WHERE status = 'COMPLETED' AND started_at >= (SELECT at FROM bench.mark)
             ) AS kept
             WHERE id >= (SELECT first_id FROM bench.mark)
             GROUP BY kept.attempts, kept.dispatches",
            micros("max(pg_xact_commit_timestamp(xmin))")
        ))
        .await?;
    let [all, completed, attempts, kept, last] = rows.first().context("no dispatches")?.as_slice() else {
        anyhow::bail!("the query has five columns");
    };
    let wanted = count.to_string();
    ensure!(
        [all, completed, attempts, kept].into_iter().all(|found| *found == wanted),
        "of {count} dispatches {all} exist and {completed} are completed; the history has {attempts} successful attempts of {kept}"
    );
    last.parse().context("commits have no timestamps")
}

/// Drains the backlog with one worker; returns dispatches per second.
pub(super) async fn drain(
    db: &Db,
    count: usize,
    program: Program,
    settings: &[(&str, &str)],
) -> anyhow::Result<f64> {
    drain_by(db, count, Workers { number: 1, program, settings }).await
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Workers<'a> {
    pub(super) number: u32,
    pub(super) program: Program,
    pub(super) settings: &'a [(&'a str, &'a str)],
}

pub(super) async fn drain_by(db: &Db, count: usize, workers: Workers<'_>) -> anyhow::Result<f64> {
    let begun = db.now().await?;
    let workers = start_all(db, workers).await?;
    wait_executed(&workers, count).await?;
    // Workers store their results when they stop. Missing results show in the count.
    join_all(workers.into_iter().map(Hosted::stop)).await;
    rate(db, count, begun).await
}

async fn start_all(db: &Db, workers: Workers<'_>) -> anyhow::Result<Vec<Hosted>> {
    let Workers { number, program, settings } = workers;
    try_join_all((0..number).map(|_| Hosted::start(program, db, settings))).await
}

/// The cost of one dispatch of a drain, with the start of the workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Processor time of all worker processes.
    pub(super) worker_micros: f64,
    /// Processor time of all processes of the server.
    pub(super) postgres_micros: f64,
    pub(super) wal_bytes: f64,
}

/// As [`drain_by`], with the cost of each dispatch. The workers' ends are all stored when the
/// costs are read.
pub(super) async fn drain_with_cost(
    workspace: &Workspace,
    db: &Db,
    count: usize,
    workers: Workers<'_>,
) -> anyhow::Result<(f64, Cost)> {
    let postmaster = workspace.postmaster()?;
    let (cpu_before, wal_before) = (cpu::of_server(postmaster)?, workspace.admin.number(WAL).await?);
    let begun = db.now().await?;
    let workers = start_all(db, workers).await?;
    wait_executed(&workers, count).await?;
    let stored = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED' AND id >= (SELECT first_id FROM bench.mark)";
    db.wait_count(stored, i64::try_from(count)?, STORED).await?;
    let (cpu_after, wal_after) = (cpu::of_server(postmaster)?, workspace.admin.number(WAL).await?);
    let seconds: f64 = workers.iter().map(Hosted::cpu_seconds).sum::<anyhow::Result<f64>>()?;
    join_all(workers.into_iter().map(Hosted::stop)).await;
    let each = |total: f64| total / count as f64;
    let cost = Cost {
        worker_micros: each(seconds * 1e6),
        postgres_micros: each((cpu_after - cpu_before) * 1e6),
        wal_bytes: each(wal_after - wal_before),
    };
    Ok((rate(db, count, begun).await?, cost))
}

async fn executed_by(workers: &[Hosted]) -> anyhow::Result<f64> {
    Ok(try_join_all(workers.iter().map(Hosted::executed)).await?.into_iter().sum())
}

/// Waits until the workers have executed this many attempts. Fails without progress.
pub(super) async fn wait_executed(workers: &[Hosted], count: usize) -> anyhow::Result<()> {
    let mut seen = (executed_by(workers).await?, sched_runtime::monotonic_clock::monotonic());
    while seen.0 < count as f64 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let executed = executed_by(workers).await?;
        if executed > seen.0 {
            seen = (executed, sched_runtime::monotonic_clock::monotonic());
        }
        ensure!(
            seen.1.elapsed() < STALLED_AFTER,
            "no worker makes progress after {executed} of {count} dispatches"
        );
    }
    Ok(())
}

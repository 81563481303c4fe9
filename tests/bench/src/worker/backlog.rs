//! A backlog: waiting dispatches that are drained by a worker or by pgbench, and how long that took.
//!
//! Both are timed alike and by the database's clock: from just before the process is started until the commit of the last end,
//! as PostgreSQL stamped it. So connecting, registering and reading the settings are in it for both. Afterwards every dispatch must
//! be completed, and history must hold one successful attempt of each and no more, else nothing is said of the time.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::{join_all, try_join_all};

use super::hosted::{Hosted, Program};
use crate::seed::{self, Jobs};
use crate::sql::{Db, Micros, fill, micros};

/// Jobs the dispatches of a backlog belong to.
const JOBS: usize = 10_000;
/// Longest wait for a worker that makes no progress.
const STALLED_AFTER: Duration = Duration::from_secs(120);

/// What stands in the tables besides the backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Earlier {
    /// Nothing.
    Nothing,
    /// A history that stays.
    History,
}

/// What functions of the benchmark's tenant are run with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function<'a> {
    /// Kind of handler.
    pub(super) handler_type: &'a str,
    /// Its settings, JSON.
    pub(super) config: &'a str,
}

impl Function<'_> {
    /// Does nothing.
    pub(super) const NOOP: Function<'static> =
        Function { handler_type: "native", config: r#"{"handler": "noop"}"# };
}

/// Fills a fresh database with a tenant, its function and the jobs of backlogs.
pub(super) async fn prepare(db: &Db, function: Function<'_>) -> anyhow::Result<()> {
    seed::tenants(db, 1).await?;
    let Function { handler_type, config } = function;
    let set =
        format!("UPDATE task_functions SET handler_type = '{handler_type}', handler_config = '{config}'");
    db.run(&set).await?;
    seed::jobs(db, &Jobs { prefix: "due", count: JOBS, ..Jobs::default() }).await?;
    seed::choose_due(db, "due-").await?;
    seed::settle(db).await
}

/// Replaces what an earlier measurement left by a backlog of `count` dispatches that may be claimed at once.
pub(super) async fn fill_with(db: &Db, count: usize, earlier: Earlier) -> anyhow::Result<()> {
    fill_claimable(db, count, earlier, "fire").await
}

/// The same with the SQL of the instant from which they may be claimed.
pub(super) async fn fill_claimable(
    db: &Db,
    count: usize,
    earlier: Earlier,
    claimable: &str,
) -> anyhow::Result<()> {
    match earlier {
        Earlier::Nothing => {
            db.run("TRUNCATE job_dispatch, job_execution_log, job_execution_output, job_ends, events, worker_claims CASCADE")
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

/// Makes sure that each was completed once; returns when the last end was committed.
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
        anyhow::bail!("five columns were asked for");
    };
    let wanted = count.to_string();
    ensure!(
        [all, completed, attempts, kept].into_iter().all(|found| *found == wanted),
        "of {count} dispatches {all} are there, {completed} were completed; history has {attempts} successful attempts of {kept}"
    );
    last.parse().context("commits have no timestamps")
}

/// Lets one worker drain the backlog; dispatches per second.
pub(super) async fn drain(
    db: &Db,
    count: usize,
    program: Program,
    settings: &[(&str, &str)],
) -> anyhow::Result<f64> {
    drain_by(db, count, 1, program, settings).await
}

/// The same by several workers, which are started at once.
pub(super) async fn drain_by(
    db: &Db,
    count: usize,
    workers: u32,
    program: Program,
    settings: &[(&str, &str)],
) -> anyhow::Result<f64> {
    let begun = db.now().await?;
    let workers = try_join_all((0..workers).map(|_| Hosted::start(program, db, settings))).await?;
    wait_executed(&workers, count).await?;
    // Told to stop, they store what they have; what is not stored then shows in the count.
    join_all(workers.into_iter().map(Hosted::stop)).await;
    rate(db, count, begun).await
}

/// How many all of them have run.
async fn executed_by(workers: &[Hosted]) -> anyhow::Result<f64> {
    Ok(try_join_all(workers.iter().map(Hosted::executed)).await?.into_iter().sum())
}

/// Waits until workers have run this many together, as long as they make progress.
pub(super) async fn wait_executed(workers: &[Hosted], count: usize) -> anyhow::Result<()> {
    let mut seen = (executed_by(workers).await?, sched_runtime::monotonic_clock::monotonic());
    while seen.0 < count as f64 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let executed = executed_by(workers).await?;
        if executed > seen.0 {
            seen = (executed, sched_runtime::monotonic_clock::monotonic());
        }
        ensure!(seen.1.elapsed() < STALLED_AFTER, "no worker gets on after {executed} of {count} dispatches");
    }
    Ok(())
}

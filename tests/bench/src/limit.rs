//! The limit of PostgreSQL: pgbench with hand-written statements on the same tables.
//!
//! One connection, prepared statements, the same jobs and the same batch. The leader has no work
//! meanwhile: the cursors are two hours ahead, and the script dispatches the jobs nevertheless.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};

use crate::burst::{self, BATCH, Earlier};
use crate::sql::{Db, SECOND};
use crate::workspace::Workspace;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Script {
    /// SELECT, INSERT … unnest, UPDATE … unnest.
    ByHand,
    OneStatement,
}

impl Script {
    const fn text(self) -> &'static str {
        match self {
            Self::ByHand => include_str!("../sql/limit.sql"),
            Self::OneStatement => include_str!("../sql/limit_one_statement.sql"),
        }
    }
}

/// Rows per second over all batches except the first, which includes the new connection.
pub(crate) async fn run(workspace: &Workspace, db: &Db, script: Script, into: &Path) -> anyhow::Result<f64> {
    burst::clear(db, Earlier::Empty).await?;
    let due = db.now().await? + 7_200 * SECOND;
    burst::arm(db, due).await?;
    let jobs = usize::try_from(db.count("SELECT count(*) FROM bench.due").await?)?;
    let batches = jobs / BATCH;
    ensure!(batches > 1, "pgbench needs at least two batches of {BATCH}");
    let (file, log) = (into.join("limit.sql"), into.join("limit-log"));
    std::fs::write(&file, script.text()).context("failed to write the script of pgbench")?;
    let due = db
        .text(&format!("SELECT to_char({}, 'YYYY-MM-DD HH24:MI:SS.USOF')", crate::sql::instant(due)))
        .await?;
    let output = tokio::process::Command::new(workspace.bin("pgbench")?)
        .args(["-n", "-M", "prepared", "-c", "1", "-j", "1", "-t", &batches.to_string(), "-l"])
        .arg(format!("--log-prefix={}", log.display()))
        .args(["-D", &format!("due={due}"), "-f"])
        .arg(&file)
        .arg(db.url())
        .env("PGOPTIONS", "-c client_min_messages=warning")
        .stdin(Stdio::null())
        .output()
        .await
        .context("failed to run pgbench")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pgbench failed: {errors}");
    let written = db.count("SELECT count(*) FROM job_dispatch").await?;
    ensure!(usize::try_from(written)? == batches * BATCH, "pgbench dispatched {written} of {jobs} jobs");
    let seconds = transactions(into)?;
    ensure!(seconds.len() == batches, "pgbench logged {} of {batches} transactions", seconds.len());
    let counted: f64 = seconds.iter().skip(1).sum();
    let rows = ((batches - 1) * BATCH) as f64;
    Ok(rows / counted)
}

/// Reads and removes the log of pgbench; returns the seconds of each transaction in order.
fn transactions(into: &Path) -> anyhow::Result<Vec<f64>> {
    let mut seconds = Vec::new();
    for entry in std::fs::read_dir(into)? {
        let path = entry?.path();
        let is_log = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("limit-log."));
        if is_log {
            for line in std::fs::read_to_string(&path)?.lines() {
                // client, transaction, microseconds, script, epoch seconds, and microseconds
                let elapsed =
                    line.split(' ').nth(2).context("a line of the log of pgbench has too few fields")?;
                seconds.push(elapsed.parse::<f64>()? / 1e6);
            }
            std::fs::remove_file(&path)?;
        }
    }
    Ok(seconds)
}

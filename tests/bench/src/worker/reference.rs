//! The limit of PostgreSQL: pgbench with the statements of the worker ([`super::statements`]) on
//! the same tables.
//!
//! Batch size and number of connections are those of the worker. There is no handler, decision,
//! listener or lease.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};

use super::{backlog, statements};
use crate::sql::Db;
use crate::workspace::Workspace;

pub(super) const BATCH: usize = 500;
/// Busy connections: one claims, two complete.
pub(super) const CONNECTIONS: usize = 3;

pub(super) const WORKER: &str = "00000000-0000-7000-9000-00000000ffff";

/// Drains the backlog; returns dispatches per second.
pub(super) async fn drain(workspace: &Workspace, db: &Db, count: usize, into: &Path) -> anyhow::Result<f64> {
    let file = into.join("worker.sql");
    std::fs::write(&file, statements::script(WORKER, BATCH)?)
        .context("failed to write the script of pgbench")?;
    // A few more than needed: an empty claim writes nothing, so it does not move the end.
    let each = count.div_ceil(BATCH * CONNECTIONS) + 2;
    let begun = db.now().await?;
    let errors = pgbench(workspace, db, &file, (CONNECTIONS, each)).await?;
    backlog::rate(db, count, begun).await.with_context(|| format!("after pgbench with the output: {errors}"))
}

/// Runs a script of [`statements`] over some connections, some times each; returns its warnings.
pub(super) async fn pgbench(
    workspace: &Workspace,
    db: &Db,
    script: &Path,
    (connections, each): (usize, usize),
) -> anyhow::Result<String> {
    db.run(&format!(
        "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
         VALUES ('{WORKER}', 'bench', 'pgbench', 1, '0', '{{default}}', 2000, 3600000) ON CONFLICT DO NOTHING"
    ))
    .await?;
    let (connections, each) = (connections.to_string(), each.to_string());
    let output = tokio::process::Command::new(workspace.bin("pgbench")?)
        .args(["-n", "-M", "prepared", "-c", &connections, "-j", &connections, "-t", &each, "-f"])
        .arg(script)
        .arg(db.url())
        .env("PGOPTIONS", "-c client_min_messages=warning -c jit=off")
        .stdin(Stdio::null())
        .output()
        .await
        .context("failed to run pgbench")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pgbench failed: {errors}");
    Ok(errors.into_owned())
}

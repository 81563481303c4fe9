//! What PostgreSQL itself can do: pgbench with the worker's own statements ([`super::statements`]) on the same tables.
//!
//! As many dispatches per claim and as many connections as the worker uses, prepared statements, on a backlog of the same kind. There
//! is nothing beside the statements: no handler runs, nothing is decided, nobody listens, no lease is kept.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};

use super::{backlog, statements};
use crate::place::Place;
use crate::sql::Db;

/// Dispatches of one claim, as the worker takes them when it has slots enough.
pub(super) const BATCH: usize = 500;
/// Connections that are busy at once: one claims, two complete.
pub(super) const CONNECTIONS: usize = 3;

/// The identity that pgbench claims with.
const WORKER: &str = "00000000-0000-7000-9000-00000000ffff";

/// Drains the backlog; dispatches per second.
pub(super) async fn drain(place: &Place, db: &Db, count: usize, into: &Path) -> anyhow::Result<f64> {
    db.run(&format!(
        "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
         VALUES ('{WORKER}', 'bench', 'pgbench', 1, '0', '{{default}}', 2000, 3600000) ON CONFLICT DO NOTHING"
    ))
    .await?;
    let file = into.join("worker.sql");
    std::fs::write(&file, statements::script(WORKER, BATCH)?).context("failed to write pgbench's script")?;
    // A few more than needed: what finds nothing costs nothing that counts, because the last commit that wrote is the end.
    let each = count.div_ceil(BATCH * CONNECTIONS) + 2;
    let (connections, each) = (CONNECTIONS.to_string(), each.to_string());
    let begun = db.now().await?;
    let output = tokio::process::Command::new(place.bin("pgbench")?)
        .args(["-n", "-M", "prepared", "-c", &connections, "-j", &connections, "-t", &each, "-f"])
        .arg(&file)
        .arg(db.url())
        .env("PGOPTIONS", "-c client_min_messages=warning -c jit=off")
        .stdin(Stdio::null())
        .output()
        .await
        .context("failed to run pgbench")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pgbench failed: {errors}");
    backlog::rate(db, count, begun).await.with_context(|| format!("after pgbench, which said: {errors}"))
}

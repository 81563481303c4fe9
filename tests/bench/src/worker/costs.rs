//! The cost of each part of a dispatch in PostgreSQL: processor time and write-ahead log.
//!
//! pgbench drains backlogs over one connection with the statements of the worker
//! ([`super::statements`]). Each variant leaves a part out, and the difference to the whole
//! statements is the cost of the part. The parts share work, so their sum is not exactly the whole.
//! Variants alternate.

use super::backlog::{self, Earlier, Function};
use super::statements::{self, Replacement};
use super::{cpu, reference};
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;
use crate::sql::Db;

const fn without(query: &'static str) -> Replacement {
    Replacement { query, text: None }
}

const fn instead(query: &'static str, text: &'static str) -> Replacement {
    Replacement { query, text: Some(text) }
}

struct Part {
    name: &'static str,
    replacements: &'static [Replacement],
}

/// No table is written, and the queries behind find nothing.
const NO_BATCH: &str = "SELECT NULL::uuid AS tenant_id, NULL::xid8 AS transaction_id, NULL::bigint AS id, now() AS created_at WHERE false";
const NO_JOIN: &str = "SELECT c.*, NULL::uuid AS project_id, false AS is_apart, 'job' AS job_name, 'native' AS handler_type, '{}'::jsonb AS handler_config, \
     60 AS timeout_seconds, NULL::jsonb AS retry_policy, c.args AS run_args FROM claimed c";
const NO_SEARCH: &str = "SELECT w.ctid AS at, w.id FROM job_dispatch w WHERE w.queue = 'default' AND w.tenant_id = bench.tenant(1) AND w.priority = 50 \
     AND w.claimable_at <= now() AND w.claimable_at < 'infinity' ORDER BY w.claimable_at, w.id LIMIT (SELECT free FROM input) FOR UPDATE SKIP LOCKED";
/// Keeps the answer from evaluating the search.
const NO_ANSWER: &str = "SELECT 1::bigint AS shared_by, NULL::uuid AS last, false AS has_limited, NULL::bigint AS room_in_ms, NULL::uuid[] AS tenants_with_quota, \
     NULL::bigint AS next_claimable_ms";

const PARTS: [Part; 6] = [
    Part { name: "claim: event \"started\"", replacements: &[without("started")] },
    Part { name: "claim: worker_claims", replacements: &[instead("noted", "SELECT 1::bigint AS id")] },
    Part { name: "claim: join with jobs and functions", replacements: &[instead("described", NO_JOIN)] },
    Part {
        name: "claim: fair search",
        replacements: &[instead("picked", NO_SEARCH), instead("answer", NO_ANSWER)],
    },
    Part {
        name: "end: event \"completed\" and inbox of counters",
        replacements: &[instead("batched", NO_BATCH)],
    },
    Part { name: "end: history row", replacements: &[without("kept"), without("kept_apart")] },
];

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(50_000, 10_000);
    let db = bench.workspace.database().await?;
    backlog::prepare(&db, Function::NOOP).await?;
    let whole = Part { name: "whole", replacements: &[] };
    let mut costs: Vec<(&Part, Vec<f64>, Vec<f64>)> =
        std::iter::once(&whole).chain(&PARTS).map(|part| (part, Vec::new(), Vec::new())).collect();
    for _ in 0..bench.scale.pick(3, 1) {
        for (part, micros, bytes) in &mut costs {
            let (each, wal) = drain(bench, &db, count, part).await?;
            micros.push(each);
            bytes.push(wal);
        }
    }
    let mut costs = costs.into_iter();
    let Some((_, micros, bytes)) = costs.next() else { return Ok(Vec::new()) };
    let goal = |most| Goal { reference: Reference::none("pgbench, one connection"), bar: Bar::AtMost(most) };
    let (mut time, mut wal) = (
        Figure::new("cost_cpu", "us", &micros, goal(45.0)),
        Figure::new("cost_wal", "B", &bytes, goal(1_800.0)),
    );
    for (part, without_micros, without_bytes) in costs {
        time = time.also(part.name, median(&micros) - median(&without_micros), "us");
        wal = wal.also(part.name, median(&bytes) - median(&without_bytes), "B");
    }
    Ok(vec![time, wal])
}

/// Microseconds of PostgreSQL and bytes of write-ahead log of each dispatch.
async fn drain(bench: &Bench<'_>, db: &Db, count: usize, part: &Part) -> anyhow::Result<(f64, f64)> {
    backlog::fill_with(db, count, Earlier::Nothing).await?;
    let file = bench.into.join("costs.sql");
    std::fs::write(&file, statements::script_with(reference::WORKER, reference::BATCH, part.replacements)?)?;
    let postmaster = bench.workspace.postmaster()?;
    let wal = || bench.workspace.admin.number(backlog::WAL);
    let (cpu_before, wal_before) = (cpu::of_server(postmaster)?, wal().await?);
    reference::pgbench(bench.workspace, db, &file, (1, count.div_ceil(reference::BATCH))).await?;
    let (cpu_after, wal_after) = (cpu::of_server(postmaster)?, wal().await?);
    let ended = db.count("SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'").await?;
    anyhow::ensure!(
        usize::try_from(ended)? == count,
        "{ended} of {count} dispatches ended without {}",
        part.name
    );
    Ok(((cpu_after - cpu_before) * 1e6 / count as f64, (wal_after - wal_before) / count as f64))
}

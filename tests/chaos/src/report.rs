//! How much a run was: faults by kind, and what came of fire times and triggers. Shown; decides nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use test_support::Client;

const FIGURES: [(&str, &str); 8] = [
    (
        "fire times expected",
        "SELECT count(*) FROM run.fires f JOIN scheduled_jobs j ON j.id = f.job_id WHERE f.at <= j.settled_until",
    ),
    ("dispatched", "SELECT count(*) FROM job_dispatch WHERE trigger_id IS NULL"),
    ("skipped", "SELECT coalesce(sum(fire_count), 0)::bigint FROM skipped_fires WHERE trigger_id IS NULL"),
    ("other dispatches", "SELECT count(*) FROM job_dispatch WHERE trigger_id IS NOT NULL"),
    ("attempts", "SELECT count(*) FROM job_execution_log"),
    ("lost attempts", "SELECT count(*) FROM job_execution_log WHERE status = 'LOST'"),
    ("terms of leaders", "SELECT count(*) FROM leader_terms"),
    ("answers to clients", "SELECT count(*) FROM run.answers WHERE action <> 'roles' AND status IS NOT NULL"),
];

/// The figures as text.
pub(crate) async fn figures(sql: &Client, timeline: &Path, planned: usize) -> anyhow::Result<String> {
    let mut kinds = BTreeMap::<String, usize>::new();
    for line in fs::read_to_string(timeline)?.lines() {
        let fault: Value = serde_json::from_str(line)?;
        *kinds.entry(fault["kind"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    // A daemon that ended by itself is what came of a fault.
    let ended = kinds.remove("exit").unwrap_or(0);
    let total: usize = kinds.values().sum();
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let mut text = format!(
        "{total} faults of {planned} planned: {}\n{ended} daemons ended by themselves and were started again\n",
        kinds.join(", ")
    );
    let mut figures = Vec::new();
    for (name, statement) in FIGURES {
        let count: i64 = sql.query_one(statement, &[]).await?.get(0);
        figures.push(format!("{count} {name}"));
    }
    text.push_str(&figures.join(", "));
    text.push('\n');
    Ok(text)
}

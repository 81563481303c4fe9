//! The extent of a run: faults by kind, and results of fire times and triggers. Decides nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use test_support::Client;

use crate::timeline::{EXIT, LEFT_OUT, RENEW, START};

const FIGURES: [(&str, &str); 11] = [
    (
        "fire times expected",
        "SELECT count(*) FROM run.fires f JOIN scheduled_jobs j ON j.id = f.job_id WHERE f.at <= j.settled_until",
    ),
    ("dispatched", "SELECT count(*) FROM job_dispatch WHERE trigger_id IS NULL"),
    ("skipped", "SELECT coalesce(sum(fire_count), 0)::bigint FROM skipped_fires WHERE trigger_id IS NULL"),
    ("other dispatches", "SELECT count(*) FROM job_dispatch WHERE trigger_id IS NOT NULL"),
    ("attempts", "SELECT count(*) FROM job_execution_log"),
    ("lost attempts", "SELECT count(*) FROM job_execution_log WHERE status = 'LOST'"),
    (
        "batches of ends counted by schedulers",
        "SELECT count(*) FROM witness.counts WHERE program LIKE 'sched-scheduler%'",
    ),
    ("by workers", "SELECT count(*) FROM witness.counts WHERE program LIKE 'sched-worker%'"),
    ("by a fault", "SELECT count(*) FROM witness.counts WHERE program = 'sched-counter'"),
    ("terms of leaders", "SELECT count(*) FROM leader_terms"),
    ("answers to clients", "SELECT count(*) FROM run.answers WHERE action <> 'roles' AND status IS NOT NULL"),
];

const SKIPS: &str = "SELECT reason, sum(fire_count)::bigint FROM skipped_fires GROUP BY 1 ORDER BY 2 DESC";

pub(crate) async fn figures(sql: &Client, timeline: &Path, planned: usize) -> anyhow::Result<String> {
    let (mut kinds, mut left_out) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    for line in fs::read_to_string(timeline)?.lines() {
        let fault: Value = serde_json::from_str(line)?;
        let kind = fault["kind"].as_str().unwrap_or_default();
        if kind == LEFT_OUT {
            let why = fault["detail"].as_str().unwrap_or_default().to_owned();
            *left_out.entry(why).or_default() += 1;
        } else {
            *kinds.entry(kind.to_owned()).or_default() += 1;
        }
    }
    // An exit without an order is a consequence of a fault.
    let ended = kinds.remove(EXIT).unwrap_or(0);
    kinds.remove(RENEW);
    kinds.remove(START);
    let total: usize = kinds.values().sum();
    let mut text = format!("{total} faults took place of {planned} planned: {}\n", list(&kinds));
    if !left_out.is_empty() {
        text.push_str(&format!("did not take place: {}\n", list(&left_out)));
    }
    text.push_str(&format!("{ended} daemons ended by themselves and were started again\n"));
    let mut figures = Vec::new();
    for (name, statement) in FIGURES {
        let count: i64 = sql.query_one(statement, &[]).await?.get(0);
        figures.push(format!("{count} {name}"));
    }
    text.push_str(&figures.join(", "));
    let skips = sql.query(SKIPS, &[]).await?;
    let skips: BTreeMap<String, usize> =
        skips.iter().map(|row| (row.get(0), usize::try_from(row.get::<_, i64>(1)).unwrap_or(0))).collect();
    text.push_str(&format!("\nskipped because: {}\n", list(&skips)));
    Ok(text)
}

fn list(counts: &BTreeMap<String, usize>) -> String {
    let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    counts.join(", ")
}

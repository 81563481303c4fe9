//! Losses of a failover: acknowledged requests that are missing on the promoted server, and work
//! whose record was lost. It only counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;
use test_support::Client;

/// The times of the events, in seconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    pub(super) killed: f64,
    pub(super) noticed: f64,
    pub(super) promoted: f64,
}

#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Acknowledged triggers, and the missing ones.
    pub(super) triggers: (usize, usize),
    /// Seconds from the acknowledgement of the earliest missing trigger to the end of the first
    /// server.
    pub(super) reach: f64,
    /// Dispatches with an executed job, and the missing ones.
    pub(super) ran: (usize, usize),
    /// Attempts that two programs executed, each as if it were the only one.
    pub(super) run_again: usize,
    /// Dispatches whose end the promoted server lost: they run until their time-out expires.
    pub(super) held_up: i64,
    /// Open dispatches without such a reason.
    pub(super) stuck: Vec<String>,
    /// First acknowledged write after the promotion, in seconds since the epoch.
    pub(super) first_write: Option<f64>,
}

const HELD_UP: &str =
    "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS' AND claimed_at < to_timestamp($1)";
/// Open, and not behind a held-up dispatch of its job or in the narrow queue.
const STUCK: &str = "SELECT d.id::text FROM job_dispatch d WHERE d.completed_at IS NULL AND NOT EXISTS (
    SELECT FROM job_dispatch h WHERE h.status = 'IN_PROGRESS' AND h.claimed_at < to_timestamp($1)
       AND (h.job_id = d.job_id OR (h.queue = d.queue AND h.queue = 'narrow')))";

pub(super) async fn count(
    sql: &Client,
    answers: &Path,
    effects: &Path,
    moments: Moments,
) -> anyhow::Result<Losses> {
    let Moments { killed, promoted, .. } = moments;
    let mut acknowledged = BTreeMap::new();
    let mut first_write: Option<f64> = None;
    for line in fs::read_to_string(answers)?.lines() {
        let answer: Value = serde_json::from_str(line)?;
        if answer["action"] != "trigger" || answer["status"] != 202 {
            continue;
        }
        let at = answer["at"].as_f64().context("the answer has no time")?;
        let id = answer["id"].as_str().context("the accepted trigger has no id")?;
        acknowledged.insert(id.to_owned(), at);
        if at > promoted && first_write.is_none_or(|first| at < first) {
            first_write = Some(at);
        }
    }
    let mut programs = BTreeMap::<(String, String), BTreeSet<String>>::new();
    for line in fs::read_to_string(effects)?.lines() {
        if let ["begin", dispatch, attempt, pid, _] = line.split(' ').collect::<Vec<_>>()[..] {
            programs.entry((dispatch.to_owned(), attempt.to_owned())).or_default().insert(pid.to_owned());
        }
    }
    let ran: BTreeSet<String> = programs.keys().map(|(dispatch, _)| dispatch.clone()).collect();
    let lost = missing(sql, &acknowledged.keys().cloned().collect::<Vec<_>>()).await?;
    let reach = lost.iter().filter_map(|id| acknowledged.get(id)).map(|at| killed - at).fold(0.0, f64::max);
    Ok(Losses {
        triggers: (acknowledged.len(), lost.len()),
        reach,
        ran: (ran.len(), missing(sql, &ran.into_iter().collect::<Vec<_>>()).await?.len()),
        run_again: programs.values().filter(|programs| programs.len() > 1).count(),
        held_up: sql.query_one(HELD_UP, &[&killed]).await?.get(0),
        stuck: sql.query(STUCK, &[&killed]).await?.iter().map(|row| row.get(0)).collect(),
        first_write,
    })
}

async fn missing(sql: &Client, ids: &[String]) -> anyhow::Result<Vec<String>> {
    let question = "SELECT wanted.id FROM unnest($1::text[]) AS wanted (id)
        WHERE NOT EXISTS (SELECT FROM job_dispatch d WHERE d.id = wanted.id::uuid)";
    Ok(sql.query(question, &[&ids]).await?.iter().map(|row| row.get(0)).collect())
}

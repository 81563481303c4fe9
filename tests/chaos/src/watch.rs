//! Polls the roles of all schedulers, and prints the progress of the run.
//!
//! Two schedulers may report leadership one after the other when it changes hands. Therefore the
//! observer queries the first again. There were two leaders at once if the first leads the same
//! term before and after the report of the other, all within a second.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sched_runtime::monotonic_clock;
use serde_json::{Value, json};
use test_support::http;
use tokio::time::{sleep, timeout};

use crate::clients::body_of;
use crate::timeline::{Lines, now};
use crate::workspace::Workspace;

const ASK: Duration = Duration::from_millis(400);
const TELL: Duration = Duration::from_secs(5);
/// A later response is not valid for the present.
const PRESENT: Duration = Duration::from_secs(1);

pub(crate) async fn roles(schedulers: Vec<(String, SocketAddr)>, answers: Arc<Lines>) {
    loop {
        sleep(ASK).await;
        let began = monotonic_clock::monotonic();
        let mut leaders = Vec::new();
        for (name, scheduler) in &schedulers {
            if let Some(term) = term_of(*scheduler).await {
                leaders.push((name.as_str(), *scheduler, term));
            }
        }
        let mut is_doubled = false;
        if let [(_, first, term), _, ..] = leaders[..] {
            is_doubled = term_of(first).await == Some(term) && began.elapsed() < PRESENT;
        }
        if !leaders.is_empty() {
            let terms: Vec<i64> = leaders.iter().map(|(_, _, term)| *term).collect();
            let names: Vec<&str> = leaders.iter().map(|(name, ..)| *name).collect();
            answers.add(&json!({"at": now(), "action": "roles", "target": format!("{terms:?}"), "state": names.join(","),
                                "is_foreign": is_doubled}));
        }
    }
}

async fn term_of(scheduler: SocketAddr) -> Option<i64> {
    let answer = timeout(PRESENT, http::get(scheduler, "/status")).await.ok()?.ok()?;
    let status: Value = body_of(&answer);
    (status["status"]["role"] == "leader").then(|| status["status"]["term"].as_i64())?
}

#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) timeline: Arc<Lines>,
    pub(crate) answers: Arc<Lines>,
    pub(crate) planned: usize,
    pub(crate) length: Duration,
}

impl Progress {
    pub(crate) async fn print(self) {
        let Self { workspace, timeline, answers, planned, length } = self;
        const FIGURES: &str = "SELECT (SELECT count(*) FROM job_dispatch WHERE trigger_id IS NULL), (SELECT count(*) FROM job_execution_log),
            (SELECT count(*) FROM job_dispatch WHERE completed_at IS NULL),
            coalesce((SELECT extract(epoch FROM max(now() - next_run_at)) FROM scheduled_jobs WHERE next_run_at < now() AND is_enabled), 0)::double precision";
        let began = monotonic_clock::monotonic();
        loop {
            sleep(TELL).await;
            let figures = async { anyhow::Ok(workspace.client().await?.query_one(FIGURES, &[]).await?) };
            let figures = match timeout(PRESENT, figures).await {
                Ok(Ok(row)) => {
                    let (fires, attempts, open, lag): (i64, i64, i64, f64) =
                        (row.get(0), row.get(1), row.get(2), row.get(3));
                    format!("{fires} fires, {attempts} attempts, {open} open, lag {lag:.1} s")
                }
                _ => "the database is away".to_owned(),
            };
            println!(
                "{:>4} of {} s: {} of {planned} faults, {figures}, {} answers",
                began.elapsed().as_secs(),
                length.as_secs(),
                timeline.faults(),
                answers.count()
            );
        }
    }
}

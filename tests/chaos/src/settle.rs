//! The phase after the faults: clients receive the outstanding responses, schedules that fire soon
//! are paused, and open runs end.
//!
//! Schedules are paused and not disabled, so that their cursors advance and can be checked.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use test_support::{Client as Sql, http};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::clients::{Client, SharedState};
use crate::plan::SWITCHED;

const LIMIT: Duration = Duration::from_secs(120);
const AT_ONCE: usize = 8;
const LOOK: Duration = Duration::from_millis(250);

/// Schedules that fire soon. Pausing all would take thousands of requests.
const FIRING: &str = "SELECT j.id::text, t.slug FROM scheduled_jobs j JOIN tenants t ON t.id = j.tenant_id
    WHERE j.scope = 'project' AND j.is_enabled AND NOT (j.is_paused AND j.paused_until IS NULL) AND j.job_type IN ('cron', 'interval')
      AND j.next_run_at < now() + interval '5 minutes'";
const OPEN: &str = "SELECT (SELECT count(*) FROM job_dispatch WHERE completed_at IS NULL), (SELECT count(*) FROM job_ends),
    (SELECT count(*) FROM scheduled_jobs WHERE scope = 'project' AND next_run_at < now() - interval '2 seconds'),
    (SELECT count(*) FROM uncounted_ends) + (SELECT count(*) FROM uncounted_openings)";

pub(crate) async fn settle(
    sql: &Sql,
    shared: &SharedState,
    clients: &mut [Client],
    is_broken: bool,
) -> anyhow::Result<()> {
    for client in clients {
        ensure!(client.finish().await, "a trigger has no answer although there are no faults");
    }
    let firing = sql.query(FIRING, &[]).await?;
    let api = *shared.apis.first().context("no API")?;
    // Runs that wait in them must end.
    for (collection, name) in SWITCHED {
        let answer = http::request(
            api,
            http::Request {
                method: "POST",
                path: &format!("/api/v1/{collection}/{name}/resume"),
                headers: &[],
                body: None,
            },
        )
        .await?;
        ensure!(
            answer.status == 200 || is_broken,
            "{name} of the {collection} is not resumed: {}",
            answer.body
        );
    }
    let mut pausing = JoinSet::new();
    for some in firing.chunks(firing.len().div_ceil(AT_ONCE).max(1)) {
        let some: Vec<(String, String)> = some.iter().map(|row| (row.get(0), row.get(1))).collect();
        pausing.spawn(pause(api, shared.their_bearer.clone(), some, is_broken));
    }
    while let Some(paused) = pausing.join_next().await {
        paused??;
    }
    let mut seen = String::new();
    // With a mutant, some runs may never end.
    let limit = if is_broken { LIMIT / 6 } else { LIMIT };
    for _ in 0..limit.as_millis() / LOOK.as_millis() {
        let row = sql.query_one(OPEN, &[]).await?;
        let (open, ends, due, uncounted): (i64, i64, i64, i64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        if open == 0 && ends == 0 && due == 0 && uncounted == 0 {
            return Ok(());
        }
        seen =
            format!("{open} dispatches open, {ends} ends untold, {due} jobs due, {uncounted} counts missing");
        sleep(LOOK).await;
    }
    // The checker reports the remaining runs.
    if seen.is_empty() {
        bail!("the open dispatches were not read");
    }
    println!("not settled after {limit:?}: {seen}");
    Ok(())
}

/// Pauses these jobs permanently.
async fn pause(
    api: SocketAddr,
    their_bearer: String,
    jobs: Vec<(String, String)>,
    is_broken: bool,
) -> anyhow::Result<()> {
    let theirs = [("authorization", their_bearer.as_str())];
    for (job, tenant) in jobs {
        let path = format!("/api/v1/jobs/{job}/pause");
        let headers: &[(&str, &str)] = if tenant == "default" { &[] } else { &theirs };
        let body = json!({"reason": "the end", "until": "never"});
        let answer = http::request(api, http::Request::post(&path, &body).with_headers(headers)).await?;
        ensure!(answer.status == 200 || is_broken, "a job is not paused: {}", answer.body);
    }
    Ok(())
}

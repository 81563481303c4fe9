//! What comes after the faults: clients get the answers they still want, every schedule is paused, and what is open is waited for.
//!
//! Schedules are paused and not disabled, so that their cursors go on and can be checked. Each wait is for a condition, and says what it saw last.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use test_support::{Client as Sql, http};
use tokio::time::sleep;

use crate::clients::{Client, Office};

/// How long what is open may take to end when there are no faults any more.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(250);

const FIRING: &str = "SELECT j.id::text, t.slug FROM scheduled_jobs j JOIN tenants t ON t.id = j.tenant_id
    WHERE j.scope = 'project' AND j.is_enabled AND NOT (j.is_paused AND j.paused_until IS NULL) AND j.job_type IN ('cron', 'interval')";
const OPEN: &str = "SELECT (SELECT count(*) FROM job_dispatch WHERE completed_at IS NULL), (SELECT count(*) FROM job_ends),
    (SELECT count(*) FROM scheduled_jobs WHERE scope = 'project' AND next_run_at < now() - interval '2 seconds')";

/// Returns when nothing is open.
pub(crate) async fn settle(
    sql: &Sql,
    office: &Office,
    clients: &mut [Client],
    is_broken: bool,
) -> anyhow::Result<()> {
    for client in clients {
        ensure!(client.finish().await, "a trigger is not answered without faults");
    }
    for row in sql.query(FIRING, &[]).await? {
        let (job, tenant): (String, String) = (row.get(0), row.get(1));
        let api = *office.apis.first().context("no API")?;
        let path = format!("/api/v1/jobs/{job}/pause");
        let theirs = [("authorization", office.their_bearer.as_str())];
        let headers: &[(&str, &str)] = if tenant == "default" { &[] } else { &theirs };
        let answer =
            http::request(api, "POST", &path, headers, Some(&json!({"reason": "the end", "until": "never"})))
                .await?;
        ensure!(answer.status == 200 || is_broken, "a job is not paused: {}", answer.body);
    }
    let mut seen = String::new();
    // What is broken may never end.
    let limit = if is_broken { LIMIT / 6 } else { LIMIT };
    for _ in 0..limit.as_millis() / LOOK.as_millis() {
        let row = sql.query_one(OPEN, &[]).await?;
        let (open, ends, due): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        if open == 0 && ends == 0 && due == 0 {
            return Ok(());
        }
        seen = format!("{open} dispatches open, {ends} ends untold, {due} jobs due");
        sleep(LOOK).await;
    }
    // The checker says what is wrong with it.
    if seen.is_empty() {
        bail!("nothing was looked at");
    }
    println!("not settled after {limit:?}: {seen}");
    Ok(())
}

//! Drains a worker and revokes the drain later, through any API that answers.
//!
//! A worker that loses its lease carries the drain over to its next registration. So the revocation
//! covers all registrations of the process. A revocation that fails is repeated after the faults,
//! because a remaining drain would leave work undone.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;
use test_support::http;
use tokio::time::sleep;

use crate::workspace::Workspace;

const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Drains the worker with this `process`; returns its id.
pub(crate) async fn request_drain(
    workspace: &Workspace,
    apis: &[SocketAddr],
    process: i32,
) -> anyhow::Result<String> {
    let worker = "SELECT worker_id::text FROM worker_registration WHERE process_id = $1 AND status <> 'OFFLINE' AND drain_requested_at IS NULL
                  ORDER BY started_at DESC LIMIT 1";
    let worker = workspace.client().await?.query_opt(worker, &[&process]).await?;
    let worker: String = worker.context("the worker is not registered")?.get(0);
    post(apis, &worker, "drain").await?;
    Ok(worker)
}

/// Revokes all drains of a process, or of all; false when some may remain.
pub(crate) async fn undrain(workspace: &Workspace, apis: &[SocketAddr], process: Option<i32>) -> bool {
    for _ in 0..TRIES {
        if undrain_once(workspace, apis, process).await.is_ok_and(|left| left == 0) {
            return true;
        }
        sleep(PAUSE).await;
    }
    false
}

async fn undrain_once(
    workspace: &Workspace,
    apis: &[SocketAddr],
    process: Option<i32>,
) -> anyhow::Result<usize> {
    let workers = "SELECT worker_id::text FROM worker_registration
                 WHERE process_id = coalesce($1, process_id) AND status <> 'OFFLINE' AND drain_requested_at IS NOT NULL";
    let workers = workspace.client().await?.query(workers, &[&process]).await?;
    for row in &workers {
        post(apis, row.get(0), "undrain").await?;
    }
    Ok(workers.len())
}

async fn post(apis: &[SocketAddr], worker: &str, action: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/workers/{worker}/{action}");
    for api in apis {
        if let Ok(answer) = http::post(*api, &path, &json!({})).await
            && answer.status == 202
        {
            return Ok(());
        }
    }
    bail!("no API accepts the request")
}

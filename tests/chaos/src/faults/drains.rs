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

use crate::place::Place;

const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Drains the worker with this `process`; returns its id.
pub(crate) async fn ask(place: &Place, apis: &[SocketAddr], process: i32) -> anyhow::Result<String> {
    let worker = "SELECT worker_id::text FROM worker_registration WHERE process_id = $1 AND status <> 'OFFLINE' AND drain_requested_at IS NULL
                  ORDER BY started_at DESC LIMIT 1";
    let worker = place.client().await?.query_opt(worker, &[&process]).await?;
    let worker: String = worker.context("the worker is not registered")?.get(0);
    tell(apis, &worker, "drain").await?;
    Ok(worker)
}

/// Revokes all drains of a process, or of all; false when some may remain.
pub(crate) async fn take_back(place: &Place, apis: &[SocketAddr], process: Option<i32>) -> bool {
    for _ in 0..TRIES {
        if once(place, apis, process).await.is_ok_and(|left| left == 0) {
            return true;
        }
        sleep(PAUSE).await;
    }
    false
}

async fn once(place: &Place, apis: &[SocketAddr], process: Option<i32>) -> anyhow::Result<usize> {
    let asked = "SELECT worker_id::text FROM worker_registration
                 WHERE process_id = coalesce($1, process_id) AND status <> 'OFFLINE' AND drain_requested_at IS NOT NULL";
    let asked = place.client().await?.query(asked, &[&process]).await?;
    for row in &asked {
        tell(apis, row.get(0), "undrain").await?;
    }
    Ok(asked.len())
}

async fn tell(apis: &[SocketAddr], worker: &str, what: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/workers/{worker}/{what}");
    for api in apis {
        if let Ok(answer) = http::post(*api, &path, &json!({})).await
            && answer.status == 202
        {
            return Ok(());
        }
    }
    bail!("no API accepts the request")
}

//! Clients that trigger continuously, so that the first acknowledged write after the promotion is
//! detected immediately.
//!
//! Each trigger has its own idempotency key and is sent once. It is logged with its response before
//! the next is sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use test_support::http;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::clients::body_of;
use crate::plan::BY_HAND;
use crate::timeline::{Lines, now};

/// Number of clients.
const PROBES: usize = 4;
/// Wait of each client between two triggers.
const PAUSE: Duration = Duration::from_millis(200);
/// Response timeout.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts the clients; they end when the value is dropped.
pub(super) fn start(apis: &[SocketAddr], answers: &Arc<Lines>) -> JoinSet<()> {
    let mut probes = JoinSet::new();
    for number in 0..PROBES {
        probes.spawn(trigger(number, apis.to_vec(), answers.clone()));
    }
    probes
}

async fn trigger(number: usize, apis: Vec<SocketAddr>, answers: Arc<Lines>) {
    let target = format!("by-hand-{}", number % BY_HAND);
    let path = format!("/api/v1/jobs/{target}/trigger");
    for (sent, api) in apis.iter().cycle().skip(number).enumerate() {
        let (key, body) = (format!("probe-{number}-{sent}"), json!({}));
        let headers = [("idempotency-key", key.as_str())];
        let request = http::request(*api, http::Request::post(&path, &body).with_headers(&headers));
        // A missing response and a late one are equivalent to a client that has stopped waiting.
        let answer = timeout(PATIENCE, request).await.ok().and_then(Result::ok);
        let told = answer.as_ref().map(body_of).unwrap_or_default();
        answers.add(
            &json!({"at": now(), "action": "trigger", "target": target, "tenant": "default", "key": key,
                            "status": answer.map(|answer| answer.status), "id": told["run_id"]}),
        );
        sleep(PAUSE).await;
    }
}

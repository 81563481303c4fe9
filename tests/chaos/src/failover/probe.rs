//! Clients that trigger continuously, to detect the first acknowledged write after the promotion.
//!
//! Each trigger has its own idempotency key and is sent once. It is logged with its response before
//! the next.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use test_support::http;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::clients::body_of;
use crate::plan::MANUAL_JOBS;
use crate::timeline::{Lines, now};

const PROBES: usize = 4;
const PAUSE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn start(apis: &[SocketAddr], answers: &Arc<Lines>) -> JoinSet<()> {
    let mut probes = JoinSet::new();
    for number in 0..PROBES {
        probes.spawn(trigger(number, apis.to_vec(), answers.clone()));
    }
    probes
}

async fn trigger(number: usize, apis: Vec<SocketAddr>, answers: Arc<Lines>) {
    let target = format!("by-hand-{}", number % MANUAL_JOBS);
    let path = format!("/api/v1/jobs/{target}/trigger");
    for (sent, api) in apis.iter().cycle().skip(number).enumerate() {
        let (key, body) = (format!("probe-{number}-{sent}"), json!({}));
        let headers = [("idempotency-key", key.as_str())];
        let request = http::request(*api, http::Request::post(&path, &body).with_headers(&headers));
        // A late response is equivalent to a missing one.
        let answer = timeout(PATIENCE, request).await.ok().and_then(Result::ok);
        let body = answer.as_ref().map(body_of).unwrap_or_default();
        answers.add(
            &json!({"at": now(), "action": "trigger", "target": target, "tenant": "default", "key": key,
                            "status": answer.map(|answer| answer.status), "id": body["run_id"]}),
        );
        sleep(PAUSE).await;
    }
}

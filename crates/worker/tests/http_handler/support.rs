//! Shared by the tests of the `http` handler: executions and scripted resolvers.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sched_runtime::monotonic_clock::monotonic;
use sched_worker::handlers::http::{AllowEntry, HttpHandler, HttpSettings, Resolve, Resolving};
use sched_worker::handlers::{Execution, Live, Report, Secrets};
use scripted_http::Server;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn execution(handler_config: Value) -> Execution {
    Execution {
        run_id: Uuid::from_u128(0xd),
        tenant_id: Uuid::from_u128(0xa),
        project_id: None,
        job_id: Uuid::from_u128(0xb),
        attempt_id: Uuid::new_v4(),
        job_name: "nightly report".into(),
        attempt: 2,
        fire_time: "2026-11-21T04:05:06.789Z".parse().unwrap(),
        lateness_ms: 42,
        catch_up: false,
        trigger: "api",
        details: None,
        idempotency_key: "key-1".into(),
        args: json!({"day": "mon/day", "n": 3}),
        timeout: Duration::from_secs(60),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        handler_config,
        live: Live::detached(),
        secrets: Secrets::default(),
        upstream: None,
    }
}

/// A handler that may call `allowed` besides the public Internet.
pub(crate) fn handler(allowed: &[&str]) -> HttpHandler {
    HttpHandler::new(settings(allowed)).unwrap()
}

pub(crate) fn settings(allowed: &[&str]) -> HttpSettings {
    let allow = allowed.iter().map(|target| target.parse::<AllowEntry>().unwrap()).collect();
    HttpSettings { allow, ..HttpSettings::default() }
}

pub(crate) async fn run(handler: &HttpHandler, config: Value) -> Report {
    handler.run(&execution(config), &CancellationToken::new()).await
}

pub(crate) async fn call(server: &Server, fields: Value) -> Report {
    run(&handler(&["127.0.0.1"]), config(server, fields)).await
}

pub(crate) fn config(server: &Server, fields: Value) -> Value {
    let mut config = json!({"url": server.url("/")});
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

/// A resolver that gives each name one answer after the other, and repeats the last.
#[derive(Debug, Default)]
pub(crate) struct ScriptedResolver {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) queries: AtomicUsize,
}

impl ScriptedResolver {
    pub(crate) fn name(&self, name: &str, answers: &[&[&str]]) {
        let parsed =
            answers.iter().map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), parsed);
    }
}

impl Resolve for ScriptedResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        self.queries.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.get_mut(name) {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(left) if left.len() > 1 => Ok(left.remove(0)),
            Some(left) => Ok(left[0].clone()),
        };
        Box::pin(std::future::ready(answer))
    }
}

pub(crate) async fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = monotonic();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "still not after {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

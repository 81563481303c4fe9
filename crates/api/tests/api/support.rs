//! An API in this process with its own port and database, and a client that can send any bytes.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use sched_api::{Config, PROGRAM, StartError, config::GROUPS};
use sched_model::domain::secret::{KEY_BYTES, key_line};
use sched_runtime::config::{MapSource, load};
use sched_runtime::daemon::Context;
use sched_runtime::service_manager::ServiceManager;
use sched_runtime::shutdown::Shutdown;
use sched_runtime::tasks::{OwnedTask, spawn_owned};
use sched_runtime::telemetry::metrics_recorder;
use sched_runtime::traces::Traces;
use sched_runtime::tracker::Tracker;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::http::Answer;
use test_support::identity::bearer;
use test_support::{Fixture, TestDatabase, wait_for};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::documented;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct TestApp {
    pub(crate) fixture: Fixture,
    pub(crate) addr: SocketAddr,
    shutdown: Shutdown,
    task: Task,
    _keys: TempDir,
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        Self::on(Fixture::bare().await, &["test"], &[]).await
    }

    /// Restarts the API on the same database with secret keys of these ids.
    pub(crate) async fn restart_with_keys(&mut self, ids: &[&str]) {
        self.ask_to_stop();
        tokio::time::timeout(LIMIT, &mut self.task).await.unwrap().unwrap().unwrap();
        let (addr, shutdown, task, keys) = launch(&self.fixture.db, ids);
        (self.addr, self.shutdown, self.task, self._keys) = (addr, shutdown, task, keys);
        self.wait_ready().await;
    }

    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::on(Fixture::bare().await, &[], settings).await
    }

    pub(crate) async fn twin(&self) -> Twin {
        let (addr, shutdown, task, keys) = launch(&self.fixture.db, &["test"]);
        wait_for("the other API is ready", LIMIT, async || {
            let answer = send(addr, Request::get("/health/ready")).await;
            if answer.status == 200 { Ok(()) } else { Err(answer.body) }
        })
        .await;
        Twin { addr, _shutdown: shutdown, _task: task, _keys: keys }
    }

    async fn on(fixture: Fixture, keys: &[&str], settings: &[(&str, &str)]) -> Self {
        test_support::identity::install(&fixture.client().await).await;
        let (addr, shutdown, task, keys) = launch_with(&fixture.db, keys, settings);
        let app = Self { fixture, addr, shutdown, task, _keys: keys };
        app.wait_ready().await;
        app
    }

    pub(crate) async fn wait_ready(&self) {
        wait_for("the API is ready", LIMIT, async || {
            let answer = self.get("/health/ready").await;
            if answer.status == 200 { Ok(()) } else { Err(answer.body) }
        })
        .await;
    }

    pub(crate) fn ask_to_stop(&self) {
        self.shutdown.trigger();
    }

    pub(crate) fn killed(self) -> Fixture {
        self.fixture
    }

    pub(crate) async fn ended(self) -> Result<(), StartError> {
        tokio::time::timeout(LIMIT, self.task).await.unwrap().unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.addr, Request::get(path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = [("content-type", "application/json")];
        send(self.addr, Request::post(path).headers(&headers).body(&body.to_string())).await
    }

    pub(crate) async fn send(&self, request: Request<'_>) -> Answer {
        send(self.addr, request).await
    }

    pub(crate) async fn apply(&self, manifest: &Value) -> Vec<String> {
        let answer = self.post("/api/v1/apply", manifest).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let line = |item: &Value| {
            let text = |key: &str| item[key].as_str().unwrap().to_owned();
            format!("{} {} {}", text("kind"), text("name"), text("change"))
        };
        answer.json()["results"].as_array().unwrap().iter().map(line).collect()
    }

    pub(crate) async fn with_jobs(&self, names: &[&str]) {
        let jobs: Vec<Value> = names.iter().map(|name| manual(name)).collect();
        self.apply(&json!({"task_functions": [function("f")], "jobs": jobs})).await;
    }
}

pub(crate) struct Twin {
    pub(crate) addr: SocketAddr,
    _shutdown: Shutdown,
    _task: Task,
    _keys: TempDir,
}

type Task = OwnedTask<Result<(), StartError>>;

/// An API that may not be ready yet, and the folder with one key per id.
fn launch(db: &TestDatabase, ids: &[&str]) -> (SocketAddr, Shutdown, Task, TempDir) {
    launch_with(db, ids, &[])
}

fn launch_with(
    db: &TestDatabase,
    ids: &[&str],
    settings: &[(&str, &str)],
) -> (SocketAddr, Shutdown, Task, TempDir) {
    let keys = tempfile::tempdir().unwrap();
    let file = keys.path().join("keys");
    let line = |id: &&str| {
        let byte = id.bytes().fold(0_u8, u8::wrapping_add);
        key_line(id, &[byte; KEY_BYTES]).expose_secret().to_owned()
    };
    fs::write(&file, ids.iter().map(line).collect::<String>()).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let mut variables =
        vec![("DATABASE_URL", db.url()), ("API_PORT", "0"), ("DATABASE_CONNECT_TIMEOUT", "1s")];
    if !ids.is_empty() {
        variables.push(("SECRETS_KEY_FILE", file.to_str().unwrap()));
    }
    variables.extend_from_slice(settings);
    let source: MapSource = variables.into_iter().collect();
    let mut values = load(&PROGRAM, GROUPS, ["sched-api"], &source).unwrap();
    let config = Config::read(&mut values);
    values.finish().unwrap();
    let shutdown = Shutdown::new();
    let metrics = metrics_recorder().unwrap();
    let context = Context {
        program: PROGRAM,
        shutdown: shutdown.clone(),
        metrics,
        traces: Traces::default(),
        tracker: Tracker::default(),
        service: ServiceManager::default(),
    };
    let server = sched_api::build(config, &context).unwrap();
    let addr = server.addr();
    let task = spawn_owned("api", {
        let shutdown = shutdown.clone();
        async move { server.run(&shutdown).await }
    });
    (addr, shutdown, task, keys)
}

pub(crate) fn function(name: &str) -> Value {
    json!({"name": name, "handler_type": "process", "handler_config": {"program": "true"}})
}

pub(crate) fn manual(name: &str) -> Value {
    json!({"name": name, "function": "f", "job_type": "manual"})
}

pub(crate) fn pointers(problem: &Value) -> Vec<String> {
    let errors = problem["errors"].as_array().cloned().unwrap_or_default();
    let mut found: Vec<String> =
        errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect();
    found.sort();
    found
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a str>,
}

impl<'a> Request<'a> {
    pub(crate) const fn new(method: &'a str, path: &'a str) -> Self {
        Self { method, path, headers: &[], body: None }
    }

    pub(crate) const fn get(path: &'a str) -> Self {
        Self::new("GET", path)
    }

    pub(crate) const fn post(path: &'a str) -> Self {
        Self::new("POST", path)
    }

    pub(crate) const fn put(path: &'a str) -> Self {
        Self::new("PUT", path)
    }

    pub(crate) const fn patch(path: &'a str) -> Self {
        Self::new("PATCH", path)
    }

    pub(crate) const fn delete(path: &'a str) -> Self {
        Self::new("DELETE", path)
    }

    pub(crate) const fn headers(self, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self { headers, ..self }
    }

    pub(crate) const fn body(self, body: &'a str) -> Self {
        Self { body: Some(body), ..self }
    }

    pub(crate) const fn optional_body(self, body: Option<&'a str>) -> Self {
        Self { body, ..self }
    }
}

/// Sends one request. Adds `Host` and, for paths of the API, the key of the tests, unless the
/// headers contain them.
pub(crate) async fn send(addr: SocketAddr, request: Request<'_>) -> Answer {
    let Request { method, path, headers, body } = request;
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str(&format!("host: {addr}\r\n"));
    }
    for (name, value) in headers {
        // An empty value means no header.
        if !(value.is_empty() && name.eq_ignore_ascii_case("authorization")) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    if path.contains("/api/") && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        text.push_str(&format!("authorization: {}\r\n", bearer()));
    }
    if let Some(body) = body {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body.unwrap_or_default());
    let answer = exchange(addr, &text).await;
    documented::check(addr, method, path, &answer).await;
    answer
}

async fn exchange(addr: SocketAddr, text: &str) -> Answer {
    let (mut from, mut to) = TcpStream::connect(addr).await.unwrap().into_split();
    let mut bytes = Vec::new();
    // A request with an excessive length gets its answer, and the connection closes, before all of
    // it was sent.
    let (written, read) = tokio::join!(to.write_all(text.as_bytes()), from.read_to_end(&mut bytes));
    let seen = String::from_utf8_lossy(&bytes);
    assert!(seen.starts_with("HTTP/1.1 "), "no answer: {written:?} {read:?} {seen:?}");
    answer(&seen)
}

pub(crate) fn answer(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_owned(), value.to_owned())
    };
    Answer { status, headers: lines.map(header).collect(), body: body.to_owned() }
}

/// Like [`send`], for a body without a length header.
pub(crate) async fn send_unsized(
    addr: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut text = format!("POST {path} HTTP/1.1\r\nconnection: close\r\nhost: {addr}\r\n");
    text.push_str(&format!("authorization: {}\r\n", bearer()));
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    exchange(addr, &format!("{text}\r\n{body}")).await
}

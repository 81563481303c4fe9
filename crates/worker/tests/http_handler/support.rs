//! Shared by the tests of the `http` handler: executions, scripted servers and scripted resolvers.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::{OwnedTask, spawn_owned};
use sched_worker::handlers::http::{AllowEntry, HttpHandler, HttpSettings, Resolve, Resolving};
use sched_worker::handlers::{Execution, Live, Report, Secrets};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Timeout of a condition on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn execution(handler_config: Value) -> Execution {
    Execution {
        run_id: Uuid::from_u128(0xd),
        tenant_id: Uuid::from_u128(0xa),
        job_id: Uuid::from_u128(0xb),
        attempt_id: Uuid::new_v4(),
        job_name: "nightly report".into(),
        attempt: 2,
        fire_time: "2026-11-21T04:05:06.789Z".parse().unwrap(),
        lateness_ms: 42,
        catch_up: false,
        idempotency_key: "key-1".into(),
        args: json!({"day": "mon/day", "n": 3}),
        timeout: Duration::from_secs(60),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        handler_config,
        live: Live::detached(),
        secrets: Secrets::default(),
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

/// Runs a configuration with default settings otherwise.
pub(crate) async fn run(handler: &HttpHandler, config: Value) -> Report {
    handler.run(&execution(config), &CancellationToken::new()).await
}

/// Calls the server once, from a handler that may call it.
pub(crate) async fn call(server: &Server, fields: Value) -> Report {
    run(&handler(&["127.0.0.1"]), config(server, fields)).await
}

/// A configuration that calls the server.
pub(crate) fn config(server: &Server, fields: Value) -> Value {
    let mut config = json!({"url": server.url("/")});
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

/// One step of a server after it has read a request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    /// Sends this repeatedly.
    Flood(Vec<u8>),
    /// Sends this repeatedly, with a pause after each time.
    Drip(Vec<u8>, Duration),
    /// Waits until the client disconnects.
    Hang,
    /// Ends the connection with a reset.
    Reset,
    /// Reads the next request on the same connection.
    Next,
}

/// A server that does the same for every connection: reads a request, executes the steps, closes.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    counters: Arc<Counters>,
    _task: OwnedTask<()>,
}

#[derive(Debug, Default)]
struct Counters {
    connections: AtomicUsize,
    ended: AtomicUsize,
    requests: Mutex<Vec<String>>,
}

pub(crate) fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

/// A complete response with a status, headers (each with its line end) and a body.
pub(crate) fn response(status: u16, headers: &str, body: &str) -> Step {
    send(&format!("HTTP/1.1 {status} Word\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len()))
}

impl Server {
    pub(crate) async fn start(steps: Vec<Step>) -> Self {
        Self::bound("127.0.0.1:0", steps).await
    }

    pub(crate) async fn bound(to: &str, steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind(to).await.unwrap();
        let address = listener.local_addr().unwrap();
        let counters = Arc::new(Counters::default());
        let shared = counters.clone();
        let task = spawn_owned("server", async move {
            let mut connections = Vec::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let (counters, steps) = (shared.clone(), steps.clone());
                connections.push(spawn_owned("connection", async move {
                    // The client may disconnect at any moment, which most of these tests rely on.
                    let _ = serve(stream, &steps, &counters).await;
                    counters.ended.fetch_add(1, Ordering::SeqCst);
                }));
            }
        });
        Self { address, counters, _task: task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.counters.connections.load(Ordering::SeqCst)
    }

    /// Number of ended connections.
    pub(crate) fn ended(&self) -> usize {
        self.counters.ended.load(Ordering::SeqCst)
    }

    /// The received requests, heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.counters.requests.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, steps: &[Step], counters: &Counters) -> io::Result<()> {
    loop {
        let request = read_request(&mut stream).await?;
        counters.requests.lock().unwrap().push(request);
        let mut is_last = true;
        for step in steps {
            match step {
                Step::Send(bytes) => stream.write_all(bytes).await?,
                Step::Flood(bytes) => loop {
                    stream.write_all(bytes).await?;
                },
                Step::Drip(bytes, pause) => loop {
                    stream.write_all(bytes).await?;
                    tokio::time::sleep(*pause).await;
                },
                Step::Hang => while stream.read(&mut [0; 1024]).await? > 0 {},
                Step::Reset => {
                    stream.set_zero_linger()?;
                    return Ok(());
                }
                Step::Next => is_last = false,
            }
        }
        if is_last {
            return stream.shutdown().await;
        }
    }
}

pub(crate) async fn read_request(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> io::Result<String> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
            })
            .unwrap_or(0);
        if body.len() >= length {
            return Ok(text);
        }
    }
}

/// A resolver with scripted answers: each name has one answer after the other, and repeats the
/// last.
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

/// Waits until `condition` is true. A timeout prints `what`.
pub(crate) async fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = monotonic();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "still not after {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::HealthSettings;
use crate::exit::{BoxError, ExitStatus};
use crate::tasks::{OwnedTask, spawn_owned};

const PROGRAM: Program = Program::new("sched-worker", "1.2.3", "Runs jobs");
const ANY: HealthSettings = HealthSettings { host: std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port: 0 };

struct Fixed(Mutex<(Liveness, Readiness)>);

impl StatusSource for Fixed {
    fn ready(&self) -> Readiness {
        self.0.lock().unwrap().1.clone()
    }

    fn live(&self) -> Liveness {
        self.0.lock().unwrap().0.clone()
    }

    fn status(&self) -> Value {
        json!({"slots": 10})
    }
}

struct Served {
    source: Arc<Fixed>,
    addr: SocketAddr,
    cancel: CancellationToken,
    task: OwnedTask<Result<(), BoxError>>,
}

fn state(source: Arc<Fixed>) -> HealthState {
    HealthState::new(&PROGRAM, source, crate::telemetry::metrics_recorder().unwrap())
}

fn serve() -> Served {
    let source = Arc::new(Fixed(Mutex::new((Liveness::Alive, Readiness::Ready))));
    let server = HealthServer::bind(&ANY, state(source.clone())).unwrap();
    let (addr, cancel) = (server.addr(), CancellationToken::new());
    let task = spawn_owned("health", server.run(cancel.clone()));
    Served { source, addr, cancel, task }
}

fn code(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

impl Served {
    fn becomes(&self, live: Liveness, ready: Readiness) {
        *self.source.0.lock().unwrap() = (live, ready);
    }

    async fn request(&self, method: &str, path: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (code(head), head.to_ascii_lowercase(), body.to_owned())
    }

    async fn json(&self, path: &str) -> (u16, Value) {
        let (code, head, body) = self.request("GET", path).await;
        assert!(head.contains("content-type: application/json"), "{path}: {head}");
        (code, serde_json::from_str(&body).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_codes_follow_what_the_daemon_says() {
    let served = serve();
    let broken = || "no database for 12s".to_owned();
    for (live, ready, codes) in [
        (Liveness::Alive, Readiness::Ready, [200, 200, 200]),
        (Liveness::Alive, Readiness::NotReady(broken()), [503, 200, 503]),
        (Liveness::Stuck(broken()), Readiness::Ready, [503, 503, 200]),
    ] {
        served.becomes(live, ready);
        for (path, code) in ["/health", "/health/live", "/health/ready"].into_iter().zip(codes) {
            let (found, body) = served.json(path).await;
            assert_eq!(found, code, "{path}");
            assert_eq!(body["status"], if code == 200 { "ok" } else { "unavailable" });
            assert_eq!(body["reason"], if code == 200 { Value::Null } else { broken().into() });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_there_with_its_headers_and_only_the_root_tells_the_version() {
    let served = serve();
    let (_, root) = served.json("/").await;
    assert_eq!((&root["service"], &root["version"]), (&json!("sched-worker"), &json!("1.2.3")));
    assert_eq!(root["endpoints"], json!(PATHS));
    assert_eq!(served.json("/status").await.1["status"], json!({"slots": 10}));
    for path in PATHS.iter().copied().chain(["/", "/nowhere"]) {
        let (code, head, body) = served.request("GET", path).await;
        assert_eq!(code, if path == "/nowhere" { 404 } else { 200 }, "{path}");
        for header in ["x-content-type-options: nosniff", "x-frame-options: deny", "cache-control: no-store"]
        {
            assert!(head.contains(header), "{path} lacks {header}: {head}");
        }
        assert!(!head.contains("\r\nserver:") && !head.contains("1.2.3"), "{path}: {head}");
        assert!(["/", "/metrics"].contains(&path) || !body.contains("1.2.3"), "{path}: {body}");
    }
    assert_eq!(served.request("HEAD", "/health").await.0, 200);
    let (code, head, _) = served.request("POST", "/health").await;
    assert!(code == 405 && head.contains("allow: get, head"), "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_the_build_and_the_uptime() {
    let (code, head, body) = serve().request("GET", "/metrics").await;
    assert!(code == 200 && head.contains("text/plain"), "{head}");
    assert!(body.contains(r#"sched_build_info{version="1.2.3",daemon="worker"} 1"#), "{body}");
    assert!(body.contains("\nsched_process_uptime_seconds "), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_names_the_address_and_the_setting() {
    let served = serve();
    let taken = HealthSettings { port: served.addr.port(), ..ANY };
    let error = HealthServer::bind(&taken, state(served.source.clone())).unwrap_err();
    assert_eq!(error.exit_code(), crate::exit::LISTEN);
    let text = crate::exit::describe(&error);
    assert!(text.contains(&served.addr.to_string()) && text.contains("--health-port"), "{text}");
}

#[tokio::test]
async fn a_runtime_that_is_stuck_does_not_keep_the_pages_from_answering() {
    let served = serve();
    assert_eq!(served.request("GET", "/health").await.0, 200);
    // The only thread of this runtime is blocked until the response.
    let mut stream = std::net::TcpStream::connect(served.addr).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(code(&answer), 200);
}

#[tokio::test]
async fn the_server_ends_when_asked_to_even_on_a_single_threaded_runtime() {
    let served = serve();
    assert_eq!(served.request("GET", "/health").await.0, 200);
    served.cancel.cancel();
    served.task.await.unwrap().unwrap();
    assert!(TcpStream::connect(served.addr).await.is_err());
}

//! Endpoints that mean harm: the worker ends every call within its bounds, says what was wrong, and keeps nothing of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use system_tests::{Installation, PATIENCE, processes};
use test_support::wait_for;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Bytes that the bomb is when it is unpacked.
const BOMB: usize = 200 << 20;

/// Files that a worker may have open more than before: connections to its database.
const SPARE_FILES: usize = 8;

/// Most memory a worker may have had, in megabytes: less than one unpacked bomb, or than a second of a flood.
const MOST_MEMORY: u64 = 150;

/// Dispatches that came to an end.
const OVER: &str = "SELECT count(*) FROM job_dispatch WHERE completed_at IS NOT NULL";

/// How often each job is run.
const RUNS: usize = 4;

/// A server whose every path is a trap; it remembers what it was asked under which idempotency key.
struct Trap {
    address: SocketAddr,
    asked: Arc<Mutex<BTreeMap<(String, String), usize>>>,
    _serving: JoinSet<()>,
}

impl Trap {
    async fn start(bomb: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, bomb) = (Arc::<Mutex<BTreeMap<_, _>>>::default(), Arc::new(bomb));
        let (noted, mut serving) = (asked.clone(), JoinSet::new());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (noted, bomb) = (noted.clone(), bomb.clone());
                // That the worker goes away in the middle is what this is about.
                connections.spawn(async move { serve(stream, &noted, &bomb).await.unwrap_or_default() });
            }
        });
        Self { address, asked, _serving: serving }
    }

    /// How often it was asked for a path under each key.
    fn asked(&self, path: &str) -> Vec<usize> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|((of, _), _)| of == path).map(|(_, count)| *count).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    noted: &Mutex<BTreeMap<(String, String), usize>>,
    bomb: &[u8],
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let (path, key) = loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let key = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("idempotency-key").then(|| value.to_owned())
            });
            break (path, key.unwrap_or_default());
        }
    };
    let times = {
        let mut noted = noted.lock().unwrap();
        let times = noted.entry((path.clone(), key)).or_default();
        *times += 1;
        *times
    };
    // It closes each connection and says so: a client that sent its next request just then could not know whether that one was read.
    let ok = |headers: &str| format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}\r\n").into_bytes();
    match path.as_str() {
        "/drip" => {
            stream.write_all(&ok("Content-Length: 1000000\r\n")).await?;
            loop {
                stream.write_all(b".").await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        "/drip-head" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: ").await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        "/headers" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            loop {
                stream.write_all(format!("X-Large: {}\r\n", "y".repeat(8000)).as_bytes()).await?;
            }
        }
        "/flood" => {
            stream.write_all(&ok("")).await?;
            loop {
                stream.write_all(&[b'z'; 65536]).await?;
            }
        }
        "/metadata" => {
            let location = "Location: http://169.254.169.254/latest/meta-data/\r\nContent-Length: 0\r\n";
            let head = format!("HTTP/1.1 302 Found\r\nConnection: close\r\n{location}\r\n");
            stream.write_all(head.as_bytes()).await?;
        }
        "/bomb" => {
            let length = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", bomb.len());
            stream.write_all(&ok(&length)).await?;
            stream.write_all(bomb).await?;
        }
        // What was asked for is done, and then nobody is told, the first time.
        "/reset" if times == 1 => {
            stream.set_zero_linger()?;
            return Ok(());
        }
        _ => {
            stream.write_all(&ok("Content-Length: 2\r\n")).await?;
            stream.write_all(b"ok").await?;
        }
    }
    stream.shutdown().await
}

/// Zeros, packed.
fn packed() -> Vec<u8> {
    let command = format!("head -c {BOMB} /dev/zero | gzip -9");
    let packed = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(packed.status.success() && packed.stdout.len() < BOMB / 500, "{:?}", packed.status);
    packed.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_http_servers_get_a_class_of_error_each_and_nothing_else() {
    let trap = Trap::start(packed()).await;
    let mut system = Installation::with(1, 0).await;
    let allowed = trap.address.to_string();
    system.start_worker(&[("WORKER_HTTP_ALLOW", &allowed), ("WORKER_CONCURRENCY", "16")]).await;
    // A job, its URL and what else its function says; the outcome of its attempts, of each dispatch in order.
    let of_trap = |path: &str| format!("http://{allowed}{path}");
    let picks = json!({"result": "/data"});
    let table: [(&str, String, Value, &[&str]); 11] = [
        ("fair", of_trap("/fair"), json!({}), &["COMPLETED -"]),
        ("drip", of_trap("/drip"), picks.clone(), &["TIMEOUT timeout"]),
        ("drip-head", of_trap("/drip-head"), json!({}), &["TIMEOUT timeout"]),
        ("headers", of_trap("/headers"), json!({}), &["FAILED response_invalid"]),
        ("flood", of_trap("/flood"), json!({}), &["COMPLETED -"]),
        ("flood-picked", of_trap("/flood"), picks.clone(), &["FAILED response_invalid"]),
        ("redirect", of_trap("/metadata"), json!({}), &["FAILED request_rejected"]),
        (
            "metadata",
            "http://169.254.169.254/latest/meta-data/".into(),
            json!({}),
            &["FAILED target_refused"],
        ),
        ("bomb", of_trap("/bomb"), json!({}), &["COMPLETED -"]),
        ("bomb-picked", of_trap("/bomb"), picks, &["FAILED response_invalid"]),
        ("reset", of_trap("/reset"), json!({}), &["FAILED unreachable", "COMPLETED -"]),
    ];
    let mut manifest = json!({"task_functions": [], "jobs": []});
    for (name, url, more, attempts) in &table {
        let mut config = json!({"url": url, "circuit_breaker": {"failures": 0}});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let function = json!({
            "name": name, "handler_type": "http", "handler_config": config, "default_timeout_seconds": 2,
        });
        let policy = json!({"max_attempts": attempts.len(), "backoff_seconds": 0, "jitter_percent": 0});
        let job = json!({
            "name": name, "function": name, "job_type": "manual", "retry_policy": policy,
            "overlap_policy": "allow", "max_instances": 100,
        });
        manifest["task_functions"].as_array_mut().unwrap().push(function);
        manifest["jobs"].as_array_mut().unwrap().push(job);
    }
    system.apply(&manifest).await;
    system.trigger("fair").await;
    system.wait_count("the first call", OVER, 1).await;
    let worker = system.workers[0].id();
    let files = processes::open_files(worker) + SPARE_FILES;

    for _ in 0..RUNS {
        for (name, ..) in &table {
            system.trigger(name).await;
        }
    }
    let all = i64::try_from(1 + RUNS * table.len()).unwrap();
    system.wait_count("the end of every call", OVER, all).await;

    for (name, .., expected) in &table {
        let attempts = format!(
            "SELECT string_agg(DISTINCT attempts, ' | ') FROM (
                 SELECT string_agg(l.status || ' ' || coalesce(l.error_class, '-'), ', ' ORDER BY l.attempt) AS attempts
                 FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id
                 WHERE j.name = '{name}' GROUP BY l.dispatch_id) d"
        );
        assert_eq!(system.text(&attempts).await, expected.join(", "), "{name}");
    }
    // Done twice under one key, which is how the receiver knows.
    assert_eq!(trap.asked("/reset"), [2; RUNS]);
    // The redirect was a response, and the address behind it never called: that would have been another error.
    assert_eq!(trap.asked("/metadata").len(), RUNS);
    let kept = "SELECT max(kept) FROM (SELECT sum(octet_length(content)) AS kept FROM job_execution_output GROUP BY execution_id) k";
    assert!(system.count(kept).await <= 64 << 10, "a response was kept beyond its limit");
    let memory = processes::most_memory(worker);
    println!("{} calls of traps: the worker had {memory} MB at most", all - 1);
    assert!(memory < MOST_MEMORY, "the worker had {memory} MB");
    wait_for(
        "the worker to have let go of every connection",
        PATIENCE,
        async || match processes::open_files(worker) {
            open if open <= files => Ok(()),
            open => Err(format!("{open} files of {files}")),
        },
    )
    .await;
    system.check_invariants().await;
}

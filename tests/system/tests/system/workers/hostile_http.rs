//! Malicious endpoints: the worker ends every call within its bounds, reports the error, and keeps
//! nothing of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use scripted_http::{Request, Response, Script as _, Server, Step};
use serde_json::{Value, json};
use system_tests::{Installation, PATIENCE, processes};
use test_support::wait_for;

/// Unpacked size of the bomb in bytes.
const BOMB: usize = 200 << 20;

/// Additional open files of a worker: connections to its database.
const SPARE_FILES: usize = 8;

/// Peak memory of a worker in megabytes: less than one unpacked bomb, or than a second of a flood.
const MOST_MEMORY: u64 = 150;

const OVER: &str = "SELECT count(*) FROM job_dispatch WHERE completed_at IS NOT NULL";

const RUNS: usize = 4;

fn start_trap(bomb: Vec<u8>) -> Server {
    // The server announces the close. Otherwise a client may send the next request at that moment,
    // and cannot know whether the server has read it.
    let ok = |headers: &str| Step::send(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}\r\n"));
    let pause = Duration::from_millis(50);
    let keys = Mutex::new(BTreeSet::new());
    Server::start(move |request: &Request| match request.path.as_str() {
        "/drip" => vec![ok("Content-Length: 1000000\r\n"), Step::Drip(b".".to_vec(), pause)],
        "/drip-head" => vec![Step::send("HTTP/1.1 200 OK\r\nX-Slow: "), Step::Drip(b"x".to_vec(), pause)],
        "/headers" => {
            let header = format!("X-Large: {}\r\n", "y".repeat(8000));
            vec![Step::send("HTTP/1.1 200 OK\r\n"), Step::Flood(header.into())]
        }
        "/flood" => vec![ok(""), Step::Flood(vec![b'z'; 65536])],
        "/metadata" => {
            let location = "http://169.254.169.254/latest/meta-data/";
            Response::new(302).header("Location", location).steps(request)
        }
        "/bomb" => Response::new(200).header("Content-Encoding", "gzip").body(bomb.clone()).steps(request),
        // The server reads the request and sends no response, the first time.
        "/reset" if keys.lock().unwrap().insert(key(request)) => vec![Step::Reset],
        _ => Response::new(200).body("ok").steps(request),
    })
}

fn key(request: &Request) -> String {
    request.header("idempotency-key").unwrap_or_default().to_owned()
}

/// Number of requests for a path by idempotency key.
fn requests_by_key(trap: &Server, path: &str) -> Vec<usize> {
    let mut counts = BTreeMap::<String, usize>::new();
    for request in trap.requests().iter().filter(|request| request.path == path) {
        *counts.entry(key(request)).or_default() += 1;
    }
    counts.into_values().collect()
}

fn packed() -> Vec<u8> {
    let command = format!("head -c {BOMB} /dev/zero | gzip -9");
    let packed = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(packed.status.success() && packed.stdout.len() < BOMB / 500, "{:?}", packed.status);
    packed.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_http_servers_get_a_class_of_error_each_and_nothing_else() {
    let trap = start_trap(packed());
    let mut system = Installation::with(1, 0).await;
    let allowed = trap.address().to_string();
    system.start_worker(&[("WORKER_HTTP_ALLOW", &allowed), ("WORKER_CONCURRENCY", "16")]).await;
    // A job, its URL and other settings of its function; the outcomes of the attempts of each
    // dispatch in order.
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
    // Two requests with one key, by which the receiver detects the repetition.
    assert_eq!(requests_by_key(&trap, "/reset"), [2; RUNS]);
    // The redirect was a response. A call of its target would have been another error.
    assert_eq!(requests_by_key(&trap, "/metadata").len(), RUNS);
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

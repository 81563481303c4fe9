//! Rejections: each is a problem document with status, code and pointer.

use sched_wire::{PROBLEM_JSON, Problem};
use serde_json::json;
use test_support::http::Answer;
use test_support::identity::bearer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{LIMIT, Request, TestApp, answer, send};

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const GOOD: &str = r#"{"name": "a", "function": "f", "job_type": "manual"}"#;

type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Option<&'a str>, u16, &'a str, &'a str);

#[rustfmt::skip]
const CASES: &[Case<'static>] = &[
    ("GET", "/nothing", &[], None, 404, "no_such_path", ""),
    ("GET", "/api/v1/", &[], None, 404, "no_such_path", ""),
    ("GET", "/api/v2/jobs", &[], None, 404, "no_such_path", ""),
    ("DELETE", "/api/v1/jobs", &[], None, 405, "method_not_allowed", ""),
    ("GET", "/api/v1/apply", &[], None, 405, "method_not_allowed", ""),
    ("GET", "/api/v1/jobs/nobody", &[], None, 404, "not_found", ""),
    ("GET", "/api/v1/jobs/a%00b", &[], None, 404, "not_found", ""),
    ("GET", "/api/v1/jobs/0193a1de-0000-7000-8000-000000000000", &[], None, 404, "not_found", ""),
    ("POST", "/api/v1/jobs/nobody/trigger", &[], None, 404, "not_found", ""),
    ("GET", "/api/v1/calendars/nobody", &[], None, 404, "not_found", ""),
    ("GET", "/api/v1/calendars/a%00b", &[], None, 404, "not_found", ""),
    ("DELETE", "/api/v1/calendars/nobody", &[], None, 404, "not_found", ""),
    ("DELETE", "/api/v1/calendars/a%00b", &[], None, 404, "not_found", ""),
    ("DELETE", "/api/v1/calendars/a?force=1", &[], None, 400, "invalid_parameters", "force"),
    ("DELETE", "/api/v1/calendars", &[], None, 405, "method_not_allowed", ""),
    ("POST", "/api/v1/calendars/a", JSON, Some("{}"), 405, "method_not_allowed", ""),
    ("PUT", "/api/v1/calendars/a", JSON, None, 400, "malformed_json", ""),
    ("PUT", "/api/v1/calendars/a", &[], Some("{}"), 415, "unsupported_media_type", ""),
    ("PUT", "/api/v1/calendars/A", JSON, Some(r#"{"weekly": ["SUN"]}"#), 400, "invalid_parameters", "name"),
    ("PUT", "/api/v1/calendars/a", &[("origin", "http://evil.example"), ("authorization", "")], None, 403, "cross_site", ""),
    ("GET", "/api/v1/runs/0193a1de-0000-7000-8000-000000000000", &[], None, 404, "not_found", ""),
    ("GET", "/api/v1/runs/12", &[], None, 400, "invalid_parameters", "id"),
    ("GET", "/api/v1/attempts/x", &[], None, 400, "invalid_parameters", "id"),
    ("GET", "/api/v1/attempts/0193a1de-0000-7000-8000-000000000000/output", &[], None, 404, "not_found", ""),
    ("GET", "/api/v1/runs?job=nobody", &[], None, 404, "not_found", ""),
    ("GET", "/api/v1/jobs?limit=0", &[], None, 400, "invalid_parameters", "limit"),
    ("GET", "/api/v1/jobs?limit=201", &[], None, 400, "invalid_parameters", "limit"),
    ("GET", "/api/v1/jobs?limit=many", &[], None, 400, "invalid_parameters", "limit"),
    ("GET", "/api/v1/jobs?cursor=%00", &[], None, 400, "invalid_parameters", "cursor"),
    ("GET", "/api/v1/jobs?q=%ff", &[], None, 400, "invalid_parameters", "q"),
    ("GET", "/api/v1/jobs?name=a", &[], None, 400, "invalid_parameters", "name"),
    ("GET", "/api/v1/jobs/a?verbose=1", &[], None, 400, "invalid_parameters", "verbose"),
    ("GET", "/api/v1/runs?cursor=a", &[], None, 400, "invalid_parameters", "cursor"),
    ("GET", "/api/v1/runs?status=often", &[], None, 400, "invalid_parameters", "status"),
    ("GET", "/api/v1/attempts?run=1", &[], None, 400, "invalid_parameters", "run"),
    ("GET", "/api/v1/status?x=1", &[], None, 400, "invalid_parameters", "x"),
    ("POST", "/api/v1/jobs", JSON, None, 400, "malformed_json", ""),
    ("POST", "/api/v1/jobs", JSON, Some("{"), 400, "malformed_json", ""),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a", "name": "b"}"#), 400, "malformed_json", ""),
    ("POST", "/api/v1/jobs", &[], Some(GOOD), 415, "unsupported_media_type", ""),
    ("POST", "/api/v1/jobs", &[("content-type", "text/plain")], Some(GOOD), 415, "unsupported_media_type", ""),
    ("POST", "/api/v1/jobs?dry_run=1", JSON, Some(GOOD), 400, "invalid_parameters", "dry_run"),
    ("POST", "/api/v1/jobs", JSON, Some("[]"), 422, "invalid", ""),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a\u0000", "function": "f", "job_type": "manual"}"#), 422, "invalid", "/name"),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a", "function": "f", "job_type": "manual", "id": "1"}"#), 422, "invalid", "/id"),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a", "function": "f", "job_type": "manual", "next_run_at": "x"}"#), 422, "invalid", "/next_run_at"),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a", "function": "f", "job_type": "manual", "priority": "x"}"#), 422, "invalid", "/priority"),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a", "function": "f", "job_type": "often"}"#), 422, "invalid", "/job_type"),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a", "function": "f", "job_type": "manual", "overlap_policy": "wait"}"#), 422, "invalid", "/overlap_policy"),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a", "function": "f", "job_type": "manual", "timezone": "Mars"}"#), 422, "invalid", "/timezone"),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a", "function": "f", "job_type": "manual", "task_args": []}"#), 422, "invalid", "/task_args"),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "a", "function": "f", "job_type": "cron", "schedule_config": {"expression": "0 0 31 2 *"}}"#), 422, "invalid", "/schedule_config/expression"),
    ("POST", "/api/v1/jobs", JSON, Some(r#"{"name": "A b", "function": "f", "job_type": "manual"}"#), 422, "invalid", "/name"),
    ("POST", "/api/v1/jobs", JSON, Some(GOOD), 422, "invalid", "/function"),
    ("GET", "/api/v1/schedules/preview", &[], None, 405, "method_not_allowed", ""),
    ("POST", "/api/v1/schedules/preview", JSON, None, 400, "malformed_json", ""),
    ("POST", "/api/v1/schedules/preview?count=3", JSON, Some(r#"{"job_type": "manual"}"#), 400, "invalid_parameters", "count"),
    ("GET", "/api/v1/jobs/nobody/preview", &[], None, 404, "not_found", ""),
    ("GET", "/api/v1/jobs/a/preview?count=0", &[], None, 400, "invalid_parameters", "count"),
    ("GET", "/api/v1/jobs/a/preview?count=1001", &[], None, 400, "invalid_parameters", "count"),
    ("GET", "/api/v1/jobs/a/preview?after=now", &[], None, 400, "invalid_parameters", "after"),
    ("GET", "/api/v1/jobs/a/preview?until=2030-01-01T00:00:00Z", &[], None, 400, "invalid_parameters", "until"),
    ("POST", "/api/v1/apply", JSON, Some("[]"), 422, "invalid", ""),
    ("POST", "/api/v1/apply", JSON, Some(r#"{"job": []}"#), 422, "invalid", "/job"),
    ("POST", "/api/v1/apply", JSON, Some(r#"{"jobs": [{"name": "a", "function": "f", "job_type": "manual"}]}"#), 422, "invalid", "/jobs/0/function"),
    ("POST", "/api/v1/jobs/a/trigger", JSON, Some(r#"{"args": {}}"#), 422, "invalid", "/args"),
    ("POST", "/api/v1/jobs/a/trigger", &[("idempotency-key", "")], None, 400, "invalid_parameters", "Idempotency-Key"),
    ("GET", "/api/v1/jobs", &[("host", "evil.example"), ("authorization", "")], None, 421, "wrong_host", ""),
    ("GET", "/health", &[("host", "evil.example")], None, 421, "wrong_host", ""),
    ("POST", "/api/v1/jobs/a/trigger", &[("origin", "http://evil.example"), ("authorization", "")], None, 403, "cross_site", ""),
    ("POST", "/api/v1/jobs/a/trigger", &[("sec-fetch-site", "cross-site"), ("authorization", "")], None, 403, "cross_site", ""),
];

#[derive(Debug, Clone, Copy)]
struct Refusal<'a> {
    status: u16,
    code: &'a str,
    pointer: &'a str,
}

fn check(answer: &Answer, path: &str, expected: Refusal<'_>) {
    let Refusal { status, code, pointer } = expected;
    assert_eq!(answer.status, status, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some(PROBLEM_JSON));
    let problem: Problem = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((problem.status, problem.code.as_str()), (status, code), "{}", answer.body);
    assert_eq!(problem.kind, format!("/api/docs/problems#{}", problem.code));
    assert_eq!(problem.instance.as_deref(), path.split('?').next());
    assert_eq!(Some(problem.request_id.as_str()), answer.header("x-request-id"));
    assert!(!problem.detail.is_empty() && !problem.title.is_empty(), "{}", answer.body);
    match problem.errors.as_slice() {
        [] => assert_eq!(pointer, ""),
        [only] => {
            assert_eq!(only.pointer, pointer, "{}", answer.body);
            assert!(!only.message.is_empty());
        }
        several => panic!("{several:?}"),
    }
    for (name, value) in [
        ("cache-control", "no-store"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_problem_documents_that_name_the_field() {
    let app = TestApp::start().await;
    for (method, path, headers, body, status, code, pointer) in CASES.iter().copied() {
        eprintln!("{method} {path} {headers:?} {body:?}");
        let answer = app.send(Request::new(method, path).headers(headers).optional_body(body)).await;
        check(&answer, path, Refusal { status, code, pointer });
    }
    for rows in ["scheduled_jobs", "task_functions", "calendars", "job_dispatch", "audit_log"] {
        assert_eq!(app.fixture.number(&format!("SELECT count(*) FROM {rows}")).await, 0, "{rows}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_body_is_refused() {
    let app = TestApp::start().await;
    let long = format!("{{\"name\": \"{}\"}}", "a".repeat(1024 * 1024));
    let answer = app.send(Request::post("/api/v1/jobs").headers(JSON).body(&long)).await;
    check(&answer, "/api/v1/jobs", Refusal { status: 413, code: "body_too_large", pointer: "" });
    let chunked = [("content-type", "application/json"), ("transfer-encoding", "chunked")];
    let body = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let answer = crate::support::send_unsized(app.addr, "/api/v1/jobs", &chunked, &body).await;
    check(&answer, "/api/v1/jobs", Refusal { status: 413, code: "body_too_large", pointer: "" });
}

async fn send_part(app: &TestApp, headers: &str, length: usize, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(app.addr).await.unwrap();
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n",
        app.addr,
        bearer()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut read = Vec::new();
    tokio::time::timeout(LIMIT, stream.read_to_end(&mut read)).await.unwrap().unwrap();
    answer(&String::from_utf8(read).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_body_times_out_before_any_change() {
    let app = TestApp::start().await;
    app.with_jobs(&[]).await;
    let half = GOOD.as_bytes().split_at(10).0;
    let stalled = send_part(&app, "idempotency-key: slow\r\n", GOOD.len(), half).await;
    check(&stalled, "/api/v1/jobs", Refusal { status: 408, code: "body_too_slow", pointer: "" });
    assert_eq!(stalled.header("connection"), Some("close"));
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_jobs").await, 0);
    // The key is free again.
    let headers = [("content-type", "application/json"), ("idempotency-key", "slow")];
    let whole = app.send(Request::post("/api/v1/jobs").headers(&headers).body(GOOD)).await;
    assert_eq!((whole.status, whole.header("idempotency-replayed")), (201, None), "{}", whole.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_deep_or_non_utf8_json_is_refused() {
    let app = TestApp::start().await;
    let nested = |depth: usize| format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
    let deep = app.send(Request::post("/api/v1/jobs").headers(JSON).body(&nested(200))).await;
    check(&deep, "/api/v1/jobs", Refusal { status: 400, code: "malformed_json", pointer: "" });
    let close = "connection: close\r\n";
    for body in [&b"{\"name\": \"\xff\"}"[..], b"{\"\xc3\x28\": 1}", b"\xff\xfe{\x00}\x00"] {
        let refused = send_part(&app, close, body.len(), body).await;
        check(&refused, "/api/v1/jobs", Refusal { status: 400, code: "malformed_json", pointer: "" });
    }
    let flat = app.send(Request::post("/api/v1/jobs").headers(JSON).body(&nested(50))).await;
    assert_eq!(flat.status, 422, "{}", flat.body);
}

/// Their answers have no end.
const STREAMS: [&str; 2] = ["/api/v1/events/stream", "/ws/events"];

#[tokio::test(flavor = "multi_thread")]
async fn refused_method_lists_allowed_methods() {
    let app = TestApp::start().await;
    let answer = app.send(Request::put("/api/v1/jobs")).await;
    assert_eq!(answer.header("allow"), Some("GET, HEAD, POST"));
    for path in STREAMS {
        let refused = app.send(Request::post(path).headers(&[("authorization", bearer())])).await;
        assert_eq!(refused.header("allow"), Some("GET"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_answers_like_get_without_body() {
    let app = TestApp::start().await;
    for path in [
        "/",
        "/api/v1",
        "/api/v1/openapi.json",
        "/api/docs",
        "/api/docs/",
        "/api/docs/problems",
        "/api/v1/jobs",
    ] {
        let (get, head) = (app.get(path).await, app.send(Request::new("HEAD", path)).await);
        assert_eq!((head.status, head.body.as_str()), (get.status, ""), "{path}");
        for header in ["content-type", "content-length", "location"] {
            assert_eq!(head.header(header), get.header(header), "{path} {header}");
        }
    }
    let missing = app.send(Request::new("HEAD", "/api/v1/jobs/none")).await;
    assert_eq!(missing.status, 404);
    for path in STREAMS {
        let refused = app.send(Request::new("HEAD", path).headers(&[("authorization", bearer())])).await;
        assert_eq!(refused.status, 405, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn index_lists_the_documentation_for_every_caller() {
    let app = TestApp::start().await;
    for path in ["/", "/api/v1"] {
        let index = send(app.addr, Request::get(path).headers(&[("authorization", "")])).await;
        assert_eq!(index.status, 200, "{path} {}", index.body);
        let index = index.json();
        assert_eq!(index["service"], "sched-api", "{path}");
        for field in ["documentation", "openapi", "problems"] {
            let linked = app.get(index[field].as_str().unwrap()).await;
            assert!(linked.status < 400, "{field}: {}", linked.body);
        }
        assert!(index["endpoints"].as_array().unwrap().contains(&json!("/health/detailed")), "{index}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsafe_request_ids_are_replaced() {
    let app = TestApp::start().await;
    for (given, is_kept) in [("a-1.b_2", true), ("two words", false), ("<script>", false)] {
        let answer = app.send(Request::get("/api/v1/status").headers(&[("x-request-id", given)])).await;
        assert_eq!(answer.header("x-request-id") == Some(given), is_kept, "{given}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_route_and_not_by_path() {
    let app = TestApp::start().await;
    for path in ["/api/v1/jobs/a", "/api/v1/jobs/b", "/invented/by/a/client"] {
        app.get(path).await;
    }
    let text = app.get("/metrics").await.body;
    let line = |labels: &[&str]| {
        text.lines().any(|line| {
            line.starts_with("sched_api_requests_total{") && labels.iter().all(|label| line.contains(label))
        })
    };
    assert!(line(&["route=\"/api/v1/jobs/{job}\"", "status=\"404\"", "method=\"GET\""]), "{text}");
    assert!(!text.contains("invented"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn problem_type_links_to_its_fix() {
    let app = TestApp::start().await;
    let problem = app.get("/api/v1/jobs/none").await.json();
    let (page, code) = problem["type"].as_str().unwrap().split_once('#').unwrap();
    let found = app.send(Request::get(page).headers(&[("authorization", "")])).await;
    assert_eq!((found.status, found.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(code == "not_found" && found.body.contains(&format!("id=\"{code}\"")), "{code}: {}", found.body);
}

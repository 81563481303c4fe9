//! An error tracker receives errors of the daemons and finally failed dispatches, and never delays
//! the daemons.

use scripted_http::{Request, Response, Server};
use serde_json::{Value, json};
use system_tests::{Installation, PATIENCE, shell_jobs};
use test_support::{http, wait_for};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CANARY: &str = "canary-value-42";

fn events(tracker: &Server) -> Vec<Value> {
    let event = |request: &Request| serde_json::from_str(request.text().lines().nth(2).unwrap()).unwrap();
    tracker.requests().iter().map(event).collect()
}

async fn wait_for_event(tracker: &Server, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, PATIENCE, async || {
        let all = events(tracker);
        all.iter().find(|event| is_it(event)).cloned().ok_or_else(|| format!("{all:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_dispatches_that_failed_for_good_are_reported_without_secrets() {
    let tracker = Server::start(Response::new(200));
    let dsn = format!("http://k3y@{}/7", tracker.address());
    let settings = [("ERROR_TRACKER_DSN", dsn.as_str()), ("WORKER_REPORT_FAILURES", "true")];
    let mut system = Installation::new().await;
    system.start_api_with(&settings[..1]).await;
    system.start_worker(&settings).await;
    let retry = json!({"max_attempts": 2, "backoff_seconds": 0, "jitter_percent": 0});
    let job = json!({"name": "fails", "job_type": "manual", "retry_policy": retry});
    system.apply(&shell_jobs(&format!("echo {CANARY}; exit 7"), &[job])).await;
    let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let headers = [("traceparent", traceparent.as_str())];
    let path = "/api/v1/jobs/fails/trigger";
    let answer =
        http::request(system.api_addr(), http::Request::post(path, &json!({})).with_headers(&headers))
            .await
            .unwrap();
    let dispatch = answer.json()["run_id"].clone();

    let event =
        wait_for_event(&tracker, "the failed dispatch", |event| event["tags"]["job.name"] == "fails").await;
    assert_eq!((&event["tags"]["run.id"], &event["tags"]["attempt"]), (&dispatch, &json!("2")));
    assert_eq!(
        (&event["tags"]["trace_id"], &event["tags"]["error.type"]),
        (&json!(TRACE), &json!("exit_code"))
    );
    assert_eq!((&event["tags"]["daemon"], &event["level"]), (&json!("worker"), &json!("error")));
    let of_job = events(&tracker).iter().filter(|event| event["tags"]["job.name"] == "fails").count();
    assert_eq!(of_job, 1, "the attempt that was retried is not reported");
    let request = tracker.requests().remove(0);
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/api/7/envelope/"));
    assert!(request.header("x-sentry-auth").unwrap().contains("sentry_key=k3y"), "{request:?}");

    // A missing table is an error of the API.
    system.execute("ALTER TABLE job_templates RENAME TO gone").await;
    let failed =
        http::request(system.api_addr(), http::Request::get("/api/v1/templates").with_headers(&headers))
            .await
            .unwrap();
    assert_eq!(failed.status, 500, "{}", failed.body);
    let event = wait_for_event(&tracker, "the error", |event| event["tags"]["daemon"] == "api").await;
    assert_eq!(event["logentry"]["formatted"], "A request failed.");
    assert_eq!(event["tags"]["request.id"], failed.json()["request_id"]);
    assert_eq!(event["contexts"]["trace"]["trace_id"], TRACE);
    system.execute("ALTER TABLE gone RENAME TO job_templates").await;

    let sent = tracker.requests().iter().map(Request::text).collect::<String>();
    assert!(sent.contains("exit code 7") && !sent.contains(CANARY), "output is not reported: {sent}");

    // Without the tracker, neither the answer nor the stop waits.
    drop(tracker);
    system.execute("ALTER TABLE job_templates RENAME TO gone").await;
    assert_eq!(http::get(system.api_addr(), "/api/v1/templates").await.unwrap().status, 500);
    system.execute("ALTER TABLE gone RENAME TO job_templates").await;
    let mut api = system.api.take().unwrap();
    wait_for("the warning", PATIENCE, async || {
        let log = api.stderr();
        if log.contains("The error tracker cannot be reached") { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(api.stop_gracefully(PATIENCE).await.success());
    for log in [api.stderr(), system.workers[0].stderr()] {
        assert!(!log.contains("k3y"), "{log}");
    }
}

//! A collector receives traces under the ids that `docs/operate/monitoring-and-alerts.md` promises, and never delays the
//! daemons.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};
use prost::Message as _;
use scripted_http::{Response, Server};
use serde_json::{Value, json};
use system_tests::{Installation, PATIENCE, every, manual, shell_jobs};
use test_support::{free_port, http, wait_for};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const UNSAMPLED: &str = "1af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const AWAY: &str = "The collector of traces cannot be reached";

#[derive(Clone, Debug)]
struct SpanFacts {
    service: String,
    trace: String,
    id: String,
    parent: String,
    span: Span,
}

impl SpanFacts {
    fn fact(&self, name: &str) -> String {
        fact(&self.span.attributes, name)
    }
}

fn fact(attributes: &[KeyValue], name: &str) -> String {
    let value = attributes.iter().find(|attribute| attribute.key == name).and_then(|one| one.value.clone());
    match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => panic!("{name} is {other:?} in {attributes:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn spans(collector: &Server) -> Vec<SpanFacts> {
    let mut seen = Vec::new();
    for request in collector.requests() {
        for of in ExportTraceServiceRequest::decode(&request.body[..]).unwrap().resource_spans {
            let service = fact(&of.resource.unwrap().attributes, "service.name");
            for span in of.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let ids = [&span.trace_id, &span.span_id, &span.parent_span_id];
                let [trace, id, parent] = ids.map(|id| hex(id));
                seen.push(SpanFacts { service: service.clone(), trace, id, parent, span });
            }
        }
    }
    seen
}

/// Waits for a span.
async fn wait_for_span(collector: &Server, what: &str, is_it: impl Fn(&SpanFacts) -> bool) -> SpanFacts {
    let found = wait_for(what, PATIENCE, async || {
        let all = spans(collector);
        let names: Vec<&str> = all.iter().map(|seen| seen.span.name.as_str()).collect();
        let found: Vec<SpanFacts> = all.iter().filter(|seen| is_it(seen)).cloned().collect();
        if found.is_empty() { Err(format!("{names:?}")) } else { Ok(found) }
    });
    let found = found.await;
    assert_eq!(found.len(), 1, "{what}: {found:?}");
    found[0].clone()
}

async fn trigger(system: &Installation, job: &str, traceparent: &str) -> String {
    let path = format!("/api/v1/jobs/{job}/trigger");
    let headers = [("traceparent", traceparent)];
    let answer =
        http::request(system.api_addr(), http::Request::post(&path, &json!({})).with_headers(&headers))
            .await
            .unwrap();
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.json()["run_id"].as_str().unwrap().to_owned()
}

async fn execution(system: &Installation, dispatch: &str) -> Value {
    let ended = format!("SELECT count(*) FROM job_execution_log WHERE dispatch_id = '{dispatch}'");
    system.wait_count("the attempt to end", &ended, 1).await;
    system.get(&format!("/api/v1/attempts?run={dispatch}")).await["items"][0].clone()
}

async fn installation(endpoint: &str) -> Installation {
    let settings = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret"),
    ];
    let mut system = Installation::new().await;
    system.start_api_with(&settings).await;
    system.start_scheduler(&settings).await;
    system.start_worker(&settings).await;
    system
}

fn last_digits(id: &Value) -> String {
    let digits = id.as_str().unwrap().replace('-', "");
    digits.split_at(16).1.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_its_dispatch_and_its_attempt_are_one_trace_with_the_promised_ids() {
    let collector = Server::start(Response::new(200));
    let mut system = installation(&collector.url("")).await;
    let once = json!({"name": "fails", "job_type": "manual", "retry_policy": {"max_attempts": 1}});
    system.apply(&shell_jobs("exit 7", &[once])).await;
    let unsampled = trigger(&system, "fails", &format!("00-{UNSAMPLED}-{CALLER}-00")).await;
    execution(&system, &unsampled).await;
    let dispatch = trigger(&system, "fails", &format!("00-{TRACE}-{CALLER}-01")).await;
    let ended = execution(&system, &dispatch).await;

    let request =
        wait_for_span(&collector, "the request", |seen| seen.trace == TRACE && seen.service == "sched-api")
            .await;
    assert_eq!(request.parent, CALLER);
    assert_eq!(request.span.name, "POST /api/v1/jobs/{job}/trigger");
    assert_eq!(request.fact("http.response.status_code"), "202");
    assert!(request.span.status.is_none(), "{request:?}");
    let attempt = wait_for_span(&collector, "the attempt", |seen| {
        seen.trace == TRACE && seen.service == "sched-worker"
    })
    .await;
    assert_eq!(attempt.parent, request.id);
    assert_eq!(attempt.id, last_digits(&ended["id"]));
    assert_eq!((&json!(attempt.id), &json!(TRACE)), (&ended["span_id"], &ended["trace_id"]));
    for (name, value) in
        [("run.id", &json!(dispatch)), ("attempt.id", &ended["id"]), ("job.name", &json!("fails"))]
    {
        assert_eq!(&json!(attempt.fact(name)), value);
    }
    assert_eq!(attempt.span.status.as_ref().unwrap().code(), StatusCode::Error, "{attempt:?}");
    assert!(attempt.span.start_time_unix_nano >= request.span.start_time_unix_nano);

    // Earlier spans that are not sampled would have arrived by now.
    let all = spans(&collector);
    assert!(all.iter().all(|seen| seen.trace != UNSAMPLED), "{all:?}");
    let request = collector.requests().remove(0);
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/traces"));
    assert_eq!(request.header("authorization"), Some("Bearer s3cret"));

    // A schedule begins a trace, whose id is the dispatch's.
    system.apply(&shell_jobs("true", &[every("beat", 1)])).await;
    let fire = the_first(&collector, "sched-scheduler").await;
    assert_eq!((fire.span.name.as_str(), fire.parent.as_str()), ("dispatch beat", ""));
    assert_eq!(fire.trace, fire.fact("run.id").replace('-', ""));
    let run =
        wait_for_span(&collector, "its attempt", |seen| seen.trace == fire.trace && seen.id != fire.id).await;
    assert_eq!((&run.parent, run.service.as_str()), (&fire.id, "sched-worker"));
    assert!(run.span.status.is_none(), "{run:?}");

    // The last spans are sent before the process ends.
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let command = format!("touch {}; sleep 1", begun.display());
    system.execute("UPDATE scheduled_jobs SET is_paused = true WHERE name = 'beat'").await;
    system.apply(&shell_jobs(&command, &[manual("last")])).await;
    system.trigger("last").await;
    wait_for("the last one to begin", PATIENCE, async || {
        if begun.exists() { Ok(()) } else { Err("it has not begun".to_owned()) }
    })
    .await;
    assert!(system.workers[0].stop_gracefully(PATIENCE).await.success());
    assert!(spans(&collector).iter().any(|seen| seen.span.name == "attempt last"));

    let api = http::get(system.api_addr(), "/metrics").await.unwrap().body;
    assert!(
        api.contains("sched_spans_exported_total ") && !api.contains("sched_spans_exported_total 0\n"),
        "{api}"
    );
    for daemon in system.api.iter().chain(&system.schedulers).chain(&system.workers) {
        assert!(!daemon.stderr().contains("s3cret"), "{}", daemon.stderr());
    }
    assert!(
        spans(&collector).iter().all(|seen| !seen.span.name.contains("health")),
        "probes are not followed"
    );
}

async fn the_first(collector: &Server, service: &str) -> SpanFacts {
    wait_for("its first span", PATIENCE, async || {
        spans(collector).into_iter().find(|seen| seen.service == service).ok_or_else(|| "none".to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_without_the_collector_and_spans_arrive_when_it_is_back() {
    let port = free_port().unwrap();
    let mut system = installation(&format!("http://127.0.0.1:{port}")).await;
    system.apply(&shell_jobs("true", &[manual("job")])).await;
    let first = trigger(&system, "job", &format!("00-{TRACE}-{CALLER}-01")).await;
    assert_eq!(execution(&system, &first).await["status"], "succeeded");
    for daemon in [&system.workers[0], system.api.as_ref().unwrap()] {
        wait_for("the warning", PATIENCE, async || {
            let log = daemon.stderr();
            if log.contains(AWAY) { Ok(()) } else { Err(log) }
        })
        .await;
    }
    for _ in 0..20 {
        let dispatch = system.trigger("job").await;
        assert_eq!(execution(&system, &dispatch).await["status"], "succeeded");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let health = system.workers[0].health_addr().await;
    let metrics = http::get(health, "/metrics").await.unwrap().body;
    for line in ["sched_spans_exported_total 0", "sched_spans_dropped_total{reason=\"queue_full\"} 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let collector = Server::bound(("127.0.0.1", port), Response::new(200));
    wait_for_span(&collector, "the attempt of before", |seen| {
        seen.trace == TRACE && seen.service == "sched-worker"
    })
    .await;
    wait_for("that it is back", PATIENCE, async || {
        let log = system.workers[0].stderr();
        if log.contains("accepts data again") { Ok(()) } else { Err(log) }
    })
    .await;
    let log = system.workers[0].stderr();
    assert_eq!(log.matches(AWAY).count(), 1, "{log}");

    // The collector ends permanently: the stop is not delayed, and the losses are logged.
    drop(collector);
    let dispatch = system.trigger("job").await;
    execution(&system, &dispatch).await;
    assert!(system.workers[0].stop_gracefully(PATIENCE).await.success());
    let log = system.workers[0].stderr();
    assert!(log.contains("Spans were not sent before the end."), "{log}");
}

use secrecy::SecretString;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use sched_worker::handlers::{ErrorClass, Execution, Outcome, RunDetails};
use scripted_http::{Response, Server, Step};

use super::support::{call, config, execution, handler, run, wait_for};

#[tokio::test]
async fn request_carries_arguments_and_standard_headers() {
    let server = Server::start(Response::new(201).body("made"));
    let fields = json!({
        "url": format!("http://{}/days/{{{{args.day}}}}?job={{{{job.name}}}}", server.address()),
        "headers": {"X-Attempt": "try {{attempt}}", "Authorization": {"secret": "api"}},
    });
    let mut execution = execution(config(&server, fields));
    execution.secrets = [("api".to_owned(), SecretString::from("Bearer t0p"))].into_iter().collect();
    let report = handler(&["127.0.0.1"]).run(&execution, &CancellationToken::new()).await;
    assert_eq!(report.outcome, Outcome::Succeeded, "{:?}", report.error_message);
    assert_eq!((report.stdout.head.as_str(), report.result), ("made", Some(json!({"status": 201}))));
    let request = server.requests().remove(0);
    assert_eq!((request.method.as_str(), request.version.as_str()), ("POST", "HTTP/1.1"));
    assert_eq!(request.path, "/days/mon%2Fday?job=nightly%20report");
    assert_eq!(request.text(), r#"{"day":"mon/day","n":3}"#);
    for (name, value) in [
        ("host", server.address().to_string().as_str()),
        ("user-agent", concat!("sched/", env!("CARGO_PKG_VERSION"))),
        ("content-type", "application/json"),
        ("accept-encoding", "identity"),
        ("idempotency-key", "key-1"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("x-attempt", "try 2"),
        ("authorization", "Bearer t0p"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name} in {request:?}");
    }
}

#[tokio::test]
async fn signature_uses_database_time_and_every_secret() {
    let server = Server::start(Response::new(200));
    let old = format!("whsec_{}", "B".repeat(40));
    let fields = json!({"sign": {"secrets": [{"secret": "new"}, old]}});
    let mut execution = execution(config(&server, fields));
    let secret = SecretString::from(format!("whsec_{}", "A".repeat(40)));
    execution.secrets = [("new".to_owned(), secret)].into_iter().collect();
    let report = handler(&["127.0.0.1"]).run(&execution, &CancellationToken::new()).await;
    assert_eq!(report.outcome, Outcome::Succeeded, "{:?}", report.error_message);
    let request = server.requests().remove(0);
    let header = |name: &str| request.header(name).unwrap();
    assert_eq!(header("webhook-id"), execution.run_id.to_string());
    let timestamp: i64 = header("webhook-timestamp").parse().unwrap();
    // Fire time plus lateness is the claim time by the database's clock, not by this machine's
    // clock.
    let claimed = execution.fire_time.timestamp();
    assert!((claimed..claimed + 60).contains(&timestamp), "{timestamp} after {claimed}");
    let signatures = header("webhook-signature");
    assert_eq!(signatures.split(' ').filter(|one| one.starts_with("v1,")).count(), 2, "{signatures}");
}

#[tokio::test]
async fn result_and_metrics_are_picked_from_the_response() {
    let server = Server::start(Response::new(200).body(r#"{"data": [{"id": 7}], "took": 1.5}"#));
    let report = call(&server, json!({"result": "/data/0", "metrics": {"took": "/took"}})).await;
    assert_eq!(report.result, Some(json!({"status": 200, "result": {"id": 7}, "metrics": {"took": 1.5}})));
}

#[tokio::test]
async fn incomplete_request_is_not_sent() {
    let server = Server::start(Response::new(200));
    let url = |path: &str| json!({"url": server.url(path)});
    for (fields, class, words) in [
        (url("/{{args.nothing}}"), ErrorClass::InvalidArgs, "args.nothing"),
        (json!({"body": "{{args.nothing}}"}), ErrorClass::InvalidArgs, "args.nothing"),
        (json!({"headers": {"X-A": {"secret": "absent"}}}), ErrorClass::InvalidConfig, "absent"),
        (json!({"sign": {"secrets": [{"secret": "absent"}]}}), ErrorClass::InvalidConfig, "absent"),
        (json!({"metod": "GET"}), ErrorClass::InvalidConfig, "metod"),
    ] {
        let report = call(&server, fields).await;
        let message = report.error_message.unwrap();
        assert_eq!(report.error_class, Some(class), "{message}");
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn argument_with_line_end_is_rejected_in_headers() {
    let server = Server::start(Response::new(200));
    let mut execution = execution(config(&server, json!({"headers": {"X-A": "{{args.v}}"}})));
    execution.args = json!({"v": "a\r\nX-Evil: 1"});
    let report = handler(&["127.0.0.1"]).run(&execution, &CancellationToken::new()).await;
    assert_eq!(report.error_class, Some(ErrorClass::InvalidArgs));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn connections_are_reused_and_stale_ones_replaced() {
    let server = Server::start([Response::new(200).body("ok").into(), Step::Next]);
    let handler_ = handler(&["127.0.0.1"]);
    for _ in 0..3 {
        assert_eq!(run(&handler_, config(&server, json!({}))).await.outcome, Outcome::Succeeded);
    }
    assert_eq!((server.connections(), server.requests().len()), (1, 3));
    // Tenants do not share connections.
    let of_another = Execution { tenant_id: Uuid::from_u128(0xaa), ..execution(config(&server, json!({}))) };
    assert_eq!(handler_.run(&of_another, &CancellationToken::new()).await.outcome, Outcome::Succeeded);
    assert_eq!(run(&handler_, config(&server, json!({}))).await.outcome, Outcome::Succeeded);
    assert_eq!((server.connections(), server.requests().len()), (2, 5));

    // Closes the connection without an announcement.
    let closing = Server::start([Step::from(Response::new(200).body("ok"))]);
    for calls in 1..=3 {
        assert_eq!(run(&handler_, config(&closing, json!({}))).await.outcome, Outcome::Succeeded);
        wait_for("the server closes", || closing.ended_connections() == calls).await;
    }
    assert_eq!(closing.requests().len(), 3);
}

#[tokio::test]
async fn templates_have_the_context_and_a_shorter_limit() {
    let server = Server::start(Response::new(200));
    let fields = json!({
        "timeout_buffer_seconds": 5,
        "headers": {"X-Timeout": "{{timeout_seconds}}", "X-By": "{{trigger}}/{{trigger.user}}"},
        "body": r#"{"tenant": "{{tenant.slug}}", "queue": {{queue}}, "schedule": {{schedule}}, "attempt": "{{attempt.id}}"}"#,
    });
    let mut execution = execution(config(&server, fields));
    let details = RunDetails { tenant: "acme".into(), queue: "mail".into(), ..RunDetails::default() };
    execution.details = Some(Box::new(details));
    let report = handler(&["127.0.0.1"]).run(&execution, &CancellationToken::new()).await;
    assert_eq!(report.outcome, Outcome::Succeeded, "{:?}", report.error_message);
    let request = server.requests().remove(0);
    assert_eq!((request.header("x-timeout"), request.header("x-by")), (Some("55"), Some("api/")));
    let attempt = execution.attempt_id.to_string();
    let body = json!({"tenant": "acme", "queue": "mail", "schedule": null, "attempt": attempt});
    assert_eq!(request.json(), body);

    let whole = call(&server, json!({"timeout_buffer_seconds": 60})).await;
    assert_eq!(whole.error_class, Some(ErrorClass::InvalidConfig), "{:?}", whole.error_message);
}

#[tokio::test]
async fn error_text_of_the_server_is_in_the_message() {
    let server = Server::start(Response::new(422).body(r#"{"error": {"message": "no such customer"}}"#));
    let report = call(&server, json!({"error": "/error/message"})).await;
    let expected = "the server answered 422 Unprocessable Entity: no such customer";
    assert_eq!(report.error_message.as_deref(), Some(expected));
}

/// An argument may choose the host only among the targets that the operator lists.
#[tokio::test]
async fn host_from_arguments_must_be_listed() {
    let server = Server::start(Response::new(200));
    let url = format!("http://{{{{args.host}}}}:{}/", server.address().port());
    let to = async |host: &str, allowed: &[&str]| {
        let mut execution = execution(json!({"url": url, "method": "GET"}));
        execution.args = json!({ "host": host });
        handler(allowed).run(&execution, &CancellationToken::new()).await
    };
    assert_eq!(to("127.0.0.1", &["127.0.0.1"]).await.outcome, Outcome::Succeeded);
    for (host, allowed) in [("127.0.0.1", &[][..]), ("8.8.8.8", &["127.0.0.1"])] {
        let report = to(host, allowed).await;
        assert_eq!(report.error_class, Some(ErrorClass::TargetRefused), "{:?}", report.error_message);
    }
    assert_eq!(server.connections(), 1);
}

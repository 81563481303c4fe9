//! `Idempotency-Key`: requests take effect once and repeat their answer.

use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{Request, TestApp, function, manual};

async fn send(app: &TestApp, request: Request<'_>, key: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    app.send(request.headers(&headers).body(&body.to_string())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_takes_effect_once() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let first = send(&app, Request::post("/api/v1/jobs"), "k-1", &manual("a")).await;
    let again = send(&app, Request::post("/api/v1/jobs"), "k-1", &manual("a")).await;
    assert_eq!((first.status, again.status), (201, 201), "{}", again.body);
    assert_eq!(
        (&again.body, again.header("location"), again.header("etag")),
        (&first.body, first.header("location"), Some("\"1\""))
    );
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );
    let reused = send(&app, Request::post("/api/v1/jobs"), "k-1", &manual("b")).await;
    assert_eq!((reused.status, reused.json()["code"].as_str()), (422, Some("idempotency_key_reused")));
    let other_path = send(&app, Request::post("/api/v1/jobs/a/pause"), "k-1", &json!({})).await;
    assert_eq!(other_path.status, 422, "{}", other_path.body);
    let counts = "SELECT (SELECT count(*) FROM scheduled_jobs WHERE name IN ('a', 'b')) * 100
                  + (SELECT count(*) FROM audit_log WHERE action = 'create_job') * 10
                  + (SELECT count(*) FROM events WHERE event_type = 'job_created')";
    assert_eq!(app.fixture.number(counts).await, 111);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_request_frees_its_idempotency_key() {
    let app = TestApp::start().await;
    let early = send(&app, Request::post("/api/v1/jobs"), "k", &manual("a")).await;
    assert_eq!(early.status, 422, "there is no such function yet: {}", early.body);
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let other = app.fixture.client().await;
    // The request with this key holds this lock.
    let lock = "SELECT pg_advisory_lock(hashtextextended(tenant_id || ' ' || key_prefix || ' k', 7310034283826791796)) FROM api_keys";
    other.batch_execute(lock).await.unwrap();
    let busy = send(&app, Request::post("/api/v1/jobs"), "k", &manual("a")).await;
    assert_eq!(
        (busy.status, busy.json()["code"].as_str()),
        (409, Some("idempotency_key_in_flight")),
        "{}",
        busy.body
    );
    assert_eq!(busy.header("retry-after"), Some("1"));
    other.batch_execute("SELECT pg_advisory_unlock_all()").await.unwrap();
    let late = send(&app, Request::post("/api/v1/jobs"), "k", &manual("a")).await;
    assert_eq!((late.status, late.header("idempotency-replayed")), (201, None), "{}", late.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_change_without_body_is_replayed() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    for (method, path) in
        [("POST", "/api/v1/jobs/a/pause"), ("DELETE", "/api/v1/jobs/a"), ("POST", "/api/v1/jobs/a/restore")]
    {
        let send = async || app.send(Request::new(method, path).headers(&[("idempotency-key", path)])).await;
        let (first, again) = (send().await, send().await);
        assert_eq!((first.status, again.status, &again.body), (200, 200, &first.body), "{path}");
        assert_eq!(again.header("idempotency-replayed"), Some("true"), "{path}");
    }
    let changes = "SELECT count(*) FROM scheduled_job_versions";
    assert_eq!(app.fixture.number(changes).await, 4, "created, paused, deleted and restored");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_trigger_is_a_duplicate_after_key_retention() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let path = "/api/v1/jobs/a/trigger";
    let first = send(&app, Request::post(path), "t", &json!({})).await;
    let again = send(&app, Request::post(path), "t", &json!({})).await;
    assert_eq!((first.status, again.status), (202, 202), "{}", again.body);
    assert_eq!(
        (first.json()["duplicate"].as_bool(), again.json()["duplicate"].as_bool()),
        (Some(false), Some(true))
    );
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );
    assert_eq!(first.json()["run_id"], again.json()["run_id"]);
    assert_eq!(app.fixture.number("SELECT count(*) FROM kept_answers").await, 1);
    app.fixture.client().await.execute("DELETE FROM kept_answers", &[]).await.unwrap();
    let later = send(&app, Request::post(path), "t", &json!({})).await;
    assert_eq!((later.status, later.json()), (202, again.json()), "the dispatch keeps the key, too");
    assert_eq!(later.header("idempotency-replayed"), Some("true"));
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_keys_are_validated_and_refused_for_secrets() {
    let app = TestApp::start().await;
    for key in ["a b", "x".repeat(201).as_str()] {
        let answer = send(&app, Request::post("/api/v1/jobs"), key, &manual("a")).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (400, Some("invalid_parameters")),
            "{key}"
        );
    }
    let secret = send(&app, Request::put("/api/v1/secrets/token"), "k", &json!({"value": "hush"})).await;
    assert_eq!(
        (secret.status, secret.json()["errors"][0]["pointer"].as_str()),
        (400, Some("Idempotency-Key")),
        "{}",
        secret.body
    );
    assert_eq!(app.fixture.number("SELECT count(*) FROM kept_answers").await, 0);
}

//! Argument schemas of functions, checked for jobs and triggers.

use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{Request, TestApp, function, manual, pointers};

/// A function with a required day and an optional number of copies.
fn strict() -> Value {
    let mut function = function("f");
    function["args_schema"] = json!({
        "type": "object",
        "required": ["day"],
        "additionalProperties": false,
        "properties": {"day": {"type": "string", "format": "date"}, "copies": {"type": "integer", "minimum": 1}},
    });
    function
}

fn with_args(name: &str, args: Value) -> Value {
    let mut job = manual(name);
    job["task_args"] = args;
    job
}

fn refused(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 422, "{}", answer.body);
    pointers(&answer.json())
}

async fn put(app: &TestApp, path: &str, body: &Value) -> Answer {
    app.send(
        Request::put(&format!("/api/v1/{path}"))
            .headers(&[("content-type", "application/json")])
            .body(&body.to_string()),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn job_arguments_must_match_the_schema() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [strict()]})).await;
    let shown = app.get("/api/v1/functions/f").await.json();
    assert_eq!(shown["args_schema"], strict()["args_schema"]);

    let good = with_args("a", json!({"day": "2026-11-22"}));
    assert_eq!(app.post("/api/v1/jobs", &good).await.status, 201);
    let wrong = with_args("b", json!({"day": "22.11.", "copies": 0, "colour": "red"}));
    let mut found = refused(&app.post("/api/v1/jobs", &wrong).await);
    found.sort();
    assert_eq!(found, ["/task_args", "/task_args/copies", "/task_args/day"]);
    assert_eq!(refused(&put(&app, "jobs/b", &wrong).await).len(), 3);
    assert_eq!(app.get("/api/v1/jobs/b").await.status, 404);
    let patch = json!({"task_args": {"copies": "two"}});
    let headers = [("content-type", "application/merge-patch+json")];
    let patched = app.send(Request::patch("/api/v1/jobs/a").headers(&headers).body(&patch.to_string())).await;
    assert_eq!(refused(&patched), ["/task_args/copies"]);
    assert!(patched.body.contains("args_schema of the function"), "{}", patched.body);

    // The errors of all jobs of a manifest are reported together, also for functions in the same
    // manifest.
    let mut second = strict();
    second["name"] = json!("g");
    let mut of_second = with_args("d", json!({}));
    of_second["function"] = json!("g");
    let manifest =
        json!({"task_functions": [second], "jobs": [with_args("c", json!({"day": 1})), of_second]});
    assert_eq!(
        refused(&app.post("/api/v1/apply", &manifest).await),
        ["/jobs/0/task_args/day", "/jobs/1/task_args"]
    );
    assert_eq!(
        app.fixture
            .number("SELECT count(*) FROM scheduled_jobs WHERE name <> 'a' AND deleted_at IS NULL")
            .await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_arguments_must_match_the_schema() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [strict()], "jobs": [with_args("a", json!({"day": "2026-11-22"}))]}))
        .await;
    let path = "/api/v1/jobs/a/trigger";
    assert_eq!(app.post(path, &json!({})).await.status, 202);
    assert_eq!(app.post(path, &json!({"task_args": {"day": "2026-11-23", "copies": 2}})).await.status, 202);
    let wrong = json!({"task_args": {"day": "2026-11-23", "copies": 0}});
    assert_eq!(refused(&app.post(path, &wrong).await), ["/task_args/copies"]);
    let keyed = [("content-type", "application/json"), ("idempotency-key", "k")];
    let by_key = app.send(Request::post(path).headers(&keyed).body(&wrong.to_string())).await;
    assert_eq!(refused(&by_key), ["/task_args/copies"]);
    // The same with a quota, which uses another batch statement.
    app.fixture.sql("UPDATE tenants SET quotas = '{\"dispatches_per_minute\": 100}'").await;
    assert_eq!(refused(&app.post(path, &wrong).await), ["/task_args/copies"]);
    assert_eq!(app.post(path, &json!({})).await.status, 202);
    assert_eq!(app.fixture.number("SELECT count(*) FROM job_dispatch").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_args_schema_keeps_existing_jobs() {
    let app = TestApp::start().await;
    app.apply(
        &json!({"task_functions": [function("f")], "jobs": [with_args("a", json!({"colour": "red"}))]}),
    )
    .await;
    let narrowed = put(&app, "functions/f", &strict()).await;
    assert_eq!(narrowed.status, 200, "{}", narrowed.body);
    let audited = "SELECT count(*) FROM audit_log WHERE target_type = 'task_function' AND before -> 'args_schema' = 'null'
                   AND after -> 'args_schema' -> 'required' = '[\"day\"]'";
    assert_eq!(app.fixture.number(audited).await, 1);
    assert_eq!(app.get("/api/v1/jobs/a").await.json()["is_enabled"], true);

    let headers = [("content-type", "application/merge-patch+json")];
    let patched =
        app.send(Request::patch("/api/v1/jobs/a").headers(&headers).body(r#"{"description": "new"}"#)).await;
    assert_eq!(refused(&patched), ["/task_args", "/task_args"], "the next change is held against it");
    let triggered = app.post("/api/v1/jobs/a/trigger", &json!({})).await;
    assert_eq!(refused(&triggered), ["/task_args", "/task_args"]);
    assert!(triggered.body.contains("this value is from the job"), "{}", triggered.body);
    let own = json!({"task_args": {"day": "2026-11-22"}});
    assert_eq!(app.post("/api/v1/jobs/a/trigger", &own).await.status, 202);
    assert_eq!(put(&app, "functions/f", &function("f")).await.status, 200);
    assert_eq!(app.post("/api/v1/jobs/a/trigger", &json!({})).await.status, 202, "a schema can be removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_args_schema_is_refused() {
    let app = TestApp::start().await;
    for (schema, pointer) in [
        (json!([]), "/args_schema"),
        (json!({"type": "text"}), "/args_schema/type"),
        (json!({"properties": {"a": {"$ref": "https://example.com/a"}}}), "/args_schema/properties/a/$ref"),
        (json!({"$ref": "#"}), "/args_schema/$ref"),
        (json!({"description": "x".repeat(40_000)}), "/args_schema"),
    ] {
        let mut function = function("f");
        function["args_schema"] = schema.clone();
        assert_eq!(refused(&put(&app, "functions/f", &function).await), [pointer], "{schema}");
    }
}

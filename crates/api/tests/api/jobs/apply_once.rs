//! Idempotency and events of applied manifests.

use crate::support::{Request, TestApp, function};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn repeated_apply_gets_the_stored_answer() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let job = json!({"name": "a", "function": "f", "job_type": "manual", "calendars": ["c"]});
    app.apply(&json!({"calendars": [{"name": "c", "dates": ["2027-01-01"]}]})).await;
    let headers = [("content-type", "application/json"), ("idempotency-key", "once")];
    let body = json!({"jobs": [job]}).to_string();
    let first = app.send(Request::post("/api/v1/apply").headers(&headers).body(&body)).await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(app.send(Request::delete("/api/v1/jobs/a")).await.status, 200);
    assert_eq!(app.send(Request::delete("/api/v1/calendars/c")).await.status, 204);
    let again = app.send(Request::post("/api/v1/apply").headers(&headers).body(&body)).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")), "{}", again.body);
    assert_eq!(again.json(), first.json());
    assert_eq!(
        app.post("/api/v1/apply", &json!({"jobs": [job]})).await.status,
        422,
        "without the key it is new"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn applied_functions_have_the_same_events_as_put() {
    let app = TestApp::start().await;
    let mut changed = function("f");
    changed["description"] = json!("Another.");
    for one in [function("f"), function("f"), changed] {
        app.apply(&json!({"task_functions": [one]})).await;
    }
    let told = app.get("/api/v1/events?type=function_created,function_updated").await.json();
    let told: Vec<String> = told["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {} {}", one["type"].as_str().unwrap(), one["data"]["name"], one["data"]["by"]))
        .collect();
    let by = format!("\"f\" \"{}\"", test_support::identity::OWNER);
    assert_eq!(told, [format!("function_updated {by}"), format!("function_created {by}")]);
}

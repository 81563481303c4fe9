use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{Request, TestApp, function, manual, pointers};

const PATH: &str = "/api/v1/functions/f";

async fn put(app: &TestApp, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    app.send(Request::put(path).headers(&all).body(&body.to_string())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn put_function_follows_the_rules_of_apply() {
    let app = TestApp::start().await;
    let made = put(&app, PATH, &[], &function("f")).await;
    assert_eq!((made.status, made.header("location")), (201, Some(PATH)), "{}", made.body);
    let tag = made.header("etag").unwrap().to_owned();
    assert_eq!(app.apply(&json!({"task_functions": [function("f")]})).await, ["task_function f unchanged"]);
    let nameless = json!({"handler_type": "process", "handler_config": {"program": "false"}});
    let changed = put(&app, PATH, &[("if-match", &tag)], &nameless).await;
    assert_eq!((changed.status, &changed.json()["handler_config"]["program"]), (200, &json!("false")));
    assert_eq!(put(&app, PATH, &[("if-match", &tag)], &nameless).await.status, 412);
    assert_eq!(app.get(PATH).await.json(), changed.json());

    let refused = put(&app, PATH, &[], &function("g")).await;
    assert_eq!((refused.status, pointers(&refused.json())), (422, vec!["/name".to_owned()]));
    let mut lost = function("f");
    lost["queue"] = json!("none");
    assert_eq!(pointers(&put(&app, PATH, &[], &lost).await.json()), ["/queue"]);
    let mut secret = function("f");
    secret["handler_config"]["env"] = json!({"TOKEN": {"secret": "none"}});
    assert_eq!(put(&app, PATH, &[], &secret).await.status, 422);
    assert_eq!(put(&app, PATH, &[], &json!({"handler_type": "process"})).await.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_keep_hidden_values() {
    let app = TestApp::start().await;
    let mut body = function("f");
    body["handler_config"]["env"] = json!({"A_TOKEN": "north", "MODE": "fast", "B_KEY": "b"});
    assert_eq!(put(&app, PATH, &[], &body).await.status, 201);
    let shown = app.get(PATH).await;
    let tag = shown.header("etag").unwrap().to_owned();
    let mut edited = body.clone();
    edited["description"] = json!("edited");
    edited["handler_config"] = shown.json()["handler_config"].clone();
    assert_eq!(
        edited["handler_config"]["env"],
        json!({"A_TOKEN": "(hidden)", "MODE": "fast", "B_KEY": "(hidden)"})
    );
    edited["handler_config"]["env"]["MODE"] = json!("slow");
    edited["handler_config"]["env"]["B_KEY"] = json!("c");
    let written = put(&app, PATH, &[("if-match", &tag)], &edited).await;
    assert_eq!((written.status, &written.json()["description"]), (200, &json!("edited")), "{}", written.body);
    let kept = "SELECT count(*) FROM task_functions WHERE handler_config->'env' = '{\"A_TOKEN\": \"north\", \"MODE\": \"slow\", \"B_KEY\": \"c\"}'";
    assert_eq!(app.fixture.number(kept).await, 1);
    edited["handler_config"]["env"]["OTHER"] = json!("(hidden)");
    let refused = put(&app, PATH, &[], &edited).await;
    assert_eq!(
        (refused.status, pointers(&refused.json())),
        (422, vec!["/handler_config/env/OTHER".to_owned()])
    );
    assert_eq!(app.fixture.number(kept).await, 1);
    let mut new = function("g");
    new["handler_config"]["env"] = json!({"A_TOKEN": "(hidden)"});
    assert_eq!(put(&app, "/api/v1/functions/g", &[], &new).await.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn function_without_jobs_can_be_deleted() {
    let app = TestApp::start().await;
    app.with_jobs(&["a", "b", "c", "d"]).await;
    let kept = app.send(Request::delete(PATH)).await;
    assert_eq!((kept.status, &kept.json()["code"]), (409, &json!("in_use")));
    assert!(kept.body.contains("jobs a, b, c and more"), "{}", kept.body);
    app.fixture.sql("UPDATE scheduled_jobs SET deleted_at = now() WHERE name IN ('a', 'b', 'c', 'd')").await;
    assert_eq!(app.send(Request::delete(PATH)).await.status, 204);
    assert_eq!(app.get(PATH).await.status, 404);
    let refused = app.post("/api/v1/jobs", &manual("e")).await;
    assert_eq!((refused.status, pointers(&refused.json())), (422, vec!["/function".to_owned()]));
    assert_eq!(put(&app, PATH, &[], &function("f")).await.status, 201, "the name is free again");
    assert_eq!(app.post("/api/v1/jobs", &manual("e")).await.status, 201);
    let audited = "SELECT count(*) FROM audit_log WHERE action = 'delete_task_function'";
    assert_eq!(app.fixture.number(audited).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn inactive_function_accepts_no_jobs_or_triggers() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let off = app.send(Request::post(&format!("{PATH}/deactivate"))).await;
    assert_eq!((off.status, &off.json()["is_active"]), (200, &json!(false)), "{}", off.body);
    let tag = off.header("etag").unwrap().to_owned();
    let again = app.send(Request::post(&format!("{PATH}/deactivate"))).await;
    assert_eq!(again.header("etag"), Some(tag.as_str()), "nothing was written");
    assert_eq!(app.post("/api/v1/jobs", &manual("b")).await.json()["code"], "inactive");
    assert_eq!(app.post("/api/v1/jobs/a/trigger", &json!({})).await.json()["code"], "inactive");
    let on = app.send(Request::post(&format!("{PATH}/activate")).headers(&[("if-match", &tag)])).await;
    assert_eq!((on.status, &on.json()["is_active"]), (200, &json!(true)));
    assert_eq!(app.post("/api/v1/jobs/a/trigger", &json!({})).await.status, 202);
    let events =
        "SELECT count(*) FROM events WHERE event_type IN ('function_activated', 'function_deactivated')";
    assert_eq!(app.fixture.number(events).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn function_is_paused_and_resumed() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let paused = app.post(&format!("{PATH}/pause"), &json!({"reason": "broken"})).await.json();
    assert_eq!((&paused["is_paused"], &paused["pause_reason"]), (&json!(true), &json!("broken")));
    assert_eq!(app.apply(&json!({"task_functions": [function("f")]})).await, ["task_function f unchanged"]);
    assert_eq!(app.get(PATH).await.json()["is_paused"], true, "a write leaves the switch alone");
    let resumed = app.send(Request::post(&format!("{PATH}/resume"))).await.json();
    assert_eq!((&resumed["is_paused"], &resumed["pause_reason"]), (&json!(false), &Value::Null));
    let long = app.post(&format!("{PATH}/pause"), &json!({"reason": "x".repeat(501)})).await;
    assert_eq!((long.status, pointers(&long.json())), (422, vec!["/reason".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_functions_cannot_be_changed() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    app.fixture.sql("UPDATE task_functions SET is_system = true").await;
    let kept = app.send(Request::delete(PATH)).await;
    assert_eq!((kept.status, &kept.json()["code"]), (409, &json!("built_in")));
    let mut other = function("f");
    other["description"] = json!("other");
    assert_eq!(put(&app, PATH, &[], &other).await.json()["code"], "built_in");
    assert_eq!(
        app.post(&format!("{PATH}/pause"), &json!({})).await.status,
        200,
        "the operator of the installation may"
    );
}

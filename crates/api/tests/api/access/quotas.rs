//! Quotas of tenants.

use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{Request, TestApp, manual, pointers};

const TENANT: &str = "/api/v1/tenants/default";

async fn patch(app: &TestApp, body: &Value) -> Answer {
    app.send(Request::patch(TENANT).headers(&[("content-type", "application/json")]).body(&body.to_string()))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_patch_changes_single_fields() {
    let app = TestApp::start().await;
    let first = patch(&app, &json!({"quotas": {"jobs": 5, "log_bytes": 1000}})).await;
    assert_eq!(first.status, 200, "{}", first.body);
    let tag = first.header("etag").unwrap().to_owned();
    let second = patch(&app, &json!({"name": "Us", "quotas": {"jobs": null}})).await.json();
    assert_eq!((&second["name"], &second["quotas"]["log_bytes"]), (&json!("Us"), &json!(1000)));
    assert_eq!(second["quotas"]["jobs"], Value::Null);
    assert_eq!(app.get(TENANT).await.json(), second);
    let stale = app
        .send(
            Request::patch(TENANT)
                .headers(&[("content-type", "application/json"), ("if-match", &tag)])
                .body("{}"),
        )
        .await;
    assert_eq!(stale.status, 412);
    let wrong = patch(&app, &json!({"name": " ", "quotas": {"jobs": -1, "log_bytes": 1}})).await;
    assert_eq!(
        (wrong.status, pointers(&wrong.json())),
        (422, vec!["/name".to_owned(), "/quotas/jobs".to_owned()])
    );
    assert_eq!(patch(&app, &json!({"quotas": {"job": 1}})).await.status, 422);
    assert_eq!(patch(&app, &json!({"quotas": {"jobs": 1.5}})).await.status, 422);
    assert_eq!(app.get("/api/v1/tenants/none").await.status, 404);
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'update_tenant'").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_quota_of_tenant_is_enforced() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    patch(&app, &json!({"quotas": {"jobs": 2}})).await;
    assert_eq!(app.post("/api/v1/jobs", &manual("b")).await.status, 201);
    let refused = app.post("/api/v1/jobs", &manual("c")).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (409, &json!("quota_exceeded")),
        "{}",
        refused.body
    );
    assert!(refused.body.contains("may have 2 jobs and has 2"), "{}", refused.body);
    let two = json!({"jobs": [manual("a"), manual("c"), manual("d")]});
    let refused = app.post("/api/v1/apply", &two).await;
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("quota_exceeded")));
    assert_eq!(
        app.apply(&json!({"jobs": [manual("a"), manual("b")]})).await.len(),
        2,
        "existing jobs may be changed"
    );
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_jobs WHERE scope = 'project'").await, 2);
    let usage = app.get("/api/v1/usage").await.json();
    assert_eq!(usage["jobs"], json!({"limit": 2, "used": 2}), "{usage}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creations_do_not_exceed_the_quota_of_jobs() {
    let app = TestApp::start().await;
    app.with_jobs(&[]).await;
    patch(&app, &json!({"quotas": {"jobs": 3}})).await;
    let bodies: Vec<Value> = (0..12).map(|n| manual(&format!("j{n}"))).collect();
    let answers =
        futures_util::future::join_all(bodies.iter().map(|body| app.post("/api/v1/jobs", body))).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 3, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 201 | 409)), "{statuses:?}");
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_jobs WHERE scope = 'project'").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_use_the_quota_of_runs_per_minute() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let trigger = "/api/v1/jobs/a/trigger";
    assert_eq!(
        app.get("/api/v1/usage").await.json()["runs_per_minute"],
        json!({"limit": null, "used": null})
    );
    patch(&app, &json!({"quotas": {"runs_per_minute": 0}})).await;
    let refused = app.post(trigger, &json!({})).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (429, &json!("quota_exceeded")),
        "{}",
        refused.body
    );
    let after: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
    patch(&app, &json!({"quotas": {"runs_per_minute": 1000}})).await;
    let keyed = [("content-type", "application/json"), ("idempotency-key", "k")];
    for _ in 0..3 {
        assert_eq!(app.send(Request::post(trigger).headers(&keyed).body("{}")).await.status, 202);
    }
    let used = app.get("/api/v1/usage").await.json()["runs_per_minute"]["used"].as_i64().unwrap();
    assert!(used <= 1, "{used}");
    assert_eq!(app.fixture.number("SELECT count(*) FROM job_dispatch").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_pauses_a_tenant() {
    let app = TestApp::start().await;
    let paused = app.post(&format!("{TENANT}/pause"), &json!({"reason": "unpaid"})).await;
    assert_eq!((paused.status, &paused.json()["pause_reason"]), (200, &json!("unpaid")), "{}", paused.body);
    let resumed = app.send(Request::post(&format!("{TENANT}/resume"))).await.json();
    assert_eq!((&resumed["is_paused"], &resumed["pause_reason"]), (&json!(false), &Value::Null));
    let usage = app.get(&format!("{TENANT}/usage")).await.json();
    assert_eq!((&usage["tenant"], &usage["concurrent_runs"]["used"]), (&json!("default"), &json!(0)));
    assert_eq!(app.get("/api/v1/tenants/none/usage").await.status, 404);
    assert_eq!(app.fixture.number("SELECT count(*) FROM events WHERE event_type LIKE 'tenant_%'").await, 2);
}

use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{TestApp, pointers};

const REPORTS: &str = "/api/v1/queues/reports";

async fn put(app: &TestApp, path: &str, body: &Value) -> Answer {
    app.send("PUT", path, &[("content-type", "application/json")], Some(&body.to_string())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_made_limited_and_shown() {
    let app = TestApp::start().await;
    let limits = json!({"max_running": 3, "rate": {"count": 100, "period_seconds": 60}});
    let created = put(&app, REPORTS, &limits).await;
    assert_eq!((created.status, created.header("location")), (201, Some(REPORTS)), "{}", created.body);
    let queue = created.json();
    assert_eq!((&queue["max_running"], &queue["rate"]), (&json!(3), &limits["rate"]));
    assert_eq!((&queue["running"], &queue["claimed_in_period"]), (&json!(0), &json!(0)));
    assert_eq!(app.get(REPORTS).await.json(), queue);
    let listed = app.get("/api/v1/queues").await.json();
    let names: Vec<&Value> = listed["items"].as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
    assert_eq!(names, ["default", "reports"]);

    let again = put(&app, REPORTS, &limits).await;
    assert_eq!((again.status, again.json()), (200, queue));
    let paused = put(&app, REPORTS, &json!({"is_paused": true, "pause_reason": "full"})).await;
    assert_eq!((paused.status, &paused.json()["max_running"]), (200, &Value::Null), "{}", paused.body);
    assert_eq!(app.get("/api/v1/queues/none").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_queue_can_be_is_refused() {
    let app = TestApp::start().await;
    let refused = put(&app, REPORTS, &json!({"max_running": 0, "pause_reason": "x"})).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert_eq!(pointers(&refused.json()), ["/max_running", "/pause_reason"]);
    assert_eq!(put(&app, "/api/v1/queues/No%20Name", &json!({})).await.status, 400);
    assert_eq!(app.get(REPORTS).await.status, 404);
}

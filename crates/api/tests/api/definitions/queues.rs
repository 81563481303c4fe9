use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{Request, TestApp, function, manual, pointers};

const REPORTS: &str = "/api/v1/queues/reports";

async fn put(app: &TestApp, path: &str, body: &Value) -> Answer {
    app.send(Request::put(path).headers(&[("content-type", "application/json")]).body(&body.to_string()))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_with_limits_is_created_and_shown() {
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
async fn running_runs_are_counted_without_a_limit() {
    let app = TestApp::start().await;
    app.with_jobs(&["a", "b"]).await;
    for job in ["a", "b"] {
        app.post(&format!("/api/v1/jobs/{job}/trigger"), &json!({})).await;
    }
    let running = "
        INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
            VALUES (md5('w')::uuid, 'host', 'x', 1, 'v', '{default}', 1, 30000);
        UPDATE job_dispatch d SET status = 'IN_PROGRESS', worker_id = md5('w')::uuid, claimed_at = now(), claim_token = 1,
                                  claimable_at = NULL, attempt = 1
            FROM scheduled_jobs j WHERE j.id = d.job_id AND j.name = 'a';
        INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds)
            SELECT worker_id, ARRAY[id], '{60}' FROM job_dispatch WHERE status = 'IN_PROGRESS'";
    app.fixture.sql(running).await;
    let queue = app.get("/api/v1/queues/default").await.json();
    assert_eq!((&queue["running"], &queue["waiting"]), (&json!(1), &json!(1)), "{queue}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_queue_change_has_a_new_tag() {
    let app = TestApp::start().await;
    let json = ("content-type", "application/json");
    let send = async |method: &str, path: &str, tag: &str, body: Option<&str>| {
        app.send(
            Request::new(method, &format!("{REPORTS}{path}"))
                .headers(&[json, ("if-match", tag)])
                .optional_body(body),
        )
        .await
    };
    let tag = |answer: &Answer| answer.header("etag").unwrap().to_owned();
    let made = put(&app, REPORTS, &json!({"max_running": 3})).await;
    let read = app.get(REPORTS).await;
    assert_eq!(tag(&made), tag(&read));
    let paused = send("POST", "/pause", &tag(&read), Some("{}")).await;
    assert_eq!(paused.status, 200, "{}", paused.body);
    assert_ne!(tag(&paused), tag(&read));
    assert_eq!(tag(&app.get(REPORTS).await), tag(&paused));
    // A client with a tag from before the pause neither ends the pause nor deletes the queue.
    for (method, path, body) in [
        ("PUT", "", Some(r#"{"max_running": 4}"#)),
        ("POST", "/resume", Some("{}")),
        ("POST", "/pause", Some("{}")),
        ("DELETE", "", None),
    ] {
        let late = send(method, path, &tag(&read), body).await;
        assert_eq!((late.status, &late.json()["code"]), (412, &json!("version_mismatch")), "{}", late.body);
    }
    let kept = app.get(REPORTS).await.json();
    assert_eq!((&kept["is_paused"], &kept["max_running"]), (&json!(true), &json!(3)));
    let written = send("PUT", "", &tag(&paused), Some(r#"{"is_paused": true, "max_running": 4}"#)).await;
    assert_eq!((written.status, &written.json()["max_running"]), (200, &json!(4)), "{}", written.body);
    let same = send("PUT", "", &tag(&written), Some(r#"{"is_paused": true, "max_running": 4}"#)).await;
    assert_eq!((same.status, tag(&same)), (200, tag(&written)), "nothing was changed");
    let resumed = send("POST", "/resume", &tag(&same), Some("{}")).await;
    assert_eq!(resumed.status, 200, "{}", resumed.body);
    assert_eq!(send("DELETE", "", &tag(&resumed), None).await.status, 204);
    let gone = send("PUT", "", &tag(&resumed), Some("{}")).await;
    assert_eq!((gone.status, &gone.json()["code"]), (412, &json!("precondition_failed")), "{}", gone.body);
    let new = app.send(Request::put(REPORTS).headers(&[json, ("if-none-match", "*")]).body("{}")).await;
    assert_eq!(new.status, 201, "{}", new.body);
    let twice = app.send(Request::put(REPORTS).headers(&[json, ("if-none-match", "*")]).body("{}")).await;
    assert_eq!(twice.json()["code"], "precondition_failed", "{}", twice.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_queues_are_refused() {
    let app = TestApp::start().await;
    let refused = put(&app, REPORTS, &json!({"max_running": 0, "pause_reason": "x"})).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert_eq!(pointers(&refused.json()), ["/max_running", "/pause_reason"]);
    assert_eq!(put(&app, "/api/v1/queues/No%20Name", &json!({})).await.status, 400);
    assert_eq!(app.get(REPORTS).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_queue_is_paused_resumed_and_deleted() {
    let app = TestApp::start().await;
    put(&app, REPORTS, &json!({"max_running": 3})).await;
    let paused = app.post(&format!("{REPORTS}/pause"), &json!({"reason": "full"})).await;
    assert_eq!((paused.status, &paused.json()["pause_reason"]), (200, &json!("full")), "{}", paused.body);
    assert_eq!(paused.json()["max_running"], 3, "its limits stay");
    let resumed = app.send(Request::post(&format!("{REPORTS}/resume"))).await.json();
    assert_eq!((&resumed["is_paused"], &resumed["pause_reason"]), (&json!(false), &Value::Null));
    assert_eq!(app.post("/api/v1/queues/none/pause", &json!({})).await.status, 404);

    let mut function = function("f");
    function["queue"] = json!("reports");
    app.apply(&json!({"task_functions": [function]})).await;
    let kept = app.send(Request::delete(REPORTS)).await;
    assert_eq!((kept.status, &kept.json()["code"]), (409, &json!("in_use")));
    assert!(kept.body.contains("task functions f"), "{}", kept.body);
    app.apply(&json!({"task_functions": [crate::support::function("f")], "jobs": [manual("a")]})).await;
    app.fixture.sql("UPDATE scheduled_jobs SET queue = 'reports' WHERE name = 'a'").await;
    assert!(app.send(Request::delete(REPORTS)).await.body.contains("jobs a"));
    for _ in 0..2 {
        app.post("/api/v1/jobs/a/trigger", &json!({})).await;
    }
    let waiting = app.get(REPORTS).await.json();
    assert_eq!(
        (&waiting["waiting"], &waiting["waiting_is_at_least"]),
        (&json!(2), &json!(false)),
        "{waiting}"
    );
    assert!(waiting["oldest_claimable_at"].is_string());
    app.fixture.sql("UPDATE scheduled_jobs SET queue = NULL WHERE name = 'a'").await;
    assert!(app.send(Request::delete(REPORTS)).await.body.contains("waiting dispatches"));
    app.post("/api/v1/jobs/a/cancel", &json!({})).await;
    app.fixture.sql("UPDATE scheduled_jobs SET queue = 'reports', deleted_at = now() WHERE name = 'a'").await;
    let gone = app.send(Request::delete(REPORTS)).await;
    assert_eq!(gone.status, 204, "{}", gone.body);
    assert_eq!(app.get(REPORTS).await.status, 404);
    assert_eq!(app.send(Request::delete("/api/v1/queues/default")).await.json()["code"], "built_in");
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'delete_queue'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_counts_its_living_workers() {
    let app = TestApp::start().await;
    put(&app, REPORTS, &json!({})).await;
    assert_eq!(app.get(REPORTS).await.json()["workers"], 0);
    app.fixture
        .sql(
            "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms, status)
             SELECT gen_random_uuid(), 'here', 'p', 1, 'v', w.queues, 1, 30000, w.status
             FROM (VALUES ('{default,reports}'::text[], 'IDLE'), ('{reports}', 'BUSY'), ('{reports}', 'DRAINING'), ('{default}', 'IDLE'))
                 AS w (queues, status)",
        )
        .await;
    assert_eq!(app.get(REPORTS).await.json()["workers"], 2);
    let page = app.get("/api/v1/queues").await.json();
    let told: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|queue| (&queue["name"], &queue["workers"])).collect();
    assert!(told.contains(&(&json!("default"), &json!(2))), "{told:?}");
    assert!(told.contains(&(&json!("reports"), &json!(2))), "{told:?}");
}

use serde_json::{Value, json};

use crate::support::TestApp;

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

async fn trigger(app: &TestApp, job: &str) -> String {
    let answer = app.send("POST", &format!("/api/v1/jobs/{job}/trigger"), &[], None).await;
    answer.json()["dispatch_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn dispatches_are_listed_newest_first_and_by_filter() {
    let app = TestApp::start().await;
    app.with_jobs(&["a", "b"]).await;
    let mut expected = Vec::new();
    for job in ["a", "b", "a"] {
        expected.push((trigger(&app, job).await, job));
    }
    // Ids of one millisecond are in random order.
    expected.sort();
    expected.reverse();
    let list = async |query: &str| ids(&app.get(&format!("/api/v1/dispatches{query}")).await.json());
    let all: Vec<String> = expected.iter().map(|(id, _)| id.clone()).collect();
    let of_a: Vec<String> =
        expected.iter().filter(|(_, job)| *job == "a").map(|(id, _)| id.clone()).collect();
    assert_eq!(list("").await, all);
    assert_eq!(list("?job=a").await, of_a);
    assert_eq!(list("?status=PENDING&job=a").await, of_a);
    assert_eq!(list("?status=COMPLETED").await, Vec::<String>::new());
    let page = app.get("/api/v1/dispatches?limit=2").await.json();
    assert_eq!(ids(&page), all[..2]);
    let rest = format!("?limit=2&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(list(&rest).await, all[2..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_and_their_output_are_shown() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let dispatch = trigger(&app, "report").await;
    let client = app.db.client().await;
    client
        .batch_execute(
            "INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                 completed_at, duration_ms, exit_code, result, error_class, error_message, output_bytes, claim_token, triggered_by)
             SELECT gen_random_uuid(), d.tenant_id, d.job_id, d.id, n, CASE n WHEN 1 THEN 'FAILED' ELSE 'COMPLETED' END, d.scheduled_for,
                 now(), now(), 7, n - 1, '{\"ok\": true}', CASE n WHEN 1 THEN 'exit_code' END, CASE n WHEN 1 THEN 'ended with 3' END, 5, 1, 'api'
             FROM job_dispatch d, generate_series(1, 2) n;
             INSERT INTO job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes)
             SELECT tenant_id, id, started_at, 'stdout', 0, 'hello', 0 FROM job_execution_log WHERE attempt = 2;",
        )
        .await
        .unwrap();
    let all = app.get(&format!("/api/v1/executions?dispatch={dispatch}&job=report")).await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let failed = app.get("/api/v1/executions?status=FAILED").await.json();
    let shown = &failed["items"][0];
    assert_eq!((&shown["error_class"], &shown["attempt"]), (&json!("exit_code"), &json!(1)));
    assert_eq!((&shown["job"], &shown["result"]), (&json!("report"), &json!({"ok": true})));
    let completed = app.get("/api/v1/executions?status=COMPLETED").await.json();
    let path = format!("/api/v1/executions/{}", completed["items"][0]["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.json(), completed["items"][0]);
    let output = app.get(&format!("{path}/output")).await.json();
    let chunk = json!({"stream": "stdout", "chunk": 0, "content": "hello", "dropped_bytes": 0});
    assert_eq!(output["chunks"], json!([chunk]));
    let silent = format!("/api/v1/executions/{}/output", shown["id"].as_str().unwrap());
    assert_eq!(app.get(&silent).await.json()["chunks"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_counts_what_is_there() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    trigger(&app, "report").await;
    let status = app.get("/api/v1/status").await.json();
    assert_eq!((&status["jobs_active"], &status["dispatches_pending"]), (&json!(1), &json!(1)), "{status}");
    assert_eq!((&status["has_leader"], &status["workers_online"]), (&json!(false), &json!(0)));
    assert_eq!(
        (&status["queues"][0]["name"], &status["queues"][0]["waiting"]),
        (&json!("default"), &json!(1))
    );
    for path in ["/api/v1/workers", "/api/v1/scheduler-instances"] {
        assert_eq!(app.get(path).await.json(), json!({"items": [], "next_cursor": null}), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_names_what_needs_somebody() {
    let app = TestApp::start().await;
    app.with_jobs(&["report", "broken"]).await;
    trigger(&app, "report").await;
    let client = app.db.client().await;
    client
        .batch_execute(
            "UPDATE queues SET is_paused = true, pause_reason = 'disk', rate_limit_count = 2, rate_limit_period_seconds = 60;
             INSERT INTO queue_usage (tenant_id, queue, claimed_at, claimed)
             SELECT tenant_id, name, ARRAY[clock_timestamp()], ARRAY[2] FROM queues WHERE name = 'default';
             UPDATE scheduled_jobs SET is_enabled = false, disabled_reason = 'no such zone', last_fire_at = now() WHERE name = 'broken'",
        )
        .await
        .unwrap();
    let status = app.get("/api/v1/status").await.json();
    assert_eq!(status["jobs_quarantined"], 1, "{status}");
    assert_eq!(status["quarantined"], json!([{"name": "broken", "reason": "no such zone"}]));
    let queue = status["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "default").unwrap();
    let found = [
        "waiting",
        "is_paused",
        "pause_reason",
        "has_live_worker",
        "is_at_limit",
        "claimed_in_period",
        "running",
    ];
    assert_eq!(
        found.map(|key| queue[key].clone()),
        [json!(1), json!(true), json!("disk"), json!(false), json!(true), json!(2), Value::Null]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_schedulers_are_shown() {
    let app = TestApp::start().await;
    let client = app.db.client().await;
    client
        .batch_execute(
            "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
             VALUES (gen_random_uuid(), 'here', 'linux x86_64', 42, '1.0', ARRAY['default'], 3, 30000);
             INSERT INTO scheduler_instances (id, hostname, pid, version) VALUES (gen_random_uuid(), 'there', 43, '1.0');",
        )
        .await
        .unwrap();
    let workers = app.get("/api/v1/workers").await.json();
    assert_eq!(
        (&workers["items"][0]["hostname"], &workers["items"][0]["queues"]),
        (&json!("here"), &json!(["default"]))
    );
    let schedulers = app.get("/api/v1/scheduler-instances").await.json();
    assert_eq!(
        (&schedulers["items"][0]["pid"], &schedulers["items"][0]["is_leader"]),
        (&json!(43), &json!(false))
    );
    assert_eq!(app.get("/api/v1/status").await.json()["workers_online"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_listed_by_name() {
    let app = TestApp::start().await;
    let function = |name: &str| crate::support::function(name);
    app.apply(&json!({"task_functions": [function("b"), function("a")]})).await;
    let page = app.get("/api/v1/task-functions?limit=1").await.json();
    assert_eq!((&page["items"][0]["name"], &page["next_cursor"]), (&json!("a"), &json!("a")));
    let page = app.get("/api/v1/task-functions?limit=1&cursor=a").await.json();
    assert_eq!((&page["items"][0]["display_name"], &page["next_cursor"]), (&json!("b"), &Value::Null));
    assert_eq!(page["items"][0]["handler_config"], json!({"program": "true"}));
}

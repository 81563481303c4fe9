use serde_json::{Value, json};

use crate::support::{Request, TestApp};

pub(super) fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

pub(super) async fn trigger(app: &TestApp, job: &str) -> String {
    let answer = app.send(Request::post(&format!("/api/v1/jobs/{job}/trigger"))).await;
    answer.json()["run_id"].as_str().unwrap().to_owned()
}

pub(super) async fn listed(app: &TestApp, path: &str, key: &str) -> Vec<String> {
    let page = app.get(&format!("/api/v1/{path}")).await;
    assert_eq!(page.status, 200, "{path}: {}", page.body);
    let items = page.json()["items"].as_array().unwrap().clone();
    items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_newest_first() {
    let app = TestApp::start().await;
    app.with_jobs(&["a", "b"]).await;
    let mut expected = Vec::new();
    for job in ["a", "b", "a"] {
        expected.push((trigger(&app, job).await, job));
    }
    expected.sort();
    expected.reverse();
    let list = async |query: &str| ids(&app.get(&format!("/api/v1/runs{query}")).await.json());
    let all: Vec<String> = expected.iter().map(|(id, _)| id.clone()).collect();
    let of_a: Vec<String> =
        expected.iter().filter(|(_, job)| *job == "a").map(|(id, _)| id.clone()).collect();
    assert_eq!(list("").await, all);
    assert_eq!(list("?job=a").await, of_a);
    assert_eq!(list("?status=waiting&job=a").await, of_a);
    assert_eq!(list("?status=succeeded").await, Vec::<String>::new());
    let page = app.get("/api/v1/runs?limit=2").await.json();
    assert_eq!(ids(&page), all[..2]);
    let rest = format!("?limit=2&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(list(&rest).await, all[2..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_and_their_output_are_shown() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let dispatch = trigger(&app, "report").await;
    app.fixture
        .sql(
            "INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                 completed_at, duration_ms, exit_code, result, error_class, error_message, output_bytes, claim_token, triggered_by)
             SELECT gen_random_uuid(), d.tenant_id, d.job_id, d.id, n, CASE n WHEN 1 THEN 'FAILED' ELSE 'COMPLETED' END, d.scheduled_for,
                 now(), now(), 7, n - 1, '{\"ok\": true}', CASE n WHEN 1 THEN 'exit_code' END, CASE n WHEN 1 THEN 'ended with 3' END, 5, 1, 'api'
             FROM job_dispatch d, generate_series(1, 2) n;
             INSERT INTO job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes)
             SELECT tenant_id, id, started_at, 'stdout', 0, 'hello', 0 FROM job_execution_log WHERE attempt = 2;",
        )
        .await;
    let all = app.get(&format!("/api/v1/attempts?run={dispatch}&job=report")).await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let newest_first = ids(&all);
    let oldest_first: Vec<String> = newest_first.iter().rev().cloned().collect();
    for (path, expected) in [
        ("attempts", &newest_first),
        ("attempts?sort=-created_at", &newest_first),
        ("attempts?sort=created_at&job=report", &oldest_first),
        ("jobs/report/attempts?sort=created_at", &oldest_first),
    ] {
        assert_eq!(listed(&app, path, "id").await, *expected, "{path}");
    }
    let first = app.get("/api/v1/attempts?sort=created_at&limit=1").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&first), oldest_first[..1]);
    let rest = listed(&app, &format!("attempts?sort=created_at&cursor={cursor}"), "id").await;
    assert_eq!(rest, oldest_first[1..]);
    assert_eq!(app.get(&format!("/api/v1/attempts?cursor={cursor}")).await.status, 400);
    let failed = app.get("/api/v1/attempts?status=failed").await.json();
    let shown = &failed["items"][0];
    assert_eq!((&shown["error_class"], &shown["attempt"]), (&json!("exit_code"), &json!(1)));
    assert_eq!((&shown["job"], &shown["result"]), (&json!("report"), &json!({"ok": true})));
    let completed = app.get("/api/v1/attempts?status=succeeded").await.json();
    let path = format!("/api/v1/attempts/{}", completed["items"][0]["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.json(), completed["items"][0]);
    let output = app.get(&format!("{path}/output")).await.json();
    let chunk = json!({"stream": "stdout", "chunk": 0, "content": "hello", "dropped_bytes": 0});
    assert_eq!(output["chunks"], json!([chunk]));
    let silent = format!("/api/v1/attempts/{}/output", shown["id"].as_str().unwrap());
    assert_eq!(app.get(&silent).await.json()["chunks"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn status_counts_resources() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    trigger(&app, "report").await;
    let status = app.get("/api/v1/status").await.json();
    assert_eq!((&status["jobs_active"], &status["runs_waiting"]), (&json!(1), &json!(1)), "{status}");
    assert_eq!((&status["has_leader"], &status["workers_online"]), (&json!(false), &json!(0)));
    assert_eq!(
        (&status["queues"][0]["name"], &status["queues"][0]["waiting"]),
        (&json!("default"), &json!(1))
    );
    for path in ["/api/v1/workers", "/api/v1/schedulers"] {
        assert_eq!(app.get(path).await.json(), json!({"items": [], "next_cursor": null}), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_names_problems() {
    let app = TestApp::start().await;
    app.with_jobs(&["report", "broken"]).await;
    trigger(&app, "report").await;
    app.fixture
        .sql(
            "UPDATE queues SET is_paused = true, pause_reason = 'disk', rate_limit_count = 2, rate_limit_period_seconds = 60;
             INSERT INTO queue_usage (tenant_id, queue, claimed_at, claimed)
             SELECT tenant_id, name, ARRAY[clock_timestamp()], ARRAY[2] FROM queues WHERE name = 'default';
             UPDATE scheduled_jobs SET is_enabled = false, disabled_reason = 'no such zone', last_fire_at = now() WHERE name = 'broken'",
        )
        .await;
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
async fn status_names_next_due_jobs() {
    let app = TestApp::start().await;
    app.with_jobs(&["manual"]).await;
    for (name, hours) in [("later", 3), ("soon", 1), ("paused", 1), ("off", 1)] {
        let job = json!({"name": name, "function": "f", "job_type": "interval", "schedule_config": {"hours": hours}});
        assert_eq!(app.post("/api/v1/jobs", &job).await.status, 201);
    }
    app.send(Request::post("/api/v1/jobs/paused/pause")).await;
    app.send(Request::post("/api/v1/jobs/off/disable")).await;
    let status = app.get("/api/v1/status").await.json();
    let names: Vec<_> =
        status["next_due"].as_array().unwrap().iter().map(|job| job["name"].clone()).collect();
    assert_eq!(names, ["soon", "later"], "{status}");
    assert_eq!(status["next_due"][0]["next_run_at"], status["next_run_at"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_schedulers_are_shown() {
    let app = TestApp::start().await;
    app.fixture
        .sql(
            "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms, last_heartbeat)
             VALUES (gen_random_uuid(), 'here', 'linux x86_64', 42, '1.0', ARRAY['default'], 3, 30000, now() - interval '12 seconds');
             INSERT INTO scheduler_instances (id, hostname, pid, version) VALUES (gen_random_uuid(), 'there', 43, '1.0');",
        )
        .await;
    let workers = app.get("/api/v1/workers").await.json();
    assert_eq!(
        (&workers["items"][0]["hostname"], &workers["items"][0]["queues"]),
        (&json!("here"), &json!(["default"]))
    );
    let age = workers["items"][0]["heartbeat_age_seconds"].as_u64().unwrap();
    assert!((12..60).contains(&age), "{age}");
    let health = app.get("/health/detailed").await.json();
    let workers = health["components"].as_array().unwrap().iter().find(|part| part["name"] == "workers");
    assert!(workers.unwrap()["details"]["oldest_heartbeat_seconds"].as_f64() >= Some(12.0), "{health}");
    let schedulers = app.get("/api/v1/schedulers").await.json();
    assert_eq!(
        (&schedulers["items"][0]["pid"], &schedulers["items"][0]["is_leader"]),
        (&json!(43), &json!(false))
    );
    assert_eq!(app.get("/api/v1/status").await.json()["workers_online"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn living_workers_are_listed_first() {
    let app = TestApp::start().await;
    // Two living workers that started together, a later one, and three stopped ones (two at the
    // same time).
    let register = "INSERT INTO worker_registration
             (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms, started_at, status, offline_since)
         SELECT lpad(n::text, 32, '0')::uuid, n::text, 'p', 1, 'v', '{default}', 1, 30000, now() - make_interval(secs => 10 - started),
             CASE WHEN gone IS NULL THEN 'IDLE' ELSE 'OFFLINE' END, now() - make_interval(secs => gone)
         FROM (VALUES (1, 5, NULL), (2, 5, NULL), (3, 6, NULL), (4, 3, 1), (5, 1, 2), (6, 2, 2)) AS w (n, started, gone)";
    app.fixture.sql(register).await;
    let all = ["1", "2", "3", "4", "5", "6"];
    assert_eq!(listed(&app, "workers", "hostname").await, all);
    for limit in 1..=6 {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = app.get(&format!("/api/v1/workers?limit={limit}{cursor}")).await.json();
            for worker in page["items"].as_array().unwrap() {
                seen.push(worker["hostname"].as_str().unwrap().to_owned());
            }
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen, all, "{limit} at once");
        let elsewhere = app.get(&format!("/api/v1/workers?status=idle{cursor}")).await;
        assert_eq!(elsewhere.status, if cursor.is_empty() { 200 } else { 400 }, "{}", elsewhere.body);
    }
    assert_eq!(listed(&app, "workers?status=offline&limit=2", "hostname").await, ["4", "5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_listed_by_name() {
    let app = TestApp::start().await;
    let function = |name: &str| crate::support::function(name);
    app.apply(&json!({"task_functions": [function("b"), function("a")]})).await;
    let page = app.get("/api/v1/functions?limit=1").await.json();
    assert_eq!(page["items"][0]["name"], "a");
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = app.get(&format!("/api/v1/functions?limit=1&cursor={cursor}")).await.json();
    assert_eq!((&page["items"][0]["display_name"], &page["next_cursor"]), (&json!("b"), &Value::Null));
    assert_eq!(page["items"][0]["handler_config"], json!({"program": "true"}));
}

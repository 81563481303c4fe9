use std::collections::HashMap;

use sched_model::domain::attempt::AttemptOutcome;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Request, TestApp, manual};

#[tokio::test(flavor = "multi_thread")]
async fn disabled_job_type_accepts_no_new_jobs() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let path = "/api/v1/job-types/manual";
    let put = async |body: Value| {
        app.send(Request::put(path).headers(&[("content-type", "application/json")]).body(&body.to_string()))
            .await
    };
    assert_eq!(put(json!({"is_active": false})).await.json()["is_active"], false);
    let refused = app.post("/api/v1/jobs", &manual("b")).await;
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("inactive")), "{}", refused.body);
    assert_eq!(refused.json()["errors"][0]["pointer"], "/job_type");
    let mut again = manual("a");
    again["description"] = json!("changed");
    assert_eq!(
        app.apply(&json!({"jobs": [again]})).await,
        ["job a updated"],
        "existing jobs may still change"
    );
    assert_eq!(put(json!({"is_active": true})).await.status, 200);
    assert_eq!(app.post("/api/v1/jobs", &manual("b")).await.status, 201);
    let kinds = app.get("/api/v1/job-types").await.json();
    assert_eq!(kinds["items"].as_array().unwrap().len(), 4);
    assert_eq!(put(json!({})).await.status, 422);
    let unknown = app
        .send(
            Request::put("/api/v1/job-types/hourly")
                .headers(&[("content-type", "application/json")])
                .body("{\"is_active\":true}"),
        )
        .await;
    assert_eq!(unknown.status, 404);
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'update_job_type'").await,
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_drain_begins_and_ends() {
    let app = TestApp::start().await;
    let id = Uuid::new_v4();
    let register = format!(
        "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
         VALUES ('{id}', 'h', 'p', 1, 'v', '{{default}}', 1, 30000)"
    );
    app.fixture.sql(&register).await;
    let (drain, undrain) = (format!("/api/v1/workers/{id}/drain"), format!("/api/v1/workers/{id}/undrain"));
    for _ in 0..2 {
        let asked = app.send(Request::post(&drain)).await;
        assert_eq!(
            (asked.status, asked.json()["drain_requested_at"].is_string()),
            (202, true),
            "{}",
            asked.body
        );
    }
    assert!(app.get("/api/v1/workers").await.json()["items"][0]["drain_requested_at"].is_string());
    let undrained = app.send(Request::post(&undrain)).await.json();
    assert_eq!(undrained["drain_requested_at"], Value::Null);
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE target_type = 'worker'").await, 2);
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM events WHERE event_type LIKE 'worker_drain_%'").await,
        2
    );
    let offline = "UPDATE worker_registration SET status = 'OFFLINE', offline_since = now()";
    app.fixture.sql(offline).await;
    assert_eq!(app.send(Request::post(&drain)).await.status, 404);
    assert_eq!(app.send(Request::post(&format!("/api/v1/workers/{}/drain", Uuid::nil()))).await.status, 404);
    assert_eq!(app.send(Request::post("/api/v1/workers/x/drain")).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_name_and_password_can_be_changed() {
    let app = TestApp::start().await;
    let made = app.post("/api/v1/users", &json!({"email": "bob@example.com"})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let path = "/api/v1/users/BOB@example.com";
    assert_eq!(app.get(path).await.json(), made.json());
    let patch = async |body: Value| {
        app.send(
            Request::patch(path).headers(&[("content-type", "application/json")]).body(&body.to_string()),
        )
        .await
    };
    let changed = patch(json!({"display_name": "Bob", "password": "correct horse battery"})).await;
    assert_eq!((changed.status, &changed.json()["display_name"]), (200, &json!("Bob")), "{}", changed.body);
    assert_eq!(
        app.fixture
            .number("SELECT count(*) FROM users WHERE password_hash IS NOT NULL AND email LIKE 'bob%'")
            .await,
        1
    );
    let noted = "SELECT count(*) FROM audit_log WHERE action IN ('set_password', 'update_user')";
    assert_eq!(app.fixture.number(noted).await, 2, "one entry for each command");
    assert_eq!(patch(json!({"display_name": "Bob"})).await.status, 200);
    assert_eq!(app.fixture.number(noted).await, 2, "nothing was written");
    let short = patch(json!({"password": "short"})).await;
    assert_eq!((short.status, short.body.contains("\"short\"")), (422, false), "{}", short.body);
    let misplaced = patch(json!({"password": ["secret-value"]})).await;
    assert_eq!((misplaced.status, misplaced.body.contains("secret-value")), (422, false));
    assert_eq!(app.get("/api/v1/users/nobody@example.com").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_the_worst_of_its_parts() {
    let app = TestApp::start().await;
    let parts = async |status: u16, word: &str| {
        let answer = app.send(Request::get("/health/detailed").headers(&[("authorization", "")])).await;
        let health = answer.json();
        assert_eq!((answer.status, &health["status"]), (status, &json!(word)), "{health}");
        let parts = health["components"].as_array().unwrap().clone();
        parts
            .into_iter()
            .map(|part| (part["name"].as_str().unwrap().to_owned(), part))
            .collect::<HashMap<_, _>>()
    };
    let none = parts(503, "unavailable").await;
    assert_eq!(
        (&none["leader"]["status"], &none["workers"]["status"]),
        (&json!("unavailable"), &json!("unavailable"))
    );
    assert_eq!(none["schema"]["status"], "ok");
    assert!(none["database"]["details"]["round_trip_ms"].as_f64().unwrap() > 0.0);
    let working = "INSERT INTO scheduler_instances (id, hostname, pid, version, is_leader, leader_since, term)
                   VALUES (gen_random_uuid(), 'secret-host', 1, 'v', true, now(), 7);
                   INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
                   VALUES (gen_random_uuid(), 'secret-host', 'p', 1, 'v', '{default}', 1, 30000)";
    app.fixture.sql(working).await;
    let well = parts(200, "ok").await;
    assert_eq!(
        (&well["leader"]["details"]["term"], &well["workers"]["details"]["idle"]),
        (&json!(7), &json!(1))
    );
    assert!(!json!(well).to_string().contains("secret-host"), "{well:?}");
    app.fixture.sql("UPDATE scheduler_instances SET failing_tasks = '{notify,retain}'").await;
    let failing = parts(200, "degraded").await;
    assert!(
        failing["leader"]["reason"].as_str().unwrap().contains("keep failing: notify, retain"),
        "{:?}",
        failing["leader"]
    );
    app.fixture.sql("UPDATE scheduler_instances SET failing_tasks = '{}'").await;
    app.with_jobs(&["a"]).await;
    let hourly =
        json!({"name": "late", "function": "f", "job_type": "interval", "schedule_config": {"hours": 1}});
    assert_eq!(app.post("/api/v1/jobs", &hourly).await.status, 201);
    let late = "UPDATE scheduled_jobs SET next_run_at = now() - interval '5 minutes' WHERE name = 'late'";
    app.fixture.sql(late).await;
    let late = parts(200, "degraded").await;
    assert!(late["jobs"]["details"]["oldest_due_seconds"].as_f64().unwrap() >= 300.0, "{:?}", late["jobs"]);
    assert_eq!(app.send(Request::post("/health/detailed")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_jobs_and_runs_by_status() {
    let app = TestApp::start().await;
    let empty = app.get("/api/v1/metrics").await.json();
    assert_eq!((&empty["success_rate"], &empty["runs"]), (&Value::Null, &json!({})));
    app.with_jobs(&["a", "b", "c", "d", "e"]).await;
    app.send(Request::post("/api/v1/jobs/b/pause")).await;
    app.send(Request::post("/api/v1/jobs/c/disable")).await;
    app.send(Request::delete("/api/v1/jobs/d")).await;
    let runs = "INSERT INTO attempt_minutes (tenant_id, minute, status, slot, attempts, duration_ms)
                SELECT t.id, date_trunc('minute', now() - u.age * interval '1 hour'), u.status, u.slot, u.attempts, u.took
                FROM tenants t,
                     (VALUES ('COMPLETED', 0, 0, 1, 100), ('COMPLETED', 1, 0, 1, 300), ('FAILED', 0, 0, 1, 7), ('CANCELLED', 0, 0, 1, 7),
                             ('FAILED', 0, 48, 1, 7)) AS u (status, slot, age, attempts, took)
                WHERE t.slug = 'default'";
    app.fixture.sql(runs).await;
    let metrics = app.get("/api/v1/metrics").await.json();
    assert_eq!(metrics["runs"], json!({"succeeded": 2, "failed": 1, "cancelled": 1}), "{metrics}");
    assert_eq!(metrics["average_duration_ms"], 200.0);
    assert!((metrics["success_rate"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9, "{metrics}");
    let jobs = &metrics["jobs"];
    assert_eq!(
        (&jobs["paused"], &jobs["disabled"], &jobs["deleted"]),
        (&json!(1), &json!(1), &json!(1)),
        "{jobs}"
    );
    assert!(jobs["enabled"].as_i64().unwrap() >= 2, "{jobs}");
    let of_three_days = app.get("/api/v1/metrics?hours=72").await.json();
    assert_eq!(of_three_days["runs"]["failed"], 2);
    for bad in ["0", "745", "x"] {
        assert_eq!(app.get(&format!("/api/v1/metrics?hours={bad}")).await.status, 400, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dry_run_of_reset_lists_attempts_without_a_leader() {
    let app = TestApp::start_with(&[("WORKER_OFFLINE_THRESHOLD", "20s"), ("MAX_RETRY_ATTEMPTS", "1")]).await;
    app.with_jobs(&["kept", "again", "never"]).await;
    let retried = json!({"retry_policy": {"max_attempts": 3}});
    let headers = [("content-type", "application/json")];
    let patched =
        app.send(Request::patch("/api/v1/jobs/again").headers(&headers).body(&retried.to_string())).await;
    assert_eq!(patched.status, 200, "{}", patched.body);
    let mut ids = Vec::new();
    for name in ["kept", "again", "never"] {
        let triggered = app.post(&format!("/api/v1/jobs/{name}/trigger"), &json!({})).await.json();
        ids.push(triggered["run_id"].as_str().unwrap().to_owned());
    }
    // Each attempt runs on its own worker; two workers exceed the silence threshold.
    let running = "
        INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms, last_heartbeat)
            SELECT md5(j.name)::uuid, 'host-' || j.name, 'x', 1, 'v', '{default}', 1, 5000,
                   now() - CASE j.name WHEN 'kept' THEN 10 ELSE 25 END * interval '1 second'
            FROM scheduled_jobs j WHERE j.name IN ('kept', 'again', 'never');
        UPDATE job_dispatch d SET status = 'IN_PROGRESS', worker_id = md5(j.name)::uuid, claimed_at = now(), claim_token = 1, claimable_at = NULL, attempt = 1
            FROM scheduled_jobs j WHERE j.id = d.job_id;
        INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds) SELECT worker_id, ARRAY[id], '{60}' FROM job_dispatch";
    app.fixture.sql(running).await;
    let rows = "SELECT md5(string_agg(d::text, ',' ORDER BY d.id)) FROM job_dispatch d";
    let rows = async || app.fixture.text(rows).await;
    let before = rows().await;
    let told = app.post("/api/v1/maintenance/reset-stuck", &json!({"dry_run": true})).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let told = told.json();
    assert_eq!(
        (&told["dry_run"], &told["count"], &told["count_is_at_least"]),
        (&json!(true), &json!(2), &json!(false))
    );
    assert_eq!(told["has_leader"], false, "no leader would end the attempts");
    let leads = "INSERT INTO scheduler_instances (id, hostname, pid, version, is_leader, leader_since, term)
                 VALUES (gen_random_uuid(), 'h', 1, 'v', true, now(), 7)";
    app.fixture.sql(leads).await;
    let again = app.post("/api/v1/maintenance/reset-stuck", &json!({"dry_run": true})).await;
    assert_eq!(again.json()["has_leader"], true, "{}", again.body);
    let mut attempts = told["attempts"].as_array().unwrap().clone();
    attempts.sort_by_key(|attempt| attempt["job"].to_string());
    for (attempt, (job, id, becomes)) in
        attempts.iter().zip([("again", &ids[1], "waiting"), ("never", &ids[2], "timed_out")])
    {
        let wanted = json!({
            "run_id": id, "tenant": "default", "job": job, "attempt": 1, "claimed_at": attempt["claimed_at"],
            "worker_id": attempt["worker_id"], "hostname": format!("host-{job}"), "reason": "worker_lost", "becomes": becomes,
        });
        assert_eq!(*attempt, wanted);
    }
    assert_eq!(rows().await, before, "nothing was changed");
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'request_reset_stuck'").await,
        0
    );
    let unknown = app.post("/api/v1/maintenance/reset-stuck", &json!({"dry_runs": true})).await;
    assert_eq!(unknown.status, 422, "{}", unknown.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_is_notified_of_dispatchable_changes() {
    let app = TestApp::start().await;
    for (what, action) in [("tick", "request_tick"), ("reset-stuck", "request_reset_stuck")] {
        app.fixture.sql("DELETE FROM scheduler_instances").await;
        let path = format!("/api/v1/maintenance/{what}");
        let none = app.send(Request::post(&path)).await;
        assert_eq!((none.status, &none.json()["code"]), (409, &json!("no_leader")));
        let leader =
            "INSERT INTO scheduler_instances (id, hostname, pid, version, is_leader, leader_since, term)
                      VALUES (gen_random_uuid(), 'h', 1, 'v', true, now(), 7)";
        app.fixture.sql(leader).await;
        let asked = app.send(Request::post(&path)).await;
        assert_eq!((asked.status, &asked.json()["term"]), (202, &json!(7)), "{}", asked.body);
        let noted = format!("SELECT count(*) FROM audit_log WHERE action = '{action}'");
        assert_eq!(app.fixture.number(&noted).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_shows_its_current_runs() {
    let app = TestApp::start().await;
    app.with_jobs(&["nightly", "hourly"]).await;
    for job in ["nightly", "hourly"] {
        app.send(Request::post(&format!("/api/v1/jobs/{job}/trigger"))).await;
    }
    let worker = app.fixture.worker().await;
    let mut claimed = app.fixture.claim(worker, 10).await;
    claimed.sort_by_key(|claimed| claimed.claimed_at);
    let path = format!("/api/v1/workers/{worker}");
    let shown = app.get(&path).await.json();
    let runs: Vec<&str> =
        shown["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    let expected: Vec<String> = claimed.iter().map(|claimed| claimed.dispatch_id.to_string()).collect();
    assert_eq!(runs.len(), 2, "{shown}");
    assert!(expected.iter().all(|id| runs.contains(&id.as_str())), "{shown}");
    assert_eq!((&shown["runs"][0]["attempt"], &shown["runs"][0]["queue"]), (&1.into(), &"default".into()));

    app.fixture.finish(&claimed[0], AttemptOutcome::Completed).await;
    let rest = app.get(&path).await.json();
    assert_eq!(rest["runs"].as_array().unwrap().len(), 1, "{rest}");
    assert_eq!(rest["runs"][0]["run_id"], expected[1], "{rest}");
    let listed = app.get("/api/v1/workers").await.json();
    assert!(listed["items"][0].get("runs").is_none(), "{listed}");
}

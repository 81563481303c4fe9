use serde_json::{Value, json};

use crate::support::{Request, TestApp, function, pointers};

async fn with_hourly() -> TestApp {
    let app = TestApp::start().await;
    let job = json!({"name": "hourly", "function": "f", "job_type": "interval", "schedule_config": {"hours": 1}, "timezone": "Europe/Berlin"});
    app.apply(&json!({"task_functions": [function("f")], "jobs": [job]})).await;
    app
}

async fn switch(app: &TestApp, action: &str, body: Value) -> (u16, Value) {
    let answer = app.post(&format!("/api/v1/jobs/hourly/{action}"), &body).await;
    (answer.status, answer.json())
}

#[tokio::test(flavor = "multi_thread")]
async fn job_is_paused_with_reason_and_end() {
    let app = with_hourly().await;
    let (status, job) = switch(&app, "pause", json!({"reason": "disk is full", "until": "+2h"})).await;
    assert_eq!(status, 200, "{job}");
    assert_eq!(
        (&job["is_paused"], &job["pause_reason"], &job["version"]),
        (&json!(true), &json!("disk is full"), &json!(2))
    );
    let ends = "SELECT count(*) FROM scheduled_jobs WHERE paused_until BETWEEN now() + interval '119 minutes' AND now() + interval '2 hours'";
    assert_eq!(app.fixture.number(ends).await, 1, "{job}");
    assert_eq!(app.get("/api/v1/jobs/hourly").await.json(), job);
    let next: chrono::DateTime<chrono::Utc> = job["next_run_at"].as_str().unwrap().parse().unwrap();
    let until: chrono::DateTime<chrono::Utc> = job["paused_until"].as_str().unwrap().parse().unwrap();
    let hour = chrono::TimeDelta::hours(1);
    assert!(until <= next && next < until + hour, "the first fire after the pause: {job}");
    let listed = app.get("/api/v1/jobs").await.json();
    assert_eq!(listed["items"][0]["next_run_at"], job["next_run_at"]);
    let preview = app.get("/api/v1/jobs/hourly/preview?count=3").await.json();
    let paused: Vec<bool> =
        preview["fire_times"].as_array().unwrap().iter().map(|fire| fire["is_paused"] == true).collect();
    assert!(paused.contains(&true) && paused.contains(&false), "{preview}");
    let warning = preview["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("(disk is full)") && warning.contains("the first fire after the pause is"),
        "{warning}"
    );
    let (status, again) =
        switch(&app, "pause", json!({"reason": "disk is full", "until": job["paused_until"]})).await;
    assert_eq!((status, &again["version"]), (200, &json!(2)), "nothing was changed");
    let (_, job) = switch(&app, "resume", json!({})).await;
    assert_eq!(
        (&job["is_paused"], &job["pause_reason"], &job["paused_until"], &job["version"]),
        (&json!(false), &Value::Null, &Value::Null, &json!(3))
    );
    let told = "SELECT count(*) FROM events WHERE (event_type, payload->>'reason', payload->>'job_name')
                IN (('job_paused', 'disk is full', 'hourly')) OR event_type = 'job_resumed'";
    assert_eq!(app.fixture.number(told).await, 2);
    let audited = "SELECT count(*) FROM audit_log WHERE target_type = 'job' AND
                   ((action = 'pause_job' AND before->>'is_paused' = 'false' AND after->>'pause_reason' = 'disk is full')
                    OR (action = 'resume_job' AND before->>'is_paused' = 'true' AND after->>'version' = '3'))";
    assert_eq!(app.fixture.number(audited).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_pause_keeps_its_end() {
    let app = with_hourly().await;
    let (_, first) = switch(&app, "pause", json!({"reason": "disk is full", "until": "+2h"})).await;
    let (_, again) = switch(&app, "pause", json!({"reason": "still full"})).await;
    assert_eq!(
        (&again["pause_reason"], &again["paused_until"], &again["version"]),
        (&json!("still full"), &first["paused_until"], &json!(3))
    );
    let (_, endless) = switch(&app, "pause", json!({"until": "never"})).await;
    assert_eq!((&endless["pause_reason"], &endless["paused_until"]), (&json!("still full"), &Value::Null));
    assert_eq!(endless["next_run_at"], Value::Null, "nothing fires before a user resumes it");
    let preview = app.get("/api/v1/jobs/hourly/preview").await.json();
    assert!(
        preview["fire_times"].as_array().unwrap().iter().all(|fire| fire["is_paused"] == true),
        "{preview}"
    );
    let answer = app.post("/api/v1/jobs/hourly/pause", &json!({"until": "some day"})).await;
    assert!(answer.status == 422 && answer.body.contains("or `never`"), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_pause_is_not_shown() {
    let app = with_hourly().await;
    switch(&app, "pause", json!({"reason": "r", "until": "+2h"})).await;
    app.fixture.sql("UPDATE scheduled_jobs SET paused_until = now() - interval '1 second'").await;
    let job = app.get("/api/v1/jobs/hourly").await.json();
    assert_eq!(
        (&job["is_paused"], &job["pause_reason"], &job["paused_until"]),
        (&json!(false), &Value::Null, &Value::Null)
    );
    assert!(job["next_run_at"].is_string(), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn disabling_removes_and_enabling_sets_the_next_fire() {
    let app = with_hourly().await;
    let (_, job) = switch(&app, "disable", json!({})).await;
    assert_eq!((&job["is_enabled"], &job["next_run_at"]), (&json!(false), &Value::Null));
    let (_, job) = switch(&app, "enable", json!({})).await;
    assert_eq!((&job["is_enabled"], job["next_run_at"].is_string()), (&json!(true), true));
    assert_eq!(
        app.fixture
            .number("SELECT count(*) FROM events WHERE event_type IN ('job_disabled', 'job_enabled')")
            .await,
        2
    );
    let changes = "SELECT count(*) FROM scheduled_job_versions WHERE (version, change) IN ((2, 'disabled'), (3, 'enabled'))";
    assert_eq!(app.fixture.number(changes).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn switch_honours_if_match() {
    let app = with_hourly().await;
    let shown = app.get("/api/v1/jobs/hourly").await;
    assert_eq!(shown.header("etag"), Some("\"1\""));
    let paused = |tag: &'static str| {
        let headers = [("content-type", "application/json"), ("if-match", tag)];
        let app = &app;
        async move { app.send(Request::post("/api/v1/jobs/hourly/pause").headers(&headers).body("{}")).await }
    };
    let refused = paused("\"2\"").await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (412, Some("version_mismatch")));
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_jobs WHERE is_paused").await, 0);
    let taken = paused("\"1\"").await;
    assert_eq!((taken.status, taken.header("etag")), (200, Some("\"2\"")), "{}", taken.body);
    assert_eq!(paused("2").await.status, 400);
    assert_eq!(paused("*").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_pause_is_refused_with_its_field() {
    let app = with_hourly().await;
    for (body, pointer) in [
        (json!({"until": "yesterday"}), "/until"),
        (json!({"until": "-1s"}), "/until"),
        (json!({"reason": "x".repeat(501)}), "/reason"),
        (json!({"why": "x"}), "/why"),
    ] {
        let answer = app.post("/api/v1/jobs/hourly/pause", &body).await;
        assert_eq!((answer.status, pointers(&answer.json())), (422, vec![pointer.to_owned()]), "{body}");
    }
    let (status, problem) = switch(&app, "resume", json!({"until": "+1h"})).await;
    assert_eq!((status, pointers(&problem)), (422, vec!["/until".to_owned()]));
    for action in ["pause", "resume", "enable", "disable"] {
        let answer = app.post(&format!("/api/v1/jobs/nobody/{action}"), &json!({})).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (404, Some("not_found")), "{action}");
    }
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_job_versions").await, 1);
}

use serde_json::{Value, json};
use test_support::identity::{OWNER, actor};

use crate::support::{Request, TestApp, function, manual, pointers};

#[tokio::test(flavor = "multi_thread")]
async fn job_is_created_and_found_by_id_and_name() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let spec = json!({
        "name": "report", "function": "f", "job_type": "interval", "schedule_config": {"minutes": 5},
        "task_args": {"depth": 3}, "timezone": "Europe/Berlin", "retry_policy": {"max_attempts": 4},
    });
    let created = app.post("/api/v1/jobs", &spec).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let job = created.json();
    for (field, value) in spec.as_object().unwrap().iter().filter(|(field, _)| *field != "retry_policy") {
        assert_eq!(&job[field], value, "{field}");
    }
    assert_eq!(job["retry_policy"]["backoff_type"], "exponential");
    assert_eq!((&job["version"], &job["created_by"]), (&json!(1), &json!(OWNER)));
    assert_eq!((&job["project"], &job["overlap_policy"]), (&json!("default"), &json!("skip")));
    assert!(job["next_run_at"].as_str().unwrap().ends_with('Z'), "{job}");
    let location = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    assert_eq!(created.header("location"), Some(location.as_str()));
    for path in [location.as_str(), "/api/v1/jobs/report"] {
        assert_eq!(app.get(path).await.json(), job, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_apply_are_shown_with_their_origin() {
    let app = TestApp::start().await;
    let mut several = function("several");
    several["retry_policy"] = json!({"max_attempts": 3});
    several["default_timeout_seconds"] = json!(60);
    let mut own = manual("own");
    own["retry_policy"] = json!({"max_attempts": 2});
    own["timeout_seconds"] = json!(5);
    own["queue"] = json!("fast");
    let mut inherits = manual("inherits");
    inherits["function"] = json!("several");
    let manifest = json!({
        "queues": [{"name": "fast"}],
        "task_functions": [function("f"), several],
        "jobs": [manual("plain"), own, inherits],
    });
    app.apply(&manifest).await;
    let shown = async |path: &str| {
        let effective = app.get(path).await.json()["effective"].clone();
        let of = |field: &str| format!("{} {}", effective[field]["value"], effective[field]["origin"]);
        ["max_attempts", "timeout_seconds", "queue"].map(of).join(", ").replace('"', "")
    };
    for (path, expected) in [
        ("jobs/plain", "1 installation, 300 function, default function"),
        ("jobs/own", "2 job, 5 job, fast job"),
        ("jobs/inherits", "3 function, 60 function, default function"),
        ("functions/f", "1 installation, 300 function, default function"),
        ("functions/several", "3 function, 60 function, default function"),
    ] {
        assert_eq!(shown(&format!("/api/v1/{path}")).await, expected, "{path}");
    }
    let listed = app.get("/api/v1/jobs").await.json();
    assert_eq!(listed["items"][1], app.get("/api/v1/jobs/own").await.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn job_change_is_audited_with_its_request_id() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let headers = [("content-type", "application/json"), ("x-request-id", "my-request.1")];
    let body = manual("report").to_string();
    let created = app.send(Request::post("/api/v1/jobs").headers(&headers).body(&body)).await;
    assert_eq!(created.header("x-request-id"), Some("my-request.1"));
    let client = app.fixture.client().await;
    let row = client
        .query_one(
            "SELECT actor, action, target_id, after->>'name', before IS NULL FROM audit_log WHERE request_id = 'my-request.1'",
            &[],
        )
        .await
        .unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), (actor().as_str(), "create_job"));
    assert_eq!(row.get::<_, &str>(2), created.json()["id"].as_str().unwrap());
    assert_eq!((row.get::<_, &str>(3), row.get::<_, bool>(4)), ("report", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_name_is_a_conflict() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let answer = app.post("/api/v1/jobs", &manual("report")).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (409, Some("already_exists")));
    assert_eq!(pointers(&answer.json()), ["/name"]);
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_jobs").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creations_make_one_job() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let job = manual("report");
    let (a, b, c) = tokio::join!(
        app.post("/api/v1/jobs", &job),
        app.post("/api/v1/jobs", &job),
        app.post("/api/v1/jobs", &job)
    );
    let mut statuses = [a.status, b.status, c.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409], "{} {} {}", a.body, b.body, c.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn references_of_a_job_must_exist() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")]})).await;
    for (field, value) in [("function", "g"), ("project", "moon"), ("queue", "slow")] {
        let mut job = manual("report");
        job[field] = value.into();
        let answer = app.post("/api/v1/jobs", &job).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (422, Some("invalid")), "{field}");
        assert_eq!(pointers(&answer.json()), [format!("/{field}")]);
        assert!(answer.body.contains(value), "{}", answer.body);
    }
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_jobs").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_jobs_are_listed_on_request() {
    let app = TestApp::start().await;
    app.with_jobs(&["mine"]).await;
    app.fixture
        .sql(
            "UPDATE task_functions SET is_system = true;
             INSERT INTO scheduled_jobs (tenant_id, scope, name, task_function_id, job_type, schedule_config)
             SELECT tenant_id, 'system', 'sched.house', id, 'manual', '{}' FROM task_functions WHERE name = 'f'",
        )
        .await;
    let names = async |query: &str| {
        let answer = app.get(&format!("/api/v1/jobs{query}")).await;
        let names: Vec<String> = answer.json()["items"]
            .as_array()
            .unwrap_or(&Vec::new())
            .iter()
            .map(|job| job["name"].as_str().unwrap().to_owned())
            .collect();
        (answer.status, names.join(" "))
    };
    assert_eq!(names("").await, (200, "mine".to_owned()));
    assert_eq!(names("?include=system&limit=5").await, (200, "mine sched.house".to_owned()));
    assert_eq!(names("?include=everything").await.0, 400);
    assert_eq!(app.get("/api/v1/jobs/sched.house").await.status, 200, "by its name it is always there");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_every_job_once() {
    let app = TestApp::start().await;
    let names = ["a", "b", "b-2", "c", "d"];
    app.with_jobs(&names).await;
    let mut seen = Vec::new();
    let mut cursor = String::new();
    for page in 0.. {
        let answer = app.get(&format!("/api/v1/jobs?limit=2{cursor}")).await.json();
        seen.extend(answer["items"].as_array().unwrap().iter().map(|job| job["name"].clone()));
        match &answer["next_cursor"] {
            Value::Null => break,
            next => cursor = format!("&cursor={}", next.as_str().unwrap()),
        }
        assert!(page < 3, "the pages do not end");
    }
    assert_eq!(seen, names);
}

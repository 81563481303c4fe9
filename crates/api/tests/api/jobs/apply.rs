use serde_json::{Value, json};
use test_support::identity::bearer;

use crate::access::permissions::{get_as, make_key, post_as};
use crate::support::{Request, TestApp, function, manual, pointers};

const ROWS: &str = "SELECT (SELECT count(*) FROM scheduled_jobs) + (SELECT count(*) FROM task_functions) \
                    + (SELECT count(*) FROM scheduled_job_versions) + (SELECT count(*) FROM audit_log)";

fn changes(answer: &Value, at: usize) -> Value {
    answer["results"][at]["changes"].clone()
}

fn interval(name: &str, seconds: u32) -> Value {
    json!({"name": name, "function": "f", "job_type": "interval", "schedule_config": {"seconds": seconds}})
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_apply_changes_only_differences() {
    let app = TestApp::start().await;
    let manifest = |seconds| json!({"task_functions": [function("f"), function("e")], "jobs": [interval("z", seconds), manual("a")]});
    let first = app.apply(&manifest(5)).await;
    assert_eq!(
        first,
        ["task_function f created", "task_function e created", "job z created", "job a created"]
    );
    let rows = app.fixture.number(ROWS).await;
    let second = app.apply(&manifest(5)).await;
    assert!(second.iter().all(|line| line.ends_with(" unchanged")), "{second:?}");
    assert_eq!(app.fixture.number(ROWS).await, rows);
    let third = app.apply(&manifest(6)).await;
    assert_eq!(third[2..], ["job z updated", "job a unchanged"]);
    let job = app.get("/api/v1/jobs/z").await.json();
    assert_eq!((&job["version"], &job["schedule_config"]), (&json!(2), &json!({"seconds": 6})));
    let changes = "SELECT count(*) FROM audit_log WHERE action = 'update_job' \
                   AND before->'schedule_config'->>'seconds' = '5' AND after->'schedule_config'->>'seconds' = '6'";
    assert_eq!(app.fixture.number(changes).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn dry_run_reports_changes_and_writes_nothing() {
    let app = TestApp::start().await;
    let mut secret = function("f");
    secret["handler_config"]["env"] = json!({"MY_TOKEN": "s3cret"});
    let before = json!({"task_functions": [secret.clone()], "jobs": [interval("a", 5)]});
    app.apply(&before).await;
    let events = "SELECT count(*) FROM events";
    let (rows, told) = (app.fixture.number(ROWS).await, app.fixture.number(events).await);
    secret["handler_config"]["env"]["MY_TOKEN"] = "t0psecret".into();
    secret["default_timeout_seconds"] = 7.into();
    let manifest = json!({
        "calendars": [{"name": "c", "timezone": "UTC", "weekly": ["SAT"]}],
        "task_functions": [secret],
        "jobs": [interval("a", 6), manual("b")],
        "notification_channels": [{"name": "ops", "kind": "webhook", "url": "https://hooks.example.com/x"}],
    });
    let dry = app.post("/api/v1/apply?dry_run=true", &manifest).await;
    assert_eq!(dry.status, 200, "{}", dry.body);
    let said = dry.json();
    assert_eq!(said["dry_run"], json!(true));
    assert_eq!(changes(&said, 0), Value::Null, "a new object has no previous values");
    assert_eq!(
        changes(&said, 1),
        json!([
            {"pointer": "/default_timeout_seconds", "before": 300, "after": 7},
            {"pointer": "/handler_config/env/MY_TOKEN", "before": "(hidden)", "after": "(hidden)"},
        ]),
        "values of variables are not shown"
    );
    assert_eq!(changes(&said, 2), json!([{"pointer": "/schedule_config/seconds", "before": 5, "after": 6}]));
    assert!(!dry.body.contains("cret"), "{}", dry.body);
    // No row, no event, and no stored answer for the key.
    assert_eq!((app.fixture.number(ROWS).await, app.fixture.number(events).await), (rows, told));
    assert_eq!(app.fixture.number("SELECT count(*) FROM calendars").await, 0);
    let key = [("idempotency-key", "the-key"), ("content-type", "application/json")];
    let body = manifest.to_string();
    let dry = app.send(Request::post("/api/v1/apply?dry_run=true").headers(&key).body(&body)).await;
    assert_eq!(dry.status, 200, "{}", dry.body);
    let kept = app.send(Request::post("/api/v1/apply").headers(&key).body(&body)).await;
    let mut kept = kept.json();
    let moved = json!({"calendars": [{"name": "c", "timezone": "UTC", "weekly": ["SUN"]}]});
    let said_of = app.post("/api/v1/apply?dry_run=true", &moved).await.json();
    assert_eq!(changes(&said_of, 0), json!([{"pointer": "/weekly", "before": ["SAT"], "after": ["SUN"]}]));
    // The apply does the changes of the dry run, except for the ids of new items.
    let mut said = said;
    for answer in [&mut said, &mut kept] {
        for result in answer["results"].as_array_mut().unwrap() {
            result["id"] = Value::Null;
        }
    }
    said["dry_run"] = false.into();
    assert_eq!(said, kept);
    assert!(app.fixture.number(ROWS).await > rows);
    let mut waits = manual("waits");
    waits["queue"] = "slow".into();
    let wrong = app.post("/api/v1/apply?dry_run=true", &json!({"jobs": [waits]})).await;
    assert_eq!((wrong.status, pointers(&wrong.json())), (422, vec!["/jobs/0/queue".to_owned()]));
    assert_eq!(app.post("/api/v1/apply?dry_run=perhaps", &manifest).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn export_round_trips_through_apply() {
    let app = TestApp::start().await;
    let mut listed = interval("listed", 60);
    listed["calendars"] = json!(["free"]);
    listed["queue"] = "slow".into();
    let manifest = json!({
        "queues": [{"name": "slow", "max_running": 2}, {"name": "unused", "description": "for later"}],
        "calendars": [{"name": "free", "description": "days off", "weekly": ["SAT"]}, {"name": "unused", "dates": ["2027-01-01"]}],
        "task_functions": [function("f"), function("g")],
        "templates": [{"name": "t", "parameters": {"n": {"type": "integer"}}, "job": {"function": "g", "job_type": "manual", "priority": "{{n}}"}}],
        "jobs": [interval("every", 5), listed],
        "notification_channels": [{"name": "ops", "kind": "webhook", "url": "https://hooks.example.com/x"}],
        "notification_rules": [{"name": "bad", "channel": "ops", "on": ["failure"], "job": "every"}],
    });
    let applied = app.apply(&manifest).await;
    let exported = app.get("/api/v1/export").await.json();
    let again = app.apply(&exported).await;
    assert_eq!(again.len(), applied.len(), "{exported}");
    assert!(again.iter().all(|line| line.ends_with(" unchanged")), "{again:?}");
    let names = |export: &Value, list: &str| {
        let items = export[list].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let part = app.get("/api/v1/export?name_prefix=lis&project=default").await.json();
    assert_eq!(
        (names(&part, "jobs"), names(&part, "task_functions")),
        (vec!["listed".into()], vec!["f".into()])
    );
    assert_eq!(
        (names(&part, "calendars"), names(&part, "queues")),
        (vec!["free".into()], vec!["slow".into()])
    );
    assert!(part.get("templates").is_none() && part.get("notification_rules").is_none(), "{part}");
    assert_eq!(app.get("/api/v1/export?project=nowhere").await.json(), json!({}));
    let rest = app.get("/api/v1/export?without_jobs=true").await.json();
    assert_eq!((names(&rest, "jobs").len(), names(&rest, "task_functions").len()), (0, 2));
    assert_eq!(app.get("/api/v1/export?without_jobs=true&project=default").await.status, 400);
    let texts: Vec<Value> = (0..12)
        .map(|n| {
            let mut job = manual(&format!("long-{n}"));
            job["task_args"] = json!({"text": "x".repeat(100_000)});
            job
        })
        .collect();
    for half in texts.chunks(6) {
        app.apply(&json!({"jobs": half})).await;
    }
    let refused = app.get("/api/v1/export").await;
    assert_eq!(
        (refused.status, pointers(&refused.json())),
        (400, vec!["project".to_owned()]),
        "{}",
        refused.body
    );
    assert_eq!(app.get("/api/v1/export?name_prefix=long-1").await.status, 200);
    assert_eq!(app.get("/api/v1/export?prefix=x").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_queues_precede_jobs_and_keep_pauses() {
    let app = TestApp::start().await;
    let (mut quick, mut waits) = (function("f"), manual("waits"));
    quick["queue"] = "fast".into();
    waits["queue"] = "slow".into();
    let slow = |most: i64, rate: Value| json!({"name": "slow", "description": "one by one", "max_running": most, "rate": rate});
    let manifest = |queue: Value| json!({"queues": [{"name": "fast"}, queue], "task_functions": [quick], "jobs": [waits]});
    let first = manifest(slow(1, Value::Null));
    assert_eq!(
        app.apply(&first).await,
        ["queue fast created", "queue slow created", "task_function f created", "job waits created"]
    );
    assert_eq!(app.post("/api/v1/queues/slow/pause", &json!({"reason": "disk is full"})).await.status, 200);
    assert!(app.apply(&first).await.iter().all(|line| line.ends_with(" unchanged")));
    let second = manifest(slow(3, json!({"count": 5, "period_seconds": 60})));
    let applied = app.post("/api/v1/apply", &second).await.json();
    assert_eq!(
        changes(&applied, 1),
        json!([
            {"pointer": "/max_running", "before": 1, "after": 3},
            {"pointer": "/rate/count", "before": null, "after": 5},
            {"pointer": "/rate/period_seconds", "before": null, "after": 60},
        ])
    );
    assert!(applied["results"][1].get("id").is_none(), "a queue has its name alone");
    let kept = app.get("/api/v1/queues/slow").await.json();
    assert_eq!(
        (&kept["max_running"], &kept["is_paused"], &kept["pause_reason"]),
        (&json!(3), &json!(true), &json!("disk is full"))
    );
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE target_type = 'queue'").await, 4);
    app.apply(&json!({"queues": [{"name": "slow"}]})).await;
    let kept = app.get("/api/v1/queues/slow").await.json();
    assert_eq!(
        (&kept["max_running"], &kept["rate"], &kept["is_paused"]),
        (&Value::Null, &Value::Null, &json!(true))
    );
    let wrong = json!({"queues": [{"name": "a", "max_running": 0}, {"name": "b"}, {"name": "b"}, {"name": "c", "is_paused": true}]});
    let refused = app.post("/api/v1/apply", &wrong).await;
    assert_eq!(
        (refused.status, pointers(&refused.json())),
        (422, ["/queues/0/max_running", "/queues/2/name", "/queues/3/is_paused"].map(str::to_owned).to_vec())
    );
    let (key, _) =
        make_key(&app, bearer(), &json!({"name": "ci", "scopes": ["jobs:write", "jobs:read"]})).await;
    let refused = post_as(&app, &key, "/api/v1/apply", &json!({"queues": [{"name": "sly"}]})).await;
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("forbidden")), "{}", refused.body);
    assert_eq!(app.fixture.number("SELECT count(*) FROM queues WHERE name = 'sly'").await, 0);
    let there = post_as(&app, &key, "/api/v1/apply", &json!({"queues": [{"name": "slow"}]})).await;
    assert_eq!(there.status, 200, "an existing queue is accepted: {}", there.body);
    let all = app.get("/api/v1/export").await.json();
    let names: Vec<&Value> = all["queues"].as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
    assert_eq!(names, ["fast", "slow"], "without the default one");
    let exported = get_as(&app, &key, "/api/v1/export").await.json();
    assert!(exported.get("queues").is_none() && exported.get("jobs").is_some(), "{exported}");
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholder_is_not_stored_as_value() {
    let app = TestApp::start().await;
    let mut secret = function("f");
    secret["handler_config"]["env"] = json!({"A_KEY": "s3cret", "TOKEN": "t0psecret"});
    app.apply(&json!({"task_functions": [secret]})).await;
    let kept = "SELECT count(*) FROM task_functions WHERE handler_config::text LIKE '%t0psecret%'";
    let exported = app.get("/api/v1/export").await.json();
    assert_eq!(app.apply(&exported).await, ["task_function f unchanged"]);
    let mut shown = app.get("/api/v1/functions/f").await.json();
    let spec = json!({
        "handler_type": shown["handler_type"], "handler_config": shown["handler_config"].take(), "default_timeout_seconds": 7,
    });
    let json = [("content-type", "application/json")];
    let written = app.send(Request::put("/api/v1/functions/f").headers(&json).body(&spec.to_string())).await;
    assert_eq!(written.status, 200, "{}", written.body);
    assert_eq!(app.fixture.number(kept).await, 1, "a function that is applied again keeps hidden values");
    assert_eq!(
        app.fixture
            .number("SELECT count(*) FROM task_functions WHERE handler_config::text LIKE '%hidden%'")
            .await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_item_rejects_the_manifest() {
    let app = TestApp::start().await;
    let rows = app.fixture.number(ROWS).await;
    let answer = app
        .post(
            "/api/v1/apply",
            &json!({
                "task_functions": [function("f"), {"name": "g", "handler_type": "process", "handler_config": {"program": "x", "env": {"PATH": "/"}}}],
                "jobs": [
                    manual("good"),
                    {"name": "cron", "function": "f", "job_type": "cron", "schedule_config": {"expression": "61 * * * *"}},
                    {"name": "typo", "function": "f", "job_type": "manual", "max_instance": 3},
                    {"name": "lost", "function": "nobody", "job_type": "manual", "project": "moon"},
                    {"name": "uses-bad", "function": "g", "job_type": "manual"},
                ],
            }),
        )
        .await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (422, Some("invalid")), "{}", answer.body);
    assert_eq!(
        pointers(&answer.json()),
        [
            "/jobs/1/schedule_config/expression",
            "/jobs/2/max_instance",
            "/jobs/3/function",
            "/jobs/3/project",
            "/task_functions/1/handler_config/env/PATH",
        ]
    );
    assert_eq!(app.fixture.number(ROWS).await, rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn constraint_violation_rolls_back_the_manifest() {
    let app = TestApp::start().await;
    let rows = app.fixture.number(ROWS).await;
    let mut elsewhere = function("g");
    elsewhere["queue"] = "slow".into();
    let mut waits = manual("waits");
    waits["queue"] = "slow".into();
    let system = |name: &str| json!({"name": name, "function": "f", "job_type": "manual", "scope": "system"});
    for (manifest, status, code, pointer) in [
        (json!({"task_functions": [function("f"), elsewhere]}), 422, "invalid", "/task_functions/1/queue"),
        (
            json!({"task_functions": [function("f")], "jobs": [manual("a"), waits]}),
            422,
            "invalid",
            "/jobs/1/queue",
        ),
        (
            json!({"task_functions": [function("f")], "jobs": [system("a"), system("b")]}),
            409,
            "singleton_taken",
            "/jobs/1/function",
        ),
    ] {
        let answer = app.post("/api/v1/apply", &manifest).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (status, Some(code)), "{}", answer.body);
        assert_eq!(pointers(&answer.json()), [pointer]);
        assert_eq!(app.fixture.number(ROWS).await, rows, "{pointer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_hides_values_of_variables() {
    let app = TestApp::start().await;
    let mut secret = function("f");
    secret["handler_config"]["env"] = json!({"MY_TOKEN": "s3cret"});
    app.apply(&json!({"task_functions": [secret.clone()]})).await;
    secret["handler_config"]["env"]["MY_TOKEN"] = "t0psecret".into();
    app.apply(&json!({"task_functions": [secret]})).await;
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log").await, 2);
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM audit_log WHERE audit_log::text LIKE '%MY_TOKEN%'").await,
        2
    );
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM audit_log WHERE audit_log::text LIKE '%cret%'").await,
        0
    );
    assert_eq!(
        app.fixture
            .number("SELECT count(*) FROM task_functions WHERE handler_config::text LIKE '%t0psecret%'")
            .await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_manifests_succeed() {
    let app = TestApp::start().await;
    let names = ["a", "b", "c", "d", "e", "f"];
    app.with_jobs(&names).await;
    let manifest = |seconds: u32, reversed: bool| {
        let mut jobs: Vec<Value> = names.iter().map(|name| interval(name, seconds)).collect();
        if reversed {
            jobs.reverse();
        }
        json!({"task_functions": [function("f")], "jobs": jobs})
    };
    for round in 0..5 {
        let (one, other) = (manifest(10 + round, false), manifest(20 + round, true));
        let (a, b) = tokio::join!(app.post("/api/v1/apply", &one), app.post("/api/v1/apply", &other));
        assert_eq!((a.status, b.status), (200, 200), "{} {}", a.body, b.body);
        let kinds = "SELECT count(DISTINCT schedule_config) FROM scheduled_jobs";
        assert_eq!(app.fixture.number(kinds).await, 1, "all jobs are those of the last request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_without_jobs_is_applied() {
    let app = TestApp::start().await;
    assert_eq!(app.apply(&json!({})).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn largest_manifest_is_applied_in_time() {
    let app = TestApp::start().await;
    let jobs: Vec<Value> = (0..999).map(|number| interval(&format!("job-{number}"), 60)).collect();
    let manifest = json!({"task_functions": [function("f")], "jobs": jobs});
    assert_eq!(app.apply(&manifest).await.len(), 1000);
    let again = app.apply(&manifest).await;
    assert!(again.iter().all(|line| line.ends_with(" unchanged")), "{again:?}");
}

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::connection::database_clock;
use serde_json::{Value, json};

use crate::support::{TestApp, function, pointers};

const PREVIEW: &str = "/api/v1/schedules/preview";

fn cron(expression: &str) -> Value {
    json!({"job_type": "cron", "schedule_config": {"expression": expression}, "after": "2026-12-20T00:00:00Z"})
}

fn with(mut base: Value, more: Value) -> Value {
    for (field, value) in more.as_object().unwrap() {
        base[field] = value.clone();
    }
    base
}

async fn preview(app: &TestApp, body: &Value) -> Value {
    let answer = app.post(PREVIEW, body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

fn instants(preview: &Value) -> Vec<&str> {
    preview["fire_times"].as_array().unwrap().iter().map(|fire| fire["utc"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_preview_needs_no_job() {
    let app = TestApp::start().await;
    let body = json!({
        "job_type": "cron", "schedule_config": {"expression": "0 0 * * 1-5"}, "timezone": "Europe/Berlin",
        "after": "2026-03-26T12:00:00Z", "count": 4,
    });
    let fire = |utc: &str, local: &str| json!({"utc": utc, "local": local, "note": null});
    let shown = preview(&app, &body).await;
    assert_eq!(
        shown["fire_times"],
        json!([
            fire("2026-03-26T23:00:00Z", "2026-03-27T00:00:00+01:00"),
            fire("2026-03-29T22:00:00Z", "2026-03-30T00:00:00+02:00"),
            fire("2026-03-30T22:00:00Z", "2026-03-31T00:00:00+02:00"),
            fire("2026-03-31T22:00:00Z", "2026-04-01T00:00:00+02:00"),
        ])
    );
    assert_eq!(shown["description"], "At 00:00, Monday to Friday.");
    assert!(shown["warnings"].is_array());

    let shifted = with(
        cron("30 2 * * *"),
        json!({"timezone": "Europe/Berlin", "after": "2026-03-28T12:00:00Z", "count": 1}),
    );
    let shown = preview(&app, &shifted).await;
    assert_eq!(shown["fire_times"][0]["note"], "shifted");
    let second = with(shifted, json!({"after": "2026-10-24T12:00:00Z", "dst_overlap": "second"}));
    assert_eq!(preview(&app, &second).await["fire_times"][0]["note"], "second_of_two");
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_respects_bounds_and_calendars() {
    let app = TestApp::start().await;
    app.apply(&json!({"calendars": [{"name": "weekends", "weekly": ["SAT", "SUN"]}]})).await;
    let daily = with(
        cron("0 9 * * *"),
        json!({"start_at": "2026-12-23T00:00:00Z", "end_at": "2026-12-29T00:00:00Z",
               "calendars": ["weekends", {"dates": ["2026-12-24"]}]}),
    );
    let shown = preview(&app, &daily).await;
    assert_eq!(instants(&shown), ["2026-12-23T09:00:00Z", "2026-12-25T09:00:00Z", "2026-12-28T09:00:00Z"]);

    let rolled = json!({
        "job_type": "oneoff", "schedule_config": {"run_at": "2026-12-26T09:00:00Z"}, "after": "2026-12-20T00:00:00Z",
        "calendars": ["weekends"], "calendar_roll": "next_business_day",
    });
    let shown = preview(&app, &rolled).await;
    assert_eq!(
        shown["fire_times"],
        json!([{"utc": "2026-12-28T09:00:00Z", "local": "2026-12-28T09:00:00+00:00", "note": null, "moved_from": "2026-12-26T09:00:00Z"}])
    );
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM audit_log WHERE action <> 'create_calendar'").await,
        0
    );

    let monthly = with(
        cron("0 9 1 * *"),
        json!({"after": "2027-04-15T00:00:00Z", "count": 1, "calendars": [{"yearly": ["05-01"]}], "calendar_roll": "next_business_day"}),
    );
    let answer = app.post(PREVIEW, &monthly).await.body;
    let reference: String =
        include_str!("../../../../../docs/reference/http-api.md").lines().map(str::trim).collect();
    assert!(reference.contains(&answer), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_uses_the_defaults_of_a_job() {
    let app = TestApp::start().await;
    let conn = app.fixture.database.clone().dedicated().await.unwrap();
    let before = database_clock::now(&conn).await.unwrap();
    let shown = preview(&app, &json!({"job_type": "interval", "schedule_config": {"hours": 1}})).await;
    let after = database_clock::now(&conn).await.unwrap();
    assert_eq!(instants(&shown).len(), 10);
    let first: DateTime<Utc> = instants(&shown)[0].parse().unwrap();
    let first = first - TimeDelta::hours(1);
    assert!(
        before <= first && first <= after,
        "{before} {first} {after}: counted from the database's present"
    );
    let manual = preview(&app, &json!({"job_type": "manual"})).await;
    assert_eq!((instants(&manual).len(), manual["description"].as_str()), (0, Some("Only when triggered.")));
    let many = preview(&app, &with(cron("* * * * *"), json!({"count": 1000}))).await;
    assert_eq!(instants(&many).len(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_of_job_equals_preview_of_its_schedule() {
    let app = TestApp::start().await;
    let schedule = json!({
        "job_type": "cron", "schedule_config": {"expression": "H H(0-7) * * *"}, "timezone": "America/New_York",
        "calendars": ["weekends"], "start_at": "2030-01-01T00:00:00Z",
    });
    let job = with(schedule.clone(), json!({"name": "report", "function": "f"}));
    let calendars = json!([{"name": "weekends", "weekly": ["SAT", "SUN"]}]);
    app.apply(&json!({"calendars": calendars, "task_functions": [function("f")], "jobs": [job]})).await;
    let of_schedule =
        with(schedule, json!({"job_name": "report", "after": "2030-01-02T00:00:00Z", "count": 7}));
    let shown = app.get("/api/v1/jobs/report/preview?after=2030-01-02T00:00:00Z&count=7").await;
    assert_eq!((shown.status, instants(&shown.json()).len()), (200, 7), "{}", shown.body);
    assert_eq!(shown.json(), preview(&app, &of_schedule).await);
    let elsewhere = preview(&app, &with(of_schedule, json!({"job_name": "billing"}))).await;
    assert_ne!(instants(&elsewhere), instants(&shown.json()), "`H` falls elsewhere for another name");

    let kept = app.get("/api/v1/jobs/report").await.json();
    let by_id = format!("/api/v1/jobs/{}/preview", kept["id"].as_str().unwrap());
    let present = app.get(&by_id).await.json();
    let instant = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    assert_eq!(instants(&present).len(), 10);
    assert_eq!(instant(instants(&present)[0]), instant(kept["next_run_at"].as_str().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_respects_max_runs() {
    let app = TestApp::start().await;
    let job = json!({"name": "a", "function": "f", "job_type": "interval", "schedule_config": {"hours": 1}, "max_runs": 3});
    app.apply(&json!({"task_functions": [function("f")], "jobs": [job]})).await;
    let left = async || instants(&app.get("/api/v1/jobs/a/preview").await.json()).len();
    assert_eq!(left().await, 3);
    app.fixture.sql("UPDATE scheduled_jobs SET fired_count = 2").await;
    assert_eq!(left().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_errors_have_pointers() {
    let app = TestApp::start().await;
    let long = "1,".repeat(5000);
    for (body, pointer) in [
        (json!([]), ""),
        (json!({}), "/job_type"),
        (json!({"job_type": "weekly"}), "/job_type"),
        (cron("0 0 31 2 *"), "/schedule_config/expression"),
        (cron("60 * * * *"), "/schedule_config/expression"),
        (cron("* * * *"), "/schedule_config/expression"),
        (cron("0 0 * * 8"), "/schedule_config/expression"),
        (cron(""), "/schedule_config/expression"),
        (cron(&long), "/schedule_config/expression"),
        (with(cron("* * * * *"), json!({"timezone": "Mars/Base"})), "/timezone"),
        (with(cron("* * * * *"), json!({"dst_gap": "both"})), "/dst_gap"),
        (with(cron("* * * * *"), json!({"after": "now"})), "/after"),
        (with(cron("* * * * *"), json!({"count": 0})), "/count"),
        (with(cron("* * * * *"), json!({"count": 1001})), "/count"),
        (with(cron("* * * * *"), json!({"count": -1})), "/count"),
        (with(cron("* * * * *"), json!({"name": "a"})), "/name"),
        (
            with(
                cron("* * * * *"),
                json!({"start_at": "2027-01-02T00:00:00Z", "end_at": "2027-01-01T00:00:00Z"}),
            ),
            "/end_at",
        ),
        (with(cron("* * * * *"), json!({"calendars": [{"weekly": ["SAT"]}, "nobodys"]})), "/calendars/1"),
        (
            with(cron("* * * * *"), json!({"calendars": [{"weekly": ["SAT", "SOMEDAY"]}]})),
            "/calendars/0/weekly/1",
        ),
        (with(cron("* * * * *"), json!({"calendars": [{"name": "weekends"}]})), "/calendars/0"),
        (with(cron("* * * * *"), json!({"calendars": [7]})), "/calendars/0"),
        (with(cron("* * * * *"), json!({"calendars": vec![json!({}); 11]})), "/calendars"),
    ] {
        let answer = app.post(PREVIEW, &body).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (422, Some("invalid")),
            "{}",
            answer.body
        );
        assert_eq!(pointers(&answer.json()), [pointer], "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_cannot_use_calendars_of_another_tenant() {
    let app = TestApp::start().await;
    app.fixture
        .sql(
            "INSERT INTO tenants (slug, name) VALUES ('other', 'Other');
             INSERT INTO calendars (tenant_id, name, definition)
                 SELECT id, 'holidays', '{\"weekly\": [\"SUN\"]}' FROM tenants WHERE slug = 'other'",
        )
        .await;
    let answer = app.post(PREVIEW, &with(cron("* * * * *"), json!({"calendars": ["holidays"]}))).await;
    assert_eq!((answer.status, pointers(&answer.json())), (422, vec!["/calendars/0".to_owned()]));
}

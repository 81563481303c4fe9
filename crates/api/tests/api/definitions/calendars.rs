use serde_json::{Value, json};
use test_support::http::Answer;
use test_support::identity::{OWNER, actor};

use crate::support::{Request, TestApp, function, manual, pointers};

const HOLIDAYS: &str = "/api/v1/calendars/holidays";

async fn put(app: &TestApp, path: &str, body: &Value) -> Answer {
    app.send(Request::put(path).headers(&[("content-type", "application/json")]).body(&body.to_string()))
        .await
}

fn days_off() -> Value {
    json!({"description": "Days off.", "timezone": "Europe/Berlin", "weekly": ["SAT", "SUN"], "yearly": ["12-25"]})
}

fn heeding(name: &str, calendars: &[&str]) -> Value {
    let mut job = manual(name);
    job["calendars"] = json!(calendars);
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn calendar_is_written_shown_and_replaced() {
    let app = TestApp::start().await;
    let created = put(&app, HOLIDAYS, &days_off()).await;
    assert_eq!((created.status, created.header("location")), (201, Some(HOLIDAYS)), "{}", created.body);
    let calendar = created.json();
    for (field, value) in days_off().as_object().unwrap() {
        assert_eq!(&calendar[field], value, "{field}");
    }
    assert_eq!((&calendar["name"], &calendar["version"]), (&json!("holidays"), &json!(1)));
    assert_eq!((&calendar["created_by"], calendar.get("dates")), (&json!(OWNER), None));
    assert_eq!(app.get(HOLIDAYS).await.json(), calendar);

    let again = put(&app, HOLIDAYS, &days_off()).await;
    assert_eq!((again.status, again.json()), (200, calendar.clone()));
    let less = put(&app, HOLIDAYS, &json!({"name": "holidays", "weekly": ["SUN"]})).await;
    assert_eq!((less.status, &less.json()["version"]), (200, &json!(2)), "{}", less.body);
    let shown = app.get(HOLIDAYS).await.json();
    assert_eq!((&shown["weekly"], &shown["description"]), (&json!(["SUN"]), &json!("")));
    assert_eq!((shown.get("yearly"), &shown["id"]), (None, &calendar["id"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_writes_are_audited() {
    let app = TestApp::start().await;
    for body in [json!({"weekly": ["SAT"]}), json!({"weekly": ["SAT"]}), json!({"weekly": ["SUN"]})] {
        assert!(put(&app, HOLIDAYS, &body).await.status < 300);
    }
    assert_eq!(
        app.send(Request::delete(HOLIDAYS).headers(&[("x-request-id", "the-last.1")])).await.status,
        204
    );
    let client = app.fixture.client().await;
    let rows = client
        .query(
            "SELECT action, coalesce(before->'definition'->'weekly'->>0, '-'), coalesce(after->'definition'->'weekly'->>0, '-'),
                    request_id = 'the-last.1', target_type || actor, count(*) OVER (PARTITION BY target_id)
             FROM audit_log ORDER BY id",
            &[],
        )
        .await
        .unwrap();
    let entries: Vec<(&str, &str, &str, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(
        entries,
        [
            ("create_calendar", "-", "SAT", false),
            ("update_calendar", "SAT", "SUN", false),
            ("delete_calendar", "SUN", "-", true),
        ]
    );
    assert!(rows.iter().all(|row| row.get::<_, String>(4) == format!("calendar{}", actor()) && row.get::<_, i64>(5) == 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn calendar_in_use_cannot_be_deleted() {
    let app = TestApp::start().await;
    let manifest = json!({
        "calendars": [{"name": "holidays", "weekly": ["SUN"]}, {"name": "free", "weekly": ["SAT"]}],
        "task_functions": [function("f")],
        "jobs": [heeding("report", &["holidays"]), heeding("billing", &["holidays"]), manual("other")],
    });
    app.apply(&manifest).await;
    let refused = app.send(Request::delete(HOLIDAYS)).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("in_use")), "{}", refused.body);
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("billing, report") && !detail.contains("other"), "{detail}");
    assert_eq!(app.get(HOLIDAYS).await.status, 200);
    assert_eq!(app.send(Request::delete("/api/v1/calendars/free")).await.status, 204);
    assert_eq!(app.get("/api/v1/calendars/free").await.status, 404);
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'delete_calendar'").await,
        1
    );

    app.apply(&json!({"jobs": [manual("report"), manual("billing")]})).await;
    let deleted = app.send(Request::delete(HOLIDAYS)).await;
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn calendars_are_listed_by_name_in_pages() {
    let app = TestApp::start().await;
    for name in ["c", "a", "b"] {
        put(&app, &format!("/api/v1/calendars/{name}"), &json!({"weekly": ["SUN"]})).await;
    }
    let names = |page: &Value| -> Vec<String> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = app.get("/api/v1/calendars?limit=2").await.json();
    assert_eq!(names(&first), ["a", "b"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = app.get(&format!("/api/v1/calendars?limit=2&cursor={cursor}")).await.json();
    assert_eq!((names(&rest), &rest["next_cursor"]), (vec!["c".into()], &Value::Null));
    assert_eq!(rest["items"][0]["weekly"], json!(["SUN"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn calendar_errors_have_pointers() {
    let app = TestApp::start().await;
    for (body, pointer) in [
        (json!([]), ""),
        (json!({"name": "other", "weekly": ["SUN"]}), "/name"),
        (json!({"name": 5, "weekly": ["SUN"]}), "/name"),
        (json!({"holidays": ["SUN"]}), "/holidays"),
        (json!({"definition": {"weekly": ["SUN"]}}), "/definition"),
        (json!({"description": "x".repeat(2001), "weekly": ["SUN"]}), "/description"),
        (json!({"timezone": "Mars/Base", "weekly": ["SUN"]}), "/timezone"),
        (json!({"weekly": ["SOMEDAY"]}), "/weekly/0"),
        (json!({"weekly": [{"days": ["MON"], "from": "2 pm", "until": "16:00"}]}), "/weekly/0/from"),
        (json!({"dates": ["2026-12-24", "2026-02-30"]}), "/dates/1"),
        (json!({"rules": ["DTSTART:20260105T220000Z\nRRULE:FREQ=DAILY"]}), "/rules/0"),
        (json!({"weekly": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]}), "/weekly"),
    ] {
        let answer = put(&app, HOLIDAYS, &body).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (422, Some("invalid")),
            "{}",
            answer.body
        );
        assert_eq!(pointers(&answer.json()), [pointer], "{}", answer.body);
    }
    for name in ["Holidays", "a%20b", "a%00b", "-a"] {
        let answer = put(&app, &format!("/api/v1/calendars/{name}"), &days_off()).await;
        assert_eq!(
            (answer.status, pointers(&answer.json())),
            (400, vec!["name".to_owned()]),
            "{}",
            answer.body
        );
    }
    assert_eq!(app.fixture.number("SELECT count(*) FROM calendars").await, 0);
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_contains_its_calendars() {
    let app = TestApp::start().await;
    let manifest = |days: &[&str]| {
        json!({
            "jobs": [heeding("report", &["weekends", "frozen"])],
            "task_functions": [function("f")],
            "calendars": [{"name": "weekends", "weekly": days}, {"name": "frozen", "dates": ["2026-12-24/2027-01-06"]}],
        })
    };
    let first = app.apply(&manifest(&["SAT"])).await;
    assert_eq!(
        first,
        [
            "calendar weekends created",
            "calendar frozen created",
            "task_function f created",
            "job report created"
        ]
    );
    let second = app.apply(&manifest(&["SAT"])).await;
    assert!(second.len() == 4 && second.iter().all(|line| line.ends_with(" unchanged")), "{second:?}");
    let third = app.apply(&manifest(&["SAT", "SUN"])).await;
    assert_eq!(third[..2], ["calendar weekends updated", "calendar frozen unchanged"]);
    assert_eq!(app.get("/api/v1/calendars/weekends").await.json()["version"], 2);
    let job = app.get("/api/v1/jobs/report").await.json();
    assert_eq!(job["calendars"], json!(["weekends", "frozen"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_jobs_must_name_known_calendars() {
    let app = TestApp::start().await;
    put(&app, HOLIDAYS, &days_off()).await;
    let jobs = json!([manual("a"), heeding("b", &["holidays", "nobodys", "bad"]), heeding("c", &["lost"])]);
    let manifest = json!({
        "task_functions": [function("f")],
        "calendars": [{"name": "bad", "weekly": ["SOMEDAY"]}, {"name": "bad", "weekly": ["SUN"]}],
        "jobs": jobs,
    });
    let answer = app.post("/api/v1/apply", &manifest).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    assert_eq!(
        pointers(&answer.json()),
        ["/calendars/0/weekly/0", "/calendars/1/name", "/jobs/1/calendars/1", "/jobs/2/calendars/0"],
        "an invalid calendar of the file is reported once, not for every job"
    );
    assert!(answer.body.contains("there is no calendar named \\\"lost\\\""), "{}", answer.body);
    assert_eq!(app.fixture.number("SELECT count(*) FROM calendars").await, 1);
    app.apply(&json!({"task_functions": [function("f")], "jobs": [heeding("b", &["holidays"])]})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_job_must_name_existing_calendars() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let refused = app.post("/api/v1/jobs", &heeding("report", &["nobodys"])).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (422, Some("invalid")), "{}", refused.body);
    assert_eq!(pointers(&refused.json()), ["/calendars"]);
    assert!(refused.body.contains("nobodys"), "{}", refused.body);
    put(&app, "/api/v1/calendars/nobodys", &days_off()).await;
    assert_eq!(app.post("/api/v1/jobs", &heeding("report", &["nobodys"])).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_calendar_moves_its_jobs() {
    let app = TestApp::start().await;
    let manifest = |day: &str| {
        json!({
            "calendars": [{"name": "holidays", "yearly": [day]}],
            "task_functions": [function("f")],
            "jobs": [{
                "name": "report", "function": "f", "job_type": "cron", "calendars": ["holidays"],
                "schedule_config": {"expression": "0 12 24,25 12 *"},
            }],
        })
    };
    let next = async || {
        let job = app.get("/api/v1/jobs/report").await.json();
        let text = job["next_run_at"].as_str().unwrap().to_owned();
        (text.split_once('-').unwrap().1.to_owned(), job["version"].clone())
    };
    app.apply(&manifest("12-25")).await;
    assert_eq!(next().await, ("12-24T12:00:00.000000Z".to_owned(), json!(1)));
    assert_eq!(put(&app, HOLIDAYS, &json!({"yearly": ["12-24"]})).await.status, 200);
    assert_eq!(next().await, ("12-25T12:00:00.000000Z".to_owned(), json!(1)));
    let results = app.apply(&manifest("12-25")).await;
    assert_eq!(results, ["calendar holidays updated", "task_function f unchanged", "job report unchanged"]);
    assert_eq!(next().await, ("12-24T12:00:00.000000Z".to_owned(), json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn calendars_of_another_tenant_are_not_found() {
    let app = TestApp::start().await;
    app.fixture
        .sql(
            "INSERT INTO tenants (slug, name) VALUES ('other', 'Other');
             INSERT INTO calendars (tenant_id, name, definition)
                 SELECT id, 'holidays', '{\"weekly\": [\"SUN\"]}' FROM tenants WHERE slug = 'other'",
        )
        .await;
    assert_eq!(app.get("/api/v1/calendars").await.json()["items"], json!([]));
    assert_eq!(app.get(HOLIDAYS).await.status, 404);
    assert_eq!(app.send(Request::delete(HOLIDAYS)).await.status, 404);
    let manifest = json!({"task_functions": [function("f")], "jobs": [heeding("a", &["holidays"])]});
    assert_eq!(app.post("/api/v1/apply", &manifest).await.status, 422);
    assert_eq!(put(&app, HOLIDAYS, &days_off()).await.status, 201);
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM calendars WHERE name = 'holidays' AND version = 1").await,
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_manifests_with_same_calendars_succeed() {
    let app = TestApp::start().await;
    let manifest = |day: &str, names: [&str; 3]| {
        let calendars: Vec<Value> = names.iter().map(|name| json!({"name": name, "weekly": [day]})).collect();
        json!({"calendars": calendars, "task_functions": [function("f")], "jobs": [heeding("j", &names)]})
    };
    app.apply(&manifest("MON", ["a", "b", "c"])).await;
    for _ in 0..5 {
        let (one, other) = (manifest("SAT", ["a", "b", "c"]), manifest("SUN", ["c", "b", "a"]));
        let (x, y) = tokio::join!(app.post("/api/v1/apply", &one), app.post("/api/v1/apply", &other));
        assert_eq!((x.status, y.status), (200, 200), "{} {}", x.body, y.body);
        let kinds = "SELECT count(DISTINCT definition) FROM calendars";
        assert_eq!(app.fixture.number(kinds).await, 1, "all calendars are those of the last request");
    }
}

use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{Request, TestApp, function, pointers};

const PATH: &str = "/api/v1/projects/billing";

async fn put(app: &TestApp, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    app.send(Request::put(path).headers(&all).body(&body.to_string())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn project_is_created_changed_listed_and_deleted() {
    let app = TestApp::start().await;
    let made = put(&app, PATH, &[("if-none-match", "*")], &json!({"description": "Money."})).await;
    assert_eq!((made.status, made.header("location")), (201, Some(PATH)), "{}", made.body);
    assert_eq!((&made.json()["display_name"], &made.json()["is_paused"]), (&json!("billing"), &json!(false)));
    let tag = made.header("etag").unwrap().to_owned();

    let again = put(&app, PATH, &[], &json!({"description": "Money."})).await;
    assert_eq!((again.status, again.header("etag")), (200, Some(tag.as_str())), "nothing was written");
    let taken = put(&app, PATH, &[("if-none-match", "*")], &json!({})).await;
    assert_eq!((taken.status, &taken.json()["code"]), (409, &json!("already_exists")));
    let changed = put(&app, PATH, &[("if-match", &tag)], &json!({"display_name": "Billing"})).await;
    assert_eq!((changed.status, &changed.json()["description"]), (200, &json!("")), "{}", changed.body);
    let stale = put(&app, PATH, &[("if-match", &tag)], &json!({})).await;
    assert_eq!((stale.status, &stale.json()["code"]), (412, &json!("version_mismatch")));
    assert_eq!(app.get(PATH).await.json(), changed.json());
    let listed = app.get("/api/v1/projects").await.json();
    let names: Vec<&Value> = listed["items"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["billing", "default"]);

    let gone = app.send(Request::delete(PATH)).await;
    let told = json!({"name": "billing", "jobs": 0, "cancelled": 0});
    assert_eq!((gone.status, gone.json()), (200, told), "{}", gone.body);
    assert_eq!(app.send(Request::delete(PATH)).await.status, 404);
    assert_eq!(app.get(PATH).await.status, 404);
    assert_eq!(put(&app, PATH, &[], &json!({})).await.status, 201, "the name is free again");
    let audited = "SELECT count(*) FROM audit_log WHERE target_type = 'project' AND target_id = 'billing'";
    assert_eq!(app.fixture.number(audited).await, 4);
    let events = "SELECT count(*) FROM events WHERE event_type LIKE 'project_%' AND project_id IS NOT NULL";
    assert_eq!(app.fixture.number(events).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_projects_are_refused() {
    let app = TestApp::start().await;
    let wrong = put(&app, PATH, &[], &json!({"display_name": "", "description": "x".repeat(2001)})).await;
    assert_eq!(wrong.status, 422, "{}", wrong.body);
    assert_eq!(pointers(&wrong.json()), ["/description", "/display_name"]);
    assert_eq!(put(&app, "/api/v1/projects/No%20Name", &[], &json!({})).await.status, 400);
    assert_eq!(put(&app, PATH, &[], &json!({"colour": 1})).await.status, 422);
    assert_eq!(app.get("/api/v1/projects/a%00b").await.status, 404);
    let kept = app.send(Request::delete("/api/v1/projects/default")).await;
    assert_eq!((kept.status, &kept.json()["code"]), (409, &json!("built_in")));
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_project_pause_writes_nothing() {
    let app = TestApp::start().await;
    put(&app, PATH, &[], &json!({})).await;
    let (pause, resume) = (format!("{PATH}/pause"), format!("{PATH}/resume"));
    for _ in 0..2 {
        let paused = app.post(&pause, &json!({"reason": "audit"})).await;
        assert_eq!(paused.status, 200, "{}", paused.body);
        assert_eq!(
            (&paused.json()["is_paused"], &paused.json()["pause_reason"]),
            (&json!(true), &json!("audit"))
        );
    }
    let more = app.post(&pause, &json!({})).await.json();
    assert_eq!(more["pause_reason"], "audit", "a reason that is not named stays");
    let stale = app.send(Request::post(&resume).headers(&[("if-match", "\"1\"")])).await;
    assert_eq!(stale.status, 412);
    for _ in 0..2 {
        let resumed = app.send(Request::post(&resume)).await.json();
        assert_eq!((&resumed["is_paused"], &resumed["pause_reason"]), (&json!(false), &Value::Null));
    }
    let audited = "SELECT count(*) FROM audit_log WHERE action IN ('pause_project', 'resume_project')";
    assert_eq!(app.fixture.number(audited).await, 2);
    let events = "SELECT count(*) FROM events WHERE event_type IN ('project_paused', 'project_resumed')";
    assert_eq!(app.fixture.number(events).await, 2);
    assert_eq!(app.post("/api/v1/projects/none/pause", &json!({})).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_project_deletes_its_secrets() {
    let app = TestApp::start().await;
    put(&app, PATH, &[], &json!({})).await;
    let secret = "/api/v1/secrets/token?project=billing";
    assert_eq!(put(&app, secret, &[], &json!({"value": "x"})).await.status, 201);
    assert_eq!(app.send(Request::delete(PATH)).await.status, 200);
    assert_eq!(app.fixture.number("SELECT count(*) FROM secrets").await, 0);
    assert_eq!(put(&app, secret, &[], &json!({"value": "x"})).await.status, 400);
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let job = json!({"name": "a", "function": "f", "job_type": "manual", "project": "billing"});
    let refused = app.post("/api/v1/jobs", &job).await;
    assert_eq!((refused.status, pointers(&refused.json())), (422, vec!["/project".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_project_can_include_its_jobs() {
    let app = TestApp::start().await;
    put(&app, PATH, &[], &json!({})).await;
    let job = |name: &str| json!({"name": name, "function": "f", "job_type": "manual", "project": "billing"});
    let mut follower = job("b");
    follower["after"] = json!([{"job": "a"}]);
    let mut stranger = json!({"name": "c", "function": "f", "job_type": "manual"});
    let jobs = json!([job("a"), follower, job("d"), stranger]);
    app.apply(&json!({"task_functions": [function("f")], "jobs": jobs})).await;
    for name in ["a", "d"] {
        assert_eq!(app.post(&format!("/api/v1/jobs/{name}/trigger"), &json!({})).await.status, 202);
    }
    let kept = app.send(Request::delete(PATH)).await;
    assert_eq!((kept.status, &kept.json()["code"]), (409, &json!("in_use")), "{}", kept.body);
    assert!(kept.body.contains("jobs a, b, d") && kept.body.contains("with_jobs=true"), "{}", kept.body);
    stranger["after"] = json!([{"job": "a"}]);
    app.apply(&json!({"jobs": [stranger]})).await;
    let with_jobs = format!("{PATH}?with_jobs=true");
    let followed = app.send(Request::delete(&with_jobs)).await;
    assert_eq!((followed.status, &followed.json()["code"]), (409, &json!("in_use")), "{}", followed.body);
    assert!(followed.body.contains("jobs c of other projects"), "{}", followed.body);
    let live = "SELECT count(*) FROM scheduled_jobs WHERE scope = 'project' AND deleted_at IS NULL";
    assert_eq!(app.fixture.number(live).await, 4, "nothing was written");

    stranger["after"] = json!([]);
    app.apply(&json!({"jobs": [stranger]})).await;
    let stale = app.send(Request::delete(&with_jobs).headers(&[("if-match", "\"1\"")])).await;
    assert_eq!(stale.status, 412, "{}", stale.body);
    let key = [("idempotency-key", "once")];
    let gone = app.send(Request::delete(&with_jobs).headers(&key)).await;
    let told = json!({"name": "billing", "jobs": 3, "cancelled": 2});
    assert_eq!((gone.status, gone.json()), (200, told), "{}", gone.body);
    assert_eq!(
        app.send(Request::delete(&with_jobs).headers(&key)).await.header("idempotency-replayed"),
        Some("true")
    );
    assert_eq!(app.fixture.number(live).await, 1);
    assert_eq!(app.fixture.number("SELECT count(*) FROM job_dispatch WHERE status = 'CANCELLED'").await, 2);
    assert_eq!(app.fixture.number("SELECT count(*) FROM job_dependencies").await, 0);
    for (what, number) in [
        ("events WHERE event_type = 'job_deleted' AND project_id IS NOT NULL", 3),
        ("events WHERE event_type = 'dispatch_cancelled'", 2),
        ("events WHERE event_type = 'project_deleted' AND payload->>'jobs' = '3'", 1),
        ("audit_log WHERE action = 'delete_job'", 3),
    ] {
        assert_eq!(app.fixture.number(&format!("SELECT count(*) FROM {what}")).await, number, "{what}");
    }
    let lost = app.post("/api/v1/jobs/d/restore", &json!({})).await;
    assert_eq!((lost.status, pointers(&lost.json())), (422, vec!["/project".to_owned()]), "{}", lost.body);
    put(&app, PATH, &[], &json!({})).await;
    let back = app.post("/api/v1/jobs/d/restore", &json!({})).await;
    assert_eq!((back.status, &back.json()["project"]), (200, &json!("billing")), "{}", back.body);
    let of_project = "SELECT count(*) FROM scheduled_jobs j JOIN projects p ON p.id = j.project_id WHERE j.name = 'd' AND p.deleted_at IS NULL";
    assert_eq!(app.fixture.number(of_project).await, 1);
}

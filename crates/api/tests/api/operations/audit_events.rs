//! The audit log: one entry per change, and entries are immutable.

use serde_json::{Value, json};
use test_support::identity::{actor, bearer};

use crate::access::permissions::member;
use crate::support::{Request, TestApp, function, manual};

#[tokio::test(flavor = "multi_thread")]
async fn every_change_has_one_audit_entry() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let changes: &[(&str, &str, Option<Value>, &str)] = &[
        ("POST", "jobs", Some(manual("b")), "create_job"),
        ("POST", "jobs/a/pause", Some(json!({"reason": "a\nb\u{1b}[31m"})), "pause_job"),
        ("POST", "jobs/a/resume", None, "resume_job"),
        ("POST", "jobs/a/disable", None, "disable_job"),
        ("POST", "jobs/a/enable", None, "enable_job"),
        ("POST", "jobs/a/trigger", None, "trigger_job"),
        ("POST", "jobs/a/cancel", None, "cancel_dispatches"),
        ("PUT", "queues/q", Some(json!({})), "create_queue"),
        ("PUT", "queues/q", Some(json!({"is_paused": true})), "update_queue"),
        ("PUT", "calendars/c", Some(json!({"dates": ["2027-01-01"]})), "create_calendar"),
        ("DELETE", "calendars/c", None, "delete_calendar"),
        ("POST", "apply", Some(json!({"task_functions": [function("g")]})), "create_task_function"),
        ("POST", "api-keys", Some(json!({"name": "k"})), "create_api_key"),
        ("POST", "tenants", Some(json!({"slug": "t", "name": "T"})), "create_tenant"),
    ];
    for (method, path, body, action) in changes {
        let before = app.fixture.number("SELECT count(*) FROM audit_log").await;
        let headers = [("content-type", "application/json"), ("x-request-id", "r-1")];
        let body = body.as_ref().map(Value::to_string);
        let answer = app
            .send(
                Request::new(method, &format!("/api/v1/{path}"))
                    .headers(&headers)
                    .optional_body(body.as_deref()),
            )
            .await;
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.body);
        assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log").await - before, 1, "{method} {path}");
        let newest = app.get("/api/v1/audit-events?limit=1").await.json();
        let entry = &newest["items"][0];
        assert_eq!(
            (entry["action"].as_str(), entry["actor"].as_str(), entry["request_id"].as_str()),
            (Some(*action), Some(actor().as_str()), Some("r-1")),
            "{method} {path}"
        );
    }
    let list = async |query: &str| {
        let page = app.get(&format!("/api/v1/audit-events{query}")).await;
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(!page.body.contains(['\n', '\u{1b}']), "a reason cannot imitate lines of a log");
        page.json()["items"].as_array().unwrap().len()
    };
    assert_eq!(list("?action=pause_job").await, 1);
    assert_eq!(list("?target_type=queue&target_id=q").await, 2);
    assert_eq!(list("?since=-1h&until=%2B1h&target_type=calendar").await, 2);
    assert_eq!(list("?until=-1h").await, 0);
    assert_eq!(list("?actor=nobody").await, 0);
    let first = app.get("/api/v1/audit-events?limit=2").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = app.get(&format!("/api/v1/audit-events?limit=2&cursor={cursor}")).await.json();
    assert!(second["items"][0]["id"].as_i64() < first["items"][1]["id"].as_i64());
    assert_eq!(app.get("/api/v1/audit-events?cursor=x").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_entry_has_the_client_address() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    for (forwarded, address) in [
        (None, "127.0.0.1"),
        (Some("203.0.113.7"), "203.0.113.7"),
        (Some("198.51.100.1, 2001:db8::7"), "2001:db8::7"),
    ] {
        for path in ["jobs/a/pause", "jobs/a/resume", "jobs/a/trigger"] {
            let headers: Vec<(&str, &str)> =
                forwarded.map(|told| ("x-forwarded-for", told)).into_iter().collect();
            let answer = app.send(Request::post(&format!("/api/v1/{path}")).headers(&headers)).await;
            assert!(answer.status < 300, "{}", answer.body);
            let newest = app.get("/api/v1/audit-events?limit=1").await.json();
            assert_eq!(newest["items"][0]["address"], address, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_is_private_and_append_only() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let client = app.fixture.client().await;
    client.batch_execute("INSERT INTO tenants (slug, name) VALUES ('other', 'Other')").await.unwrap();
    let foreign = member(&app, "them@example.com", "other", "owner").await;
    let operator = member(&app, "operator@example.com", "default", "operator").await;
    let as_whom = async |authorization: &str| {
        app.send(Request::get("/api/v1/audit-events").headers(&[("authorization", authorization)])).await
    };
    assert_eq!(as_whom(&foreign).await.json()["items"], json!([]));
    assert_eq!(as_whom(&operator).await.status, 403);
    assert!(!as_whom(bearer()).await.json()["items"].as_array().unwrap().is_empty());
    for statement in
        ["UPDATE audit_log SET actor = 'somebody'", "DELETE FROM audit_log", "TRUNCATE audit_log"]
    {
        let refused = client.batch_execute(statement).await.unwrap_err();
        let told = refused.as_db_error().unwrap().message().to_owned();
        assert!(told.contains("only appended to"), "{statement}: {told}");
    }
    client
        .batch_execute(
            "INSERT INTO audit_log (created_at, actor, action, target_type, target_id)
             VALUES (now() - interval '400 days', 'old', 'x', 'x', 'x');
             DELETE FROM audit_log WHERE actor = 'old'",
        )
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_have_public_names_and_states() {
    let app = TestApp::start().await;
    app.fixture
        .sql(
            r#"INSERT INTO audit_log (tenant_id, actor, action, target_type, target_id, before, after)
               SELECT id, 'old', 'retry_dispatch', 'dispatch', 'x', '{"status": "IN_PROGRESS"}', '{"dispatch_id": "y"}'
               FROM tenants WHERE slug = 'default'"#,
        )
        .await;
    let page = app.get("/api/v1/audit-events?target_type=run&target_id=x").await.json();
    let entry = &page["items"][0];
    assert_eq!(
        (&entry["target_type"], &entry["before"], &entry["after"]),
        (&json!("run"), &json!({"status": "running"}), &json!({"run_id": "y"})),
        "{page}"
    );
    let single = app.get(&format!("/api/v1/audit-events/{}", entry["id"])).await.json();
    assert_eq!(&single, entry);
}

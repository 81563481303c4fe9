//! Single resources that other tests only list, and users.

use serde_json::{Value, json};
use test_support::identity::{OWNER, bearer};

use crate::access::permissions::{make_key, member};
use crate::support::{Request, TestApp, function};

async fn patch(app: &TestApp, path: &str, body: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    let answer =
        app.send(Request::patch(&format!("/api/v1{path}")).headers(&headers).body(&body.to_string())).await;
    (answer.status, answer.json())
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_resources_can_be_read_singly() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    app.send(
        Request::put("/api/v1/secrets/s")
            .headers(&[("content-type", "application/json")])
            .body(r#"{"value": "x"}"#),
    )
    .await;
    app.fixture
        .sql(
            "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
             VALUES (gen_random_uuid(), 'h', 'p', 1, '1', '{default}', 1, 1000);
             INSERT INTO scheduler_instances (id, hostname, pid, version) VALUES (gen_random_uuid(), 'h', 1, '1')",
        )
        .await;
    for (list, key, other) in [
        ("api-keys", "id", "00000000-0000-0000-0000-00000000dead"),
        ("api-keys", "prefix", "sched_live_nobody"),
        ("secrets", "name", "t"),
        ("audit-events", "id", "9223372036854775807"),
        ("events", "id", "0.1.1.1"),
        ("workers", "id", "00000000-0000-0000-0000-00000000dead"),
        ("schedulers", "id", "00000000-0000-0000-0000-00000000dead"),
    ] {
        let listed = app.get(&format!("/api/v1/{list}")).await.json()["items"][0].clone();
        let name = listed[key].to_string();
        let one = app.get(&format!("/api/v1/{list}/{}", name.trim_matches('"'))).await;
        let mut shown = one.json();
        if list == "workers" {
            assert_eq!(shown.as_object_mut().unwrap().remove("runs"), Some(json!([])));
        }
        assert_eq!((one.status, shown), (200, listed), "{list}");
        let none = app.get(&format!("/api/v1/{list}/{other}")).await;
        assert_eq!((none.status, &none.json()["code"]), (404, &json!("not_found")), "{list}: {}", none.body);
    }
    let secret = app.get("/api/v1/secrets/s").await;
    assert_eq!(secret.header("etag"), Some("\"1\""), "{}", secret.body);
    assert!(!secret.body.contains("value"), "{}", secret.body);
    // The id of another stream position is not an event id.
    let event = app.get("/api/v1/events").await.json()["items"][0]["id"].as_str().unwrap().to_owned();
    let (before, micros) = event.rsplit_once('.').unwrap();
    let later = format!("{before}.{:x}", i64::from_str_radix(micros, 16).unwrap() + 1);
    assert_eq!(app.get(&format!("/api/v1/events/{later}")).await.status, 404);
    assert_eq!(app.get("/api/v1/audit-events/x").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_only_own_keys_are_shown() {
    let app = TestApp::start().await;
    let viewer = member(&app, "viewer@example.com", "default", "viewer").await;
    let (_, own) = make_key(&app, &viewer, &json!({"name": "own"})).await;
    let (_, other) = make_key(&app, bearer(), &json!({"name": "other"})).await;
    let status = async |key: &Value| {
        let path = format!("/api/v1/api-keys/{}", key["id"].as_str().unwrap());
        app.send(Request::get(&path).headers(&[("authorization", viewer.as_str())])).await.status
    };
    assert_eq!((status(&own).await, status(&other).await), (200, 404));
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_appoint_operators_and_one_remains() {
    let app = TestApp::start().await;
    let ada = member(&app, "ada@example.com", "default", "viewer").await;
    let may = async |key: &str| {
        app.send(Request::get("/api/v1/tenants").headers(&[("authorization", key)])).await.status == 200
    };
    assert!(!may(&ada).await);
    let owner = format!("/users/{OWNER}");
    let (status, refused) = patch(&app, &owner, &json!({"is_system_operator": false})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("last_operator")), "{refused}");

    let (status, granted) = patch(&app, "/users/ada@example.com", &json!({"is_system_operator": true})).await;
    assert_eq!((status, &granted["is_system_operator"]), (200, &json!(true)));
    assert!(may(&ada).await, "at once");
    let (status, _) = patch(&app, "/users/ada@example.com", &json!({"is_system_operator": true})).await;
    assert_eq!(status, 200, "an equal value is no change");
    let (status, _) =
        patch(&app, "/users/ada@example.com", &json!({"is_system_operator": false, "display_name": "Ada"}))
            .await;
    assert_eq!(status, 200);
    assert!(!may(&ada).await, "at once");
    for (action, entries) in [("grant_system_operator", 1), ("revoke_system_operator", 1), ("update_user", 1)]
    {
        let entry = format!(
            "SELECT count(*) FROM audit_log WHERE action = '{action}' AND before IS NOT NULL AND after ? 'is_system_operator'"
        );
        assert_eq!(app.fixture.number(&entry).await, entries, "{action}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_user_loses_keys_but_owners_remain() {
    let app = TestApp::start().await;
    let ada = member(&app, "ada@example.com", "default", "operator").await;
    let delete = async |email: &str, headers: &[(&str, &str)]| {
        let answer = app.send(Request::delete(&format!("/api/v1/users/{email}")).headers(headers)).await;
        let code = serde_json::from_str::<Value>(&answer.body).unwrap_or_default()["code"].clone();
        (answer.status, code)
    };
    app.apply(&json!({"task_functions": [function("f")]})).await;
    assert_eq!(delete(OWNER, &[]).await, (409, json!("last_owner")));
    member(&app, "bob@example.com", "default", "owner").await;
    assert_eq!(delete(OWNER, &[]).await, (409, json!("last_operator")));
    let (status, _) = patch(&app, "/users/bob@example.com", &json!({"is_system_operator": true})).await;
    assert_eq!(status, 200);
    assert_eq!(delete(OWNER, &[]).await, (409, json!("in_use")), "users cannot delete themselves");

    assert_eq!(app.send(Request::get("/api/v1/jobs").headers(&[("authorization", &ada)])).await.status, 200);
    assert_eq!(delete("ada@example.com", &[("if-match", "\"1\"")]).await.0, 412);
    assert_eq!(delete("ADA@example.com", &[]).await, (204, Value::Null));
    assert_eq!(
        app.send(Request::get("/api/v1/jobs").headers(&[("authorization", &ada)])).await.status,
        401,
        "at once"
    );
    assert_eq!(delete("ada@example.com", &[]).await, (404, json!("not_found")));
    assert_eq!(app.get("/api/v1/memberships/ada@example.com").await.status, 404);
    let left = "SELECT count(*) FROM api_keys k WHERE NOT EXISTS (SELECT FROM users u WHERE u.id = k.user_id) AND k.user_id IS NOT NULL";
    assert_eq!(app.fixture.number(left).await, 0);
    let entry = "SELECT count(*) FROM audit_log WHERE action = 'delete_user' AND before ->> 'email' = 'ada@example.com' AND after IS NULL";
    assert_eq!(app.fixture.number(entry).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_without_jobs_and_runs_can_be_deleted() {
    let app = TestApp::start().await;
    assert_eq!(app.post("/api/v1/tenants", &json!({"slug": "acme"})).await.status, 201);
    let ann = member(&app, "ann@acme.example", "acme", "owner").await;
    let as_ann = async |method: &str, path: &str, body: &Value| {
        let headers = [("authorization", ann.as_str()), ("content-type", "application/json")];
        app.send(Request::new(method, &format!("/api/v1{path}")).headers(&headers).body(&body.to_string()))
            .await
    };
    let delete = async |slug: &str| {
        let answer = app.send(Request::delete(&format!("/api/v1/tenants/{slug}"))).await;
        let body = serde_json::from_str::<Value>(&answer.body).unwrap_or_default();
        (answer.status, body["code"].clone(), body["detail"].as_str().unwrap_or_default().to_owned())
    };
    let job = json!({"name": "a", "function": "f", "job_type": "manual"});
    let applied = as_ann("POST", "/apply", &json!({"task_functions": [function("f")], "jobs": [job]})).await;
    assert_eq!(applied.status, 200, "{}", applied.body);
    assert_eq!(as_ann("POST", "/jobs/a/trigger", &json!({})).await.status, 202);
    assert_eq!(as_ann("DELETE", "/tenants/acme", &json!({})).await.status, 403);
    assert_eq!(delete("default").await.1, "built_in");
    assert_eq!(delete("nobody").await.0, 404);
    let (status, code, told) = delete("acme").await;
    assert_eq!((status, code), (409, json!("in_use")));
    assert!(told.contains("has jobs"), "{told}");

    let running = "UPDATE job_dispatch d SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = now(), worker_id = gen_random_uuid(),
                       claim_token = 1, attempt = 1 FROM tenants t WHERE t.id = d.tenant_id AND t.slug = 'acme'";
    app.fixture.sql(running).await;
    assert_eq!(as_ann("DELETE", "/jobs/a", &json!({})).await.status, 200);
    let (_, code, told) = delete("acme").await;
    assert_eq!(code, "in_use");
    assert!(told.contains("not over"), "{told}");
    app.fixture
        .sql(
            "UPDATE job_dispatch SET status = 'COMPLETED', completed_at = now() WHERE status = 'IN_PROGRESS';
             UPDATE scheduled_jobs SET active_dispatches = 0",
        )
        .await;

    assert_eq!(delete("acme").await.0, 204);
    assert_eq!(as_ann("GET", "/jobs", &Value::Null).await.status, 401, "at once");
    assert_eq!(app.get("/api/v1/tenants/acme").await.status, 404);
    for table in
        ["scheduled_jobs", "job_dispatch", "memberships", "api_keys", "queues", "task_functions", "projects"]
    {
        let left = format!(
            "SELECT count(*) FROM {table} x WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = x.tenant_id)"
        );
        assert_eq!(app.fixture.number(&left).await, 0, "{table}");
    }
    let entry = "SELECT count(*) FROM audit_log WHERE action = 'delete_tenant' AND before ->> 'slug' = 'acme' AND tenant_id IS NULL";
    assert_eq!(app.fixture.number(entry).await, 1);
    assert_eq!(app.get("/api/v1/users/ann@acme.example").await.status, 200, "users are the installation's");
    assert_eq!(
        app.post("/api/v1/tenants", &json!({"slug": "acme"})).await.status,
        201,
        "the name is free again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_answer_with_the_fields_in_the_order_of_reads() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let json = [("content-type", "application/json")];
    for (path, body) in [
        ("/api/v1/jobs/a", json!({"function": "f", "job_type": "manual", "priority": 7})),
        ("/api/v1/functions/f", json!({"handler_type": "process", "handler_config": {"program": "false"}})),
        ("/api/v1/queues/q", json!({})),
        ("/api/v1/projects/p", json!({})),
    ] {
        let put = app.send(Request::put(path).headers(&json).body(&body.to_string())).await;
        assert!(put.status < 300, "{path} {}", put.body);
        assert_eq!(put.body, app.get(path).await.body, "{path}");
    }
}

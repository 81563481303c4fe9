use serde_json::{Value, json};
use test_support::http::Answer;
use test_support::identity::{OWNER, bearer};

use crate::access::permissions::{make_key, member};
use crate::support::{Request, TestApp, function, manual, pointers};

async fn send(app: &TestApp, key: &str, request: Request<'_>, body: &Value) -> Answer {
    let headers = [("authorization", key), ("content-type", "application/json")];
    let (path, body) = (format!("/api/v1{}", request.path), body.to_string());
    app.send(Request { path: &path, headers: &headers, body: Some(&body), ..request }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_operators_run_and_change_built_in_jobs() {
    let app = TestApp::start().await;
    app.with_jobs(&["built-in"]).await;
    app.fixture.sql("UPDATE task_functions SET is_system = true WHERE name = 'f'").await;
    let own = json!({"task_functions": [function("g")], "jobs": [{"name": "own", "function": "g", "job_type": "manual"}]});
    let owner = member(&app, "ada@example.com", "default", "owner").await;
    assert_eq!(send(&app, &owner, Request::post("/apply"), &own).await.status, 200);
    let triggered = app.post("/api/v1/jobs/built-in/trigger", &json!({})).await;
    let dispatch = triggered.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(send(&app, &owner, Request::get("/jobs/built-in"), &json!({})).await.status, 200);
    let mut changed = manual("built-in");
    changed["description"] = json!("another");
    for (path, body) in [
        ("/jobs/built-in/trigger".to_owned(), json!({})),
        ("/jobs/built-in/pause".to_owned(), json!({})),
        ("/jobs/built-in/resume".to_owned(), json!({})),
        ("/jobs/built-in/disable".to_owned(), json!({})),
        ("/jobs/built-in/enable".to_owned(), json!({})),
        ("/jobs/built-in/cancel".to_owned(), json!({})),
        (format!("/runs/{dispatch}/cancel"), json!({})),
        (format!("/runs/{dispatch}/retry"), json!({})),
        ("/jobs".to_owned(), manual("another")),
        ("/apply".to_owned(), json!({"jobs": [changed]})),
        ("/apply".to_owned(), json!({"jobs": [{"name": "built-in", "function": "g", "job_type": "manual"}]})),
    ] {
        let refused = send(&app, &owner, Request::post(&path), &body).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.body);
        assert!(refused.body.contains("system:operate"), "{path}: {}", refused.body);
        let own = path.replace("built-in", "own");
        if own != path {
            let done = send(&app, &owner, Request::post(&own), &json!({})).await;
            assert!(done.status < 300, "{own}: {}", done.body);
        }
    }
    let untouched = "SELECT count(*) FROM scheduled_jobs WHERE name = 'built-in' AND version = 1 AND active_dispatches = 1";
    assert_eq!(app.fixture.number(untouched).await, 1);
    for path in ["/jobs/built-in/pause", "/jobs/built-in/resume", "/jobs/built-in/cancel"] {
        assert_eq!(app.post(&format!("/api/v1{path}"), &json!({})).await.status, 200, "{path}");
    }
    // Covers the dead letters of the caller's tenant only.
    let died = "UPDATE job_dispatch SET status = 'DEAD_LETTER', claimable_at = NULL, completed_at = now(), attempt = 1;
        INSERT INTO dead_letters (tenant_id, dispatch_id, job_id, queue, died_at)
        SELECT tenant_id, id, job_id, queue, now() FROM job_dispatch";
    app.fixture.sql(died).await;
    let of_own = app
        .fixture
        .number(
            "SELECT count(*) FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id AND j.name = 'own'",
        )
        .await;
    assert!(of_own > 0);
    let discarded = send(&app, &owner, Request::post("/dead-letters/discard"), &json!({"all": true})).await;
    assert_eq!((discarded.status, &discarded.json()["count"]), (200, &json!(of_own)), "{}", discarded.body);
    let one =
        send(&app, &owner, Request::post(&format!("/dead-letters/{dispatch}/discard")), &json!({})).await;
    assert_eq!(one.status, 403, "{}", one.body);
    let rest = app.post("/api/v1/dead-letters/discard", &json!({"all": true})).await;
    assert_eq!(rest.json()["count"], 1, "{}", rest.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_operators_change_the_built_in_queue() {
    let app = TestApp::start().await;
    app.fixture
        .sql(
            "INSERT INTO queues (tenant_id, name) SELECT id, 'system' FROM tenants WHERE slug = 'default';
             INSERT INTO tenants (slug, name) VALUES ('other', 'Other')",
        )
        .await;
    let owner = member(&app, "ada@example.com", "default", "owner").await;
    let stopping =
        json!({"is_paused": true, "max_running": 1, "rate": {"count": 1, "period_seconds": 86_400}});
    for (method, path) in [
        ("PUT", "/queues/system"),
        ("DELETE", "/queues/system"),
        ("POST", "/queues/system/pause"),
        ("POST", "/queues/system/resume"),
    ] {
        let body = if method == "PUT" { &stopping } else { &json!({}) };
        let refused = send(&app, &owner, Request::new(method, path), body).await;
        assert_eq!(refused.status, 403, "{method} {path}: {}", refused.body);
        assert!(refused.body.contains("system:operate"), "{method} {path}: {}", refused.body);
    }
    let untouched = "SELECT count(*) FROM queues WHERE name = 'system' AND NOT is_paused AND max_running IS NULL AND rate_limit_count IS NULL";
    assert_eq!(app.fixture.number(untouched).await, 1);
    assert_eq!(
        send(&app, &owner, Request::put("/queues/own"), &stopping).await.status,
        201,
        "owners may write other queues"
    );
    assert_eq!(
        send(&app, bearer(), Request::put("/queues/system"), &json!({"max_running": 3})).await.status,
        200
    );
    let other = member(&app, "bob@example.com", "other", "owner").await;
    assert_eq!(send(&app, &other, Request::put("/queues/system"), &stopping).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn expiring_key_cannot_create_a_longer_key() {
    let app = TestApp::start().await;
    let end = "2099-06-30T00:00:00.000000Z";
    let (maker, _) = make_key(&app, bearer(), &json!({"name": "maker", "expires_at": end})).await;
    let (_, same) = make_key(&app, &maker, &json!({"name": "says nothing"})).await;
    let (_, sooner) =
        make_key(&app, &maker, &json!({"name": "sooner", "expires_at": "2098-01-01T00:00:00Z"})).await;
    let of_tenant = json!({"name": "t", "of_tenant": true, "scopes": ["jobs:read"]});
    let (_, of_tenant) = make_key(&app, &maker, &of_tenant).await;
    assert_eq!((&same["expires_at"], &of_tenant["expires_at"]), (&json!(end), &json!(end)));
    assert_eq!(sooner["expires_at"], "2098-01-01T00:00:00.000000Z");
    let later = json!({"name": "later", "expires_at": "2099-06-30T00:00:01Z"});
    let refused = send(&app, &maker, Request::post("/api-keys"), &later).await;
    assert_eq!(
        (refused.status, pointers(&refused.json())),
        (422, vec!["/expires_at".to_owned()]),
        "{}",
        refused.body
    );
    assert!(refused.body.contains("2099-06-30"), "{}", refused.body);
    let (_, never) = make_key(&app, bearer(), &json!({"name": "never"})).await;
    assert_eq!(never["expires_at"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_owners_revoke_keys_of_owners() {
    let app = TestApp::start().await;
    let admin = member(&app, "admin@example.com", "default", "admin").await;
    let (bot, _) = make_key(
        &app,
        bearer(),
        &json!({"name": "bot", "of_tenant": true, "scopes": ["keys:write", "keys:read"]}),
    )
    .await;
    let new_key = async |maker: &str| {
        let (_, made) = make_key(&app, maker, &json!({"name": "x", "scopes": ["keys:read"]})).await;
        format!("/api-keys/{}", made["prefix"].as_str().unwrap())
    };
    let (of_owner, of_admin) = (new_key(bearer()).await, new_key(&admin).await);
    for key in [&admin, &bot] {
        let refused = send(&app, key, Request::delete(&of_owner), &json!({})).await;
        assert_eq!(refused.status, 403, "{}", refused.body);
        assert!(refused.body.contains("members:write"), "{}", refused.body);
    }
    assert_eq!(
        send(&app, &admin, Request::delete(&of_admin), &json!({})).await.status,
        204,
        "an admin revokes an own key"
    );
    let of_admin = new_key(&admin).await;
    assert_eq!(
        send(&app, bearer(), Request::delete(&of_admin), &json!({})).await.status,
        204,
        "an owner revokes any"
    );
    let of_admin = new_key(&admin).await;
    assert_eq!(send(&app, &bot, Request::delete(&of_admin), &json!({})).await.status, 204, "of no owner");
    assert_eq!(send(&app, bearer(), Request::delete(&of_owner), &json!({})).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn key_can_only_be_narrowed() {
    let app = TestApp::start().await;
    let admin = member(&app, "admin@example.com", "default", "admin").await;
    let end = "2099-06-30T00:00:00.000000Z";
    let spec = json!({"name": "x", "scopes": ["jobs:read", "jobs:trigger", "keys:read"], "expires_at": end});
    let (key, made) = make_key(&app, &admin, &spec).await;
    let path = format!("/api-keys/{}", made["prefix"].as_str().unwrap());
    let change = async |by: &str, body: Value| send(&app, by, Request::patch(&path), &body).await;
    let read = async |by: &str| {
        app.send(Request::get("/api/v1/jobs").headers(&[("authorization", by)])).await.status
    };

    let renamed = change(&admin, json!({"name": "deploy"})).await;
    assert_eq!(renamed.status, 200, "{}", renamed.body);
    let renamed = renamed.json();
    assert_eq!((&renamed["name"], &renamed["scopes"]), (&json!("deploy"), &made["scopes"]));
    assert_eq!((&renamed["expires_at"], &renamed["user"]), (&json!(end), &json!("admin@example.com")));
    assert_eq!(read(&key).await, 200);
    app.fixture.sql("UPDATE api_keys SET created_at = '2002-01-01'").await;
    for (body, pointer, says) in [
        (json!({"expires_at": "2003-01-01T00:00:00Z"}), "/expires_at", "future"),
        (json!({"scopes": ["jobs:read", "jobs:write"]}), "/scopes", "jobs:write"),
        (json!({"scopes": []}), "/scopes", "revoke"),
        (json!({"scopes": ["jobs:fly"]}), "/scopes/0", "jobs:fly"),
        (json!({"expires_at": "2099-06-30T00:00:01Z"}), "/expires_at", "2099-06-30"),
        (json!({"expires_at": "2001-01-01T00:00:00Z"}), "/expires_at", "future"),
        (json!({"name": ""}), "/name", ""),
        (json!({"of_tenant": true}), "/of_tenant", ""),
    ] {
        let refused = change(&admin, body.clone()).await;
        assert_eq!((refused.status, pointers(&refused.json())), (422, vec![pointer.to_owned()]), "{body}");
        assert!(refused.body.contains(says), "{}", refused.body);
    }
    let (sooner, fewer) = ("2098-01-01T00:00:00.000000Z", json!(["keys:read"]));
    let changed = change(&admin, json!({"scopes": fewer, "expires_at": sooner})).await.json();
    assert_eq!((&changed["scopes"], &changed["expires_at"]), (&fewer, &json!(sooner)));
    assert_eq!(read(&key).await, 403, "at once");
    let back = change(&admin, json!({"scopes": ["jobs:read"]})).await;
    assert_eq!(back.status, 422, "{}", back.body);
    let entries = "SELECT count(*) FROM audit_log WHERE action = 'change_api_key'
         AND before ->> 'name' IS NOT NULL AND after ->> 'name' = 'deploy'";
    assert_eq!(app.fixture.number(entries).await, 2, "one entry for each change");
    assert_eq!(change(&admin, json!({"name": "deploy"})).await.status, 200);
    assert_eq!(app.fixture.number(entries).await, 2, "a patch with equal values is no change");

    assert_eq!(
        change(&key, json!({"name": "own"})).await.status,
        404,
        "a key of the tenant belongs to no user"
    );
    let viewer = member(&app, "viewer@example.com", "default", "viewer").await;
    assert_eq!(change(&viewer, json!({"name": "other"})).await.status, 404);
    assert_eq!(change(bearer(), json!({"name": "an owner's"})).await.status, 200);
    let (_, of_owner) = make_key(&app, bearer(), &json!({"name": "o"})).await;
    let of_owner = format!("/api-keys/{}", of_owner["id"].as_str().unwrap());
    let refused = send(&app, &admin, Request::patch(&of_owner), &json!({"name": "x"})).await;
    assert!(refused.status == 403 && refused.body.contains("members:write"), "{}", refused.body);
    let bounded = send(&app, bearer(), Request::patch(&of_owner), &json!({"scopes": ["runs:read"]})).await;
    assert_eq!(bounded.json()["scopes"], json!(["runs:read"]), "a key without scopes gets scopes");

    assert_eq!(send(&app, &admin, Request::delete(&path), &json!({})).await.status, 204);
    let over = change(&admin, json!({"name": "again"})).await;
    assert!(over.status == 409 && over.body.contains("create a new key"), "{} {}", over.status, over.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn last_owner_and_last_operator_stay() {
    let app = TestApp::start().await;
    let code = async |path: &str| {
        let answer = app.post(&format!("/api/v1/users/{path}"), &json!({})).await;
        (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |code: &str| (409, code.to_owned());
    let done = (200, String::new());
    assert_eq!(code(&format!("{OWNER}/deactivate")).await, refused("last_owner"));
    member(&app, "ada@example.com", "default", "owner").await;
    assert_eq!(
        code(&format!("{OWNER}/deactivate")).await,
        refused("last_operator"),
        "the other owner is not an operator"
    );
    assert_eq!(code("ada@example.com/deactivate").await, done);
    assert_eq!(
        code(&format!("{OWNER}/deactivate")).await,
        refused("last_owner"),
        "the other may not sign in"
    );
    // A change of roles cannot remove the last owner either.
    let (path, json) = (format!("/api/v1/memberships/{OWNER}"), [("content-type", "application/json")]);
    let demoted = app.send(Request::put(&path).headers(&json).body(r#"{"role": "viewer"}"#)).await;
    assert_eq!(demoted.json()["code"], "last_owner", "{}", demoted.body);
    assert_eq!(code("ada@example.com/activate").await, done);
    app.fixture.sql("UPDATE users SET is_system_operator = true").await;
    assert_eq!(code(&format!("{OWNER}/deactivate")).await, done, "others are left for both");
}

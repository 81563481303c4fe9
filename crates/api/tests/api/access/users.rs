//! Users and tenants.

use crate::support::{Request, TestApp, pointers};
use serde_json::json;
use test_support::identity::OWNER;

#[tokio::test(flavor = "multi_thread")]
async fn users_are_created_added_and_deactivated() {
    let app = TestApp::start().await;
    let spec = json!({"email": "ada@example.com", "password": "correct horse battery"});
    let made = app.post("/api/v1/users", &spec).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert!(!made.body.contains("argon2") && !made.body.contains("horse"), "{}", made.body);
    assert_eq!(app.post("/api/v1/users", &spec).await.json()["code"], "already_exists");
    for (spec, pointer) in [
        (json!({"email": "b@example.com", "password": "short"}), "/password"),
        (json!({"email": "b@example.com", "password": 123_456_789_012_u64}), "/password"),
        (json!({"email": "nobody"}), "/email"),
    ] {
        let refused = app.post("/api/v1/users", &spec).await;
        assert_eq!(
            (refused.status, pointers(&refused.json())),
            (422, vec![pointer.to_owned()]),
            "{}",
            refused.body
        );
        assert!(!refused.body.contains("123456789012"), "{}", refused.body);
    }
    let json = [("content-type", "application/json")];
    let put = |email: &str, role: &str| {
        let (path, body) = (format!("/api/v1/memberships/{email}"), json!({"role": role}).to_string());
        let (app, json) = (&app, &json);
        async move { app.send(Request::put(&path).headers(json).body(&body)).await }
    };
    assert_eq!(put("ada@example.com", "operator").await.status, 201);
    assert_eq!(put("ada@example.com", "viewer").await.json()["role"], "viewer");
    assert_eq!(put("ada@example.com", "king").await.status, 422);
    assert_eq!(put("nobody@example.com", "viewer").await.status, 404);
    assert_eq!(put(OWNER, "viewer").await.json()["code"], "last_owner");
    let members = app.get("/api/v1/memberships").await.json();
    assert_eq!(members["items"].as_array().unwrap().len(), 2, "{members}");
    let off = app.post("/api/v1/users/ADA@example.com/deactivate", &json!({})).await;
    assert_eq!((off.status, &off.json()["is_active"]), (200, &json!(false)));
    assert_eq!(app.post("/api/v1/users/nobody@example.com/deactivate", &json!({})).await.status, 404);
    let gone = app.send(Request::delete("/api/v1/memberships/ada@example.com")).await;
    assert_eq!(gone.status, 204, "{}", gone.body);
    let actions = "SELECT string_agg(action, ' ' ORDER BY id) FROM audit_log";
    let actions: String = app.fixture.text(actions).await;
    assert_eq!(actions, "create_user create_membership update_membership deactivate_user delete_membership");
    let kept = app.fixture.number("SELECT count(*) FROM users WHERE password_hash LIKE '$argon2id$%'").await;
    assert_eq!(
        (kept, app.fixture.number("SELECT count(*) FROM audit_log a WHERE a::text LIKE '%argon2%'").await),
        (1, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_is_created_together_with_its_owner() {
    let app = TestApp::start().await;
    let refused = app.post("/api/v1/tenants", &json!({"slug": "acme", "owner": "nobody@example.com"})).await;
    assert_eq!((refused.status, pointers(&refused.json())), (422, vec!["/owner".to_owned()]));
    assert_eq!(app.fixture.number("SELECT count(*) FROM tenants").await, 1);
    let made = app.post("/api/v1/tenants", &json!({"slug": "acme", "owner": OWNER})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(app.post("/api/v1/tenants", &json!({"slug": "acme"})).await.json()["code"], "already_exists");
    assert_eq!(app.post("/api/v1/tenants", &json!({"slug": "A"})).await.status, 422);
    let slugs = app.get("/api/v1/tenants").await.json();
    assert_eq!((&slugs["items"][0]["slug"], &slugs["items"][1]["slug"]), (&json!("acme"), &json!("default")));
}

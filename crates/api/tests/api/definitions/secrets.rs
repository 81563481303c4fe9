use serde_json::{Value, json};
use test_support::http::Answer;
use test_support::identity::{OWNER, actor};

use crate::support::{Request, TestApp, function, manual, pointers};

const TOKEN: &str = "/api/v1/secrets/token";

async fn put(app: &TestApp, path: &str, body: &Value) -> Answer {
    app.send(Request::put(path).headers(&[("content-type", "application/json")]).body(&body.to_string()))
        .await
}

fn function_with_secret(name: &str, secret: &str) -> Value {
    let mut function = function(name);
    function["handler_config"]["env"] = json!({"A": "plain", "TOKEN": {"secret": secret}});
    function
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_value_is_never_shown() {
    let app = TestApp::start().await;
    let created = put(&app, TOKEN, &json!({"value": "canary-1"})).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let shown = created.json();
    assert_eq!(
        (&shown["name"], &shown["version"], &shown["project"]),
        (&json!("token"), &json!(1), &Value::Null)
    );
    assert_eq!((&shown["key"], &shown["created_by"]), (&json!("test"), &json!(OWNER)));
    let again = put(&app, TOKEN, &json!({"value": "canary-1"})).await;
    assert_eq!(
        (again.status, &again.json()["version"]),
        (200, &json!(2)),
        "no answer reveals that the value is equal"
    );
    let own = put(&app, &format!("{TOKEN}?project=default"), &json!({"value": "canary-2"})).await;
    assert_eq!((own.status, &own.json()["project"]), (201, &json!("default")), "{}", own.body);

    let first = app.get("/api/v1/secrets?limit=1").await.json();
    assert_eq!(first["items"][0]["project"], Value::Null);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = app.get(&format!("/api/v1/secrets?cursor={cursor}")).await.json();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
    assert_eq!(rest["items"][0]["project"], "default");
    let all = app.get("/api/v1/secrets").await;
    for answer in [&created, &again, &own, &all] {
        assert!(!answer.body.contains("canary"), "{}", answer.body);
    }
    let alone = app.get(TOKEN).await;
    assert_eq!((alone.status, &alone.json()["name"]), (200, &json!("token")));
    assert!(!alone.body.contains("canary"), "{}", alone.body);

    assert_eq!(app.send(Request::delete(TOKEN)).await.status, 204);
    assert_eq!(app.send(Request::delete(TOKEN)).await.status, 404);
    assert_eq!(app.send(Request::delete(&format!("{TOKEN}?project=default"))).await.status, 204);
    assert_eq!(app.send(Request::delete("/api/v1/secrets/No%00Name")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_audited_without_a_value() {
    let app = TestApp::start().await;
    for value in ["canary-1", "canary-2"] {
        assert!(put(&app, TOKEN, &json!({"value": value})).await.status < 300);
    }
    assert_eq!(app.send(Request::delete(TOKEN).headers(&[("x-request-id", "the-last.1")])).await.status, 204);
    let client = app.fixture.client().await;
    let rows = client
        .query(
            "SELECT action, coalesce(after, before)::text, coalesce(request_id, '') = 'the-last.1', target_type || actor
             FROM audit_log ORDER BY id",
            &[],
        )
        .await
        .unwrap();
    let actions: Vec<(&str, bool)> = rows.iter().map(|row| (row.get(0), row.get(2))).collect();
    assert_eq!(actions, [("create_secret", false), ("update_secret", false), ("delete_secret", true)]);
    for row in &rows {
        let kept: Value = serde_json::from_str(row.get(1)).unwrap();
        assert_eq!((&kept["name"], row.get::<_, String>(3)), (&json!("token"), format!("secret{}", actor())));
        assert!(!row.get::<_, &str>(1).contains("canary"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_errors_do_not_quote_the_value() {
    let app = TestApp::start().await;
    let long = "canary".repeat(12_000);
    for (path, body, status, pointer) in [
        (TOKEN, json!({"value": ["canary"]}), 422, "/value"),
        (TOKEN, json!({"value": "canary\u{0}"}), 422, "/value"),
        (TOKEN, json!({"value": ""}), 422, "/value"),
        (TOKEN, json!({"value": long}), 422, "/value"),
        (TOKEN, json!("canary"), 422, ""),
        (TOKEN, json!({"value": "canary", "other": "canary"}), 422, "/other"),
        ("/api/v1/secrets/Token", json!({"value": "canary"}), 400, "name"),
        ("/api/v1/secrets/token?project=none", json!({"value": "canary"}), 400, "project"),
        ("/api/v1/secrets/token?projet=x", json!({"value": "canary"}), 400, "projet"),
    ] {
        let answer = put(&app, path, &body).await;
        assert_eq!(
            (answer.status, pointers(&answer.json())),
            (status, vec![pointer.to_owned()]),
            "{}",
            answer.body
        );
        assert!(!answer.body.contains("canary"), "{}", answer.body);
    }
    let broken = app
        .send(Request::put(TOKEN).headers(&[("content-type", "application/json")]).body("{\"value\": canary"))
        .await;
    assert_eq!((broken.status, broken.body.contains("canary")), (400, false), "{}", broken.body);
    assert_eq!(app.fixture.number("SELECT count(*) FROM secrets").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn function_may_only_name_existing_secrets_and_protects_them() {
    let app = TestApp::start().await;
    let manifest =
        json!({"task_functions": [function("f"), function_with_secret("g", "token")], "jobs": [manual("j")]});
    let refused = app.post("/api/v1/apply", &manifest).await;
    assert_eq!(pointers(&refused.json()), ["/task_functions/1/handler_config/env/TOKEN"], "{}", refused.body);
    assert!(refused.body.contains("schedctl secrets set token"), "{}", refused.body);
    put(&app, TOKEN, &json!({"value": "canary"})).await;
    app.apply(&manifest).await;
    let shown = app.get("/api/v1/functions").await.json();
    let env = &shown["items"][1]["handler_config"]["env"];
    assert_eq!((&env["TOKEN"], &env["A"]), (&json!({"secret": "token"}), &json!("plain")));

    let held = app.send(Request::delete(TOKEN)).await;
    assert_eq!((held.status, held.json()["code"].as_str()), (409, Some("in_use")), "{}", held.body);
    assert!(held.body.contains("name this secret: g;"), "{}", held.body);
    assert_eq!(app.send(Request::delete(&format!("{TOKEN}?force=true"))).await.status, 204);
    assert_eq!(app.post("/api/v1/apply", &manifest).await.status, 422, "the function names no secret now");
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_rotation_names_secrets_that_cannot_be_decrypted() {
    let mut app = TestApp::start().await;
    for name in ["a", "b"] {
        put(&app, &format!("/api/v1/secrets/{name}"), &json!({"value": "canary"})).await;
    }
    let client = app.fixture.client().await;
    client.execute("UPDATE secrets SET key_id = 'lost' WHERE name = 'b'", &[]).await.unwrap();
    drop(client);
    app.restart_with_keys(&["new", "test"]).await;
    let answer = app.post("/api/v1/secret-keys/rotate", &json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let rotated = answer.json();
    assert_eq!((&rotated["key"], &rotated["rotated"]), (&json!("new"), &json!(1)));
    assert_eq!(rotated["unreadable"][0]["name"], "b");
    assert!(rotated["unreadable"][0]["reason"].as_str().unwrap().contains("\"lost\""), "{}", answer.body);
    assert_eq!(app.fixture.number("SELECT count(*) FROM secrets WHERE key_id = 'new'").await, 1);
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'rotate_secrets'").await, 1);
    let again = app.post("/api/v1/secret-keys/rotate", &json!({})).await.json();
    assert_eq!(again["rotated"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_key_file_only_secrets_fail() {
    let mut app = TestApp::start().await;
    app.restart_with_keys(&[]).await;
    let answer = put(&app, TOKEN, &json!({"value": "canary"})).await;
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (422, Some("no_secret_keys")),
        "{}",
        answer.body
    );
    assert!(answer.body.contains("SECRETS_KEY_FILE") && !answer.body.contains("canary"), "{}", answer.body);
    assert_eq!(app.post("/api/v1/secret-keys/rotate", &json!({})).await.status, 422);
    assert_eq!(app.get("/api/v1/secrets").await.json()["items"], json!([]));
    app.with_jobs(&["j"]).await;
}

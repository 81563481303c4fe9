use serde_json::{Value, json};
use test_support::http::Answer;

use crate::access::permissions::member;
use crate::support::{Request, TestApp};

/// A change, and a conflicting change of another client in between.
struct Case {
    path: &'static str,
    read: Option<&'static str>,
    other: (&'static str, Value),
    stale: Vec<(&'static str, Value)>,
    row: &'static str,
}

async fn send(app: &TestApp, request: Request<'_>, tag: Option<&str>, body: &Value) -> Answer {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(tag.map(|tag| ("if-match", tag)));
    let body = (request.method != "DELETE").then(|| body.to_string());
    let path = format!("/api/v1{}", request.path);
    app.send(Request { path: &path, headers: &headers, body: body.as_deref(), ..request }).await
}

fn tag(answer: &Answer) -> String {
    answer.header("etag").unwrap_or_else(|| panic!("no tag: {} {}", answer.status, answer.body)).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_if_match_is_refused_and_changes_nothing() {
    let app = TestApp::start().await;
    member(&app, "ada@example.com", "default", "viewer").await;
    let none = Value::Null;
    let made = send(&app, Request::put("/secrets/token"), None, &json!({"value": "first"})).await;
    let cases = [
        Case {
            path: "/users/ada@example.com",
            read: Some("/users/ADA@example.com"),
            other: ("PATCH", json!({"display_name": "Ada Lovelace"})),
            stale: vec![("PATCH", json!({"display_name": "Somebody", "password": "correct horse battery"}))],
            row: "SELECT u::text FROM users u WHERE email = 'ada@example.com'",
        },
        Case {
            path: "/memberships/ada@example.com",
            read: Some("/memberships/ada@example.com"),
            other: ("PUT", json!({"role": "operator"})),
            stale: vec![("PUT", json!({"role": "admin"})), ("DELETE", none.clone())],
            row: "SELECT m::text FROM memberships m JOIN users u ON u.id = m.user_id WHERE u.email = 'ada@example.com'",
        },
        Case {
            path: "/secrets/token",
            read: None,
            other: ("PUT", json!({"value": "second"})),
            stale: vec![("PUT", json!({"value": "third"})), ("DELETE", none)],
            row: "SELECT s::text FROM secrets s WHERE name = 'token'",
        },
        Case {
            path: "/job-types/manual",
            read: Some("/job-types/manual"),
            other: ("PUT", json!({"is_active": false})),
            stale: vec![("PUT", json!({"is_active": true}))],
            row: "SELECT t::text FROM scheduler_job_types t WHERE name = 'manual'",
        },
    ];
    let client = app.fixture.client().await;
    for Case { path, read, other, stale, row } in cases {
        let kept = async || -> String { client.query_one(row, &[]).await.unwrap().get(0) };
        let seen = match read {
            Some(read) => tag(&app.get(&format!("/api/v1{read}")).await),
            None => tag(&made),
        };
        let written = send(&app, Request::new(other.0, path), None, &other.1).await;
        assert!(written.status < 300, "{path}: {}", written.body);
        let now = tag(&written);
        assert_ne!(now, seen, "{path}");
        let (before, audited) = (kept().await, app.fixture.number("SELECT count(*) FROM audit_log").await);
        for (method, body) in &stale {
            let refused = send(&app, Request::new(method, path), Some(&seen), body).await;
            let told = (refused.status, refused.json()["code"].clone());
            assert_eq!(told, (412, json!("version_mismatch")), "{method} {path}: {}", refused.body);
            assert!(
                refused.body.contains("which If-Match does not name")
                    && refused.body.contains("read it again"),
                "{}",
                refused.body
            );
            let malformed = send(&app, Request::new(method, path), Some("7"), body).await;
            assert_eq!(malformed.status, 400, "{method} {path}: {}", malformed.body);
        }
        assert_eq!(kept().await, before, "{path}");
        assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log").await, audited, "{path}");
        let mut tags = now;
        for (method, body) in &stale {
            let done = send(&app, Request::new(method, path), Some(&tags), body).await;
            assert!(done.status < 300, "{method} {path}: {}", done.body);
            if done.status != 204 {
                tags = tag(&done);
            }
        }
        let gone = stale.iter().any(|(method, _)| *method == "DELETE");
        if gone {
            let (method, body) = &stale[0];
            let late = send(&app, Request::new(method, path), Some(&tags), body).await;
            assert_eq!(late.json()["code"], "precondition_failed", "{path}: {}", late.body);
        }
    }
}

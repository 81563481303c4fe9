//! Sessions and their user: scopes, password changes, delays.

use super::sessions::{ADA, Browser, PASSWORD, code, member, refused, try_as};
use crate::support::{Request, TestApp, pointers, send};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn scoped_key_cannot_use_sessions_of_its_user() {
    let app = TestApp::start().await;
    member(&app, ADA, "admin").await;
    let browser = Browser::new(&app, ADA).await;
    let made = browser.change("POST", "/api-keys", &json!({"name": "ci", "scopes": ["runs:read"]})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let key = format!("Bearer {}", made.json()["key"].as_str().unwrap());
    let headers = [("authorization", &*key), ("content-type", "application/json")];
    let change = json!({"old_password": PASSWORD, "new_password": "another horse battery"}).to_string();
    for (method, path, body) in [
        ("GET", "/sessions".to_owned(), None),
        ("DELETE", format!("/sessions/{}", browser.id), None),
        ("PUT", "/me/password".to_owned(), Some(&*change)),
    ] {
        let answer = send(
            app.addr,
            Request::new(method, &format!("/api/v1{path}")).headers(&headers).optional_body(body),
        )
        .await;
        assert_eq!(code(&answer), refused(403, "forbidden"), "{method} {path}");
    }
    assert_eq!(browser.get("/me").await.status, 200, "the session stays valid");
}

#[tokio::test(flavor = "multi_thread")]
async fn password_change_and_deactivation_end_all_sessions() {
    let app = TestApp::start().await;
    member(&app, ADA, "viewer").await;
    let (first, second) = (Browser::new(&app, ADA).await, Browser::new(&app, ADA).await);
    assert_eq!((first.get("/me").await.status, second.get("/me").await.status), (200, 200));
    let with = |old: &str, new: &str| json!({"old_password": old, "new_password": new});
    for (body, pointer) in [
        (with("wrong", "another long password"), "/old_password"),
        (with(PASSWORD, "short"), "/new_password"),
        (with(PASSWORD, PASSWORD), "/new_password"),
    ] {
        let refused = first.change("PUT", "/me/password", &body).await;
        assert_eq!(
            (refused.status, pointers(&refused.json())),
            (422, vec![pointer.to_owned()]),
            "{}",
            refused.body
        );
    }
    let (new, body) = ("another long password", with(PASSWORD, "another long password"));
    assert_eq!(code(&first.send(Request::put("/me/password"), &body).await), refused(403, "csrf"));
    let changed = first.change("PUT", "/me/password", &body).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let renewed = Browser::of(app.addr, &changed);
    assert_ne!(renewed.cookie, first.cookie);
    assert_eq!((first.get("/me").await.status, second.get("/me").await.status), (401, 401));
    assert_eq!(renewed.get("/me").await.status, 200);
    assert_eq!(renewed.change("DELETE", "/sessions/current", &Value::Null).await.status, 204);
    assert_eq!(code(&try_as(app.addr, ADA, PASSWORD).await), refused(401, "sign_in_failed"));
    let again = Browser::of(app.addr, &try_as(app.addr, ADA, new).await);
    let headers = [("content-type", "application/json")];
    let path = format!("/api/v1/users/{ADA}");
    let set = app
        .send(Request::patch(&path).headers(&headers).body(&json!({"password": PASSWORD}).to_string()))
        .await;
    assert_eq!(set.status, 200, "{}", set.body);
    assert_eq!(again.get("/me").await.status, 401);
    let last = Browser::new(&app, ADA).await;
    assert_eq!(last.get("/me").await.status, 200);
    assert_eq!(app.post(&format!("{path}/deactivate"), &json!({})).await.status, 200);
    assert_eq!(last.get("/me").await.status, 401);
    assert_eq!(app.fixture.number("SELECT count(*) FROM sessions").await, 0);
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'set_password'").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_the_old_password_are_delayed() {
    let app = TestApp::start().await;
    member(&app, ADA, "viewer").await;
    let browser = Browser::new(&app, ADA).await;
    let body = json!({"old_password": "wrong", "new_password": "another long password"});
    for _ in 0..5 {
        assert_eq!(browser.change("PUT", "/me/password", &body).await.status, 422);
    }
    assert_eq!(code(&browser.change("PUT", "/me/password", &body).await), refused(429, "too_many_sign_ins"));
    assert_eq!(code(&try_as(app.addr, ADA, PASSWORD).await), refused(429, "too_many_sign_ins"));
}

#[tokio::test(flavor = "multi_thread")]
async fn proxied_request_is_not_local() {
    let app = TestApp::start().await;
    let none = ("authorization", "");
    for path in ["/metrics", "/status", "/health/detailed", "/health/%64etailed", "/%68ealth/detailed"] {
        assert!([200, 503].contains(&app.send(Request::get(path).headers(&[none])).await.status), "{path}");
        for header in ["forwarded", "x-forwarded-for", "via"] {
            assert_eq!(
                app.send(Request::get(path).headers(&[none, (header, "x")])).await.status,
                401,
                "{path} {header}"
            );
        }
    }
    assert_eq!(app.send(Request::get("/health").headers(&[none, ("via", "x")])).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_people_and_of_programs_differ() {
    let app = TestApp::start().await;
    app.with_jobs(&["narrow", "plain"]).await;
    app.fixture.sql("UPDATE scheduled_jobs SET overlap_policy = 'allow' WHERE name = 'plain'").await;
    member(&app, ADA, "operator").await;
    let browser = Browser::new(&app, ADA).await;
    let mut expected = Vec::new();
    for job in ["narrow", "plain"] {
        let path = format!("/jobs/{job}/trigger");
        let triggered = browser.change("POST", &path, &json!({})).await;
        assert_eq!(triggered.status, 202);
        expected.push((triggered.json()["run_id"].clone(), "manual"));
        for (program, source) in [("schedctl/0.1.0", "manual"), ("curl/8", "api"), ("not-schedctl/1", "api")]
        {
            let path = format!("/api/v1{path}");
            let request = Request::post(&path);
            let triggered = app.send(request.headers(&[("user-agent", program)])).await;
            assert_eq!(triggered.status, 202);
            expected.push((triggered.json()["run_id"].clone(), source));
        }
    }
    for (run, source) in expected {
        let found = app.get(&format!("/api/v1/runs/{}", run.as_str().unwrap())).await.json();
        assert_eq!(found["triggered_by"], source, "{found}");
    }
    for word in ["manual", "api"] {
        let found = app.get(&format!("/api/v1/runs?triggered_by={word}")).await.json();
        assert_eq!(found["items"].as_array().unwrap().len(), 4, "{word}");
    }
    assert_eq!(app.get("/api/v1/runs?triggered_by=backfill").await.status, 400);
}

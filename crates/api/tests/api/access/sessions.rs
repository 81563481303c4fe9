//! Sign-in with a password: sessions, delays after failures, and protection against cross-site
//! requests.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use test_support::http::Answer;
use test_support::identity::{actor, bearer};
use test_support::wait_for;

use crate::access::permissions::make_key;
use crate::support::{LIMIT, Request, TestApp, pointers, send};

pub(super) const PASSWORD: &str = "correct horse battery staple";
pub(super) const ADA: &str = "ada@example.com";

pub(super) async fn member(app: &TestApp, email: &str, role: &str) {
    let made = app.post("/api/v1/users", &json!({"email": email, "password": PASSWORD})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let path = format!("/api/v1/memberships/{email}");
    let headers = [("content-type", "application/json")];
    let put = app.send(Request::put(&path).headers(&headers).body(&json!({"role": role}).to_string())).await;
    assert_eq!(put.status, 201, "{}", put.body);
}

pub(super) async fn try_from(addr: SocketAddr, from: &str, body: &Value) -> Answer {
    let headers = [
        ("authorization", ""),
        ("content-type", "application/json"),
        ("user-agent", "a browser"),
        ("x-forwarded-for", from),
    ];
    send(addr, Request::post("/api/v1/sessions").headers(&headers).body(&body.to_string())).await
}

pub(super) async fn try_as(addr: SocketAddr, email: &str, password: &str) -> Answer {
    try_from(addr, "192.0.2.1", &json!({"email": email, "password": password})).await
}

pub(super) struct Browser {
    pub(super) addr: SocketAddr,
    pub(super) cookie: String,
    pub(super) csrf: String,
    pub(super) id: String,
}

impl Browser {
    pub(super) async fn new(app: &TestApp, email: &str) -> Self {
        let answer = try_as(app.addr, email, PASSWORD).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        Self::of(app.addr, &answer)
    }

    pub(super) fn of(addr: SocketAddr, answer: &Answer) -> Self {
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let body = answer.json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self { addr, cookie, csrf: text(&body["csrf_token"]), id: text(&body["session"]["id"]) }
    }

    pub(super) async fn send(&self, request: Request<'_>, body: &Value) -> Answer {
        let mut headers =
            vec![("authorization", ""), ("cookie", &*self.cookie), ("content-type", "application/json")];
        headers.extend_from_slice(request.headers);
        let path = format!("/api/v1{}", request.path);
        let body = (!body.is_null()).then(|| body.to_string());
        let request = Request { path: &path, headers: &headers, body: body.as_deref(), ..request };
        send(self.addr, request).await
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path), &Value::Null).await
    }

    pub(super) async fn change(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(
            Request::new(method, path)
                .headers(&[("x-csrf-token", &self.csrf), ("sec-fetch-site", "same-origin")]),
            body,
        )
        .await
    }

    pub(super) async fn is_refused_within_five_seconds(&self) {
        let began = sched_runtime::monotonic_clock::monotonic();
        wait_for("the session is refused", LIMIT, async || match self.get("/me").await.status {
            401 => Ok(()),
            status => Err(status.to_string()),
        })
        .await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}

pub(super) fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

pub(super) fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_sets_a_cookie_that_is_not_stored() {
    let app = TestApp::start().await;
    member(&app, ADA, "operator").await;
    let answer = try_as(app.addr, "ADA@Example.com", PASSWORD).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let cookie = answer.header("set-cookie").unwrap();
    let (token, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=604800");
    let token = token.strip_prefix("__Host-sched_session=").unwrap();
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(!answer.body.contains(token), "{}", answer.body);
    let body = answer.json();
    assert_eq!((&body["me"]["user"], &body["me"]["role"]), (&json!(ADA), &json!("operator")));
    assert_eq!(body["session"]["user_agent"], "a browser");
    assert_eq!(
        (&body["session"]["address"], &body["session"]["is_current"]),
        (&json!("192.0.2.1"), &json!(true))
    );
    let browser = Browser::of(app.addr, &answer);
    let me = browser.get("/me").await.json();
    assert_eq!((&me["actor"], &me["api_key"]), (&json!(format!("{ADA} via session")), &Value::Null));
    assert_eq!(me["permissions"], body["me"]["permissions"]);
    assert_eq!(browser.get("/sessions/current").await.json()["csrf_token"], body["csrf_token"]);
    assert_eq!(browser.get("/memberships").await.status, 403, "an operator does not see members");
    let secret = token.split_once('_').unwrap().1;
    for table in ["sessions", "audit_log", "events"] {
        assert_eq!(
            app.fixture
                .number(&format!("SELECT count(*) FROM {table} t WHERE t::text LIKE '%{secret}%'"))
                .await,
            0
        );
    }
    let noted =
        format!("SELECT count(*) FROM audit_log WHERE action = 'sign_in' AND actor = '{ADA} via session'");
    assert_eq!(app.fixture.number(&noted).await, 1);
    assert_eq!(app.fixture.number("SELECT count(*) FROM users WHERE last_login_at IS NOT NULL").await, 1);
    let as_key =
        app.send(Request::get("/api/v1/me").headers(&[("authorization", &format!("Bearer {token}"))])).await;
    assert_eq!(as_key.status, 401, "{}", as_key.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_sign_in_reveals_nothing() {
    let app = TestApp::start().await;
    member(&app, ADA, "viewer").await;
    member(&app, "gone@example.com", "viewer").await;
    assert_eq!(app.post("/api/v1/users/gone@example.com/deactivate", &json!({})).await.status, 200);
    let no_password = json!({"email": "keys@example.com"});
    assert_eq!(app.post("/api/v1/users", &no_password).await.status, 201);
    let mut seen = Vec::new();
    let (gone, keys, nobody) = ("gone@example.com", "keys@example.com", "nobody@example.com");
    for (email, password) in
        [(ADA, "wrong"), (gone, "wrong"), (gone, PASSWORD), (keys, "wrong"), (nobody, "wrong")]
    {
        let answer = try_as(app.addr, email, password).await;
        assert_eq!(code(&answer), refused(401, "sign_in_failed"), "{email}");
        assert!(answer.header("set-cookie").is_none() && answer.header("www-authenticate").is_some());
        seen.push(answer.json()["detail"].clone());
    }
    assert!(seen.iter().all(|detail| *detail == seen[0]), "{seen:?}");
    // The right password of a deactivated user counts as a failure too.
    for _ in 0..3 {
        assert_eq!(code(&try_as(app.addr, gone, PASSWORD).await), refused(401, "sign_in_failed"));
    }
    assert_eq!(code(&try_as(app.addr, gone, PASSWORD).await), refused(429, "too_many_sign_ins"));
    for (body, pointer) in [
        (json!({"email": "x", "password": "y"}), "/email"),
        (json!({"email": ADA, "password": ""}), "/password"),
        (json!({"email": ADA, "password": 4242}), "/password"),
        (json!({"email": ADA, "password": "a\u{0}b"}), "/password"),
        (json!({"email": ADA, "password": "x", "tenant": "A B"}), "/tenant"),
    ] {
        let answer = try_from(app.addr, "192.0.2.1", &body).await;
        assert_eq!(answer.status, 422, "{}", answer.body);
        assert_eq!(pointers(&answer.json()), [pointer], "{}", answer.body);
        assert!(!answer.body.contains("4242"), "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn member_of_several_tenants_selects_one() {
    let app = TestApp::start().await;
    member(&app, ADA, "viewer").await;
    let acme = app.post("/api/v1/tenants", &json!({"slug": "acme", "owner": ADA})).await;
    assert_eq!(acme.status, 201, "{}", acme.body);
    let with = |password: &str, tenant: Value| json!({"email": ADA, "password": password, "tenant": tenant});
    let sign_in = async |body: Value| try_from(app.addr, "192.0.2.1", &body).await;
    for tenant in [Value::Null, json!("elsewhere")] {
        let asked = sign_in(with(PASSWORD, tenant.clone())).await;
        assert_eq!(
            (asked.status, pointers(&asked.json())),
            (422, vec!["/tenant".to_owned()]),
            "{}",
            asked.body
        );
        assert!(asked.body.contains("acme, default"), "{}", asked.body);
        let wrong = sign_in(with("wrong", tenant)).await;
        assert_eq!(code(&wrong), refused(401, "sign_in_failed"));
        assert!(!wrong.body.contains("acme"), "{}", wrong.body);
    }
    // An attempt is recorded even if it names no tenant, or one without the user.
    wait_for("every attempt is recorded in both tenants", LIMIT, async || {
        let told = "SELECT count(*) FROM audit_log
                    WHERE action IN ('sign_in_failed', 'sign_in_refused') AND after ->> 'email' = 'ada@example.com'";
        match app.fixture.number(told).await {
            8 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    let there = sign_in(with(PASSWORD, json!("acme"))).await.json();
    assert_eq!((&there["me"]["tenant"]["slug"], &there["me"]["role"]), (&json!("acme"), &json!("owner")));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_sign_ins_are_delayed_by_all_processes() {
    let app = TestApp::start().await;
    let twin = app.twin().await;
    member(&app, ADA, "viewer").await;
    member(&app, "bob@example.com", "viewer").await;
    for email in [ADA, "nobody@example.com"] {
        for number in 0..5 {
            let addr = if number % 2 == 0 { app.addr } else { twin.addr };
            assert_eq!(code(&try_as(addr, email, "wrong").await), refused(401, "sign_in_failed"));
        }
        for addr in [app.addr, twin.addr] {
            let held = try_as(addr, email, PASSWORD).await;
            assert_eq!(code(&held), refused(429, "too_many_sign_ins"), "{email}");
            let wait: u32 = held.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=15).contains(&wait), "{wait}");
        }
    }
    // Other accounts and keys are not delayed; the address only after more failures.
    assert_eq!(try_as(app.addr, "bob@example.com", PASSWORD).await.status, 201);
    assert_eq!(app.get("/api/v1/me").await.status, 200);
    wait_for("the failures are in the audit log", LIMIT, async || {
        let noted = "SELECT count(*) FROM audit_log WHERE action = 'sign_in_failed' AND after ->> 'email' = 'ada@example.com'";
        match app.fixture.number(noted).await {
            2 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    app.fixture.sql("UPDATE sign_in_failures SET blocked_until = NULL").await;
    assert_eq!(try_as(twin.addr, ADA, PASSWORD).await.status, 201);
    for _ in 0..4 {
        assert_eq!(code(&try_as(app.addr, ADA, "wrong").await), refused(401, "sign_in_failed"));
    }
    assert_eq!(try_as(app.addr, ADA, PASSWORD).await.status, 201, "they were forgotten with the right one");
    // One address has twenty attempts, for any accounts.
    let from_one = async |number: i32| {
        let body = json!({"email": format!("{number}@example.com"), "password": "wrong"});
        code(&try_from(app.addr, "203.0.113.7", &body).await)
    };
    for number in 0..20 {
        assert_eq!(from_one(number).await, refused(401, "sign_in_failed"));
    }
    assert_eq!(from_one(20).await, refused(429, "too_many_sign_ins"));
}

#[tokio::test(flavor = "multi_thread")]
async fn cookie_needs_same_origin_and_csrf_token() {
    let app = TestApp::start().await;
    member(&app, ADA, "admin").await;
    let (browser, other) = (Browser::new(&app, ADA).await, Browser::new(&app, ADA).await);
    let put = json!({});
    for (more, expected) in [
        (&[][..], refused(403, "csrf")),
        (&[("x-csrf-token", "")], refused(403, "csrf")),
        (&[("x-csrf-token", "wrong")], refused(403, "csrf")),
        (&[("x-csrf-token", &*other.csrf)], refused(403, "csrf")),
        (&[("x-csrf-token", &*browser.csrf), ("origin", "https://evil.example")], refused(403, "cross_site")),
        (&[("x-csrf-token", &*browser.csrf), ("origin", "null")], refused(403, "cross_site")),
        (&[("x-csrf-token", &*browser.csrf), ("sec-fetch-site", "same-site")], refused(403, "cross_site")),
    ] {
        assert_eq!(
            code(&browser.send(Request::put("/queues/q").headers(more), &put).await),
            expected,
            "{more:?}"
        );
    }
    assert_eq!(app.fixture.number("SELECT count(*) FROM queues WHERE name = 'q'").await, 0);
    assert_eq!(browser.change("PUT", "/queues/q", &put).await.status, 201);
    let by = format!(
        "SELECT count(*) FROM audit_log WHERE action = 'create_queue' AND actor = '{ADA} via session'"
    );
    assert_eq!(app.fixture.number(&by).await, 1);
    // Pages of other sites can neither read nor sign in.
    let foreign = [("origin", "https://evil.example")];
    assert_eq!(
        code(&browser.send(Request::get("/me").headers(&foreign), &Value::Null).await),
        refused(403, "cross_site")
    );
    let socket = [
        ("authorization", ""),
        ("cookie", &*browser.cookie),
        ("origin", "https://evil.example"),
        ("upgrade", "websocket"),
    ];
    assert_eq!(
        code(&app.send(Request::get("/ws/events").headers(&socket)).await),
        refused(403, "cross_site")
    );
    let login =
        [("authorization", ""), ("content-type", "application/json"), ("sec-fetch-site", "cross-site")];
    let body = json!({"email": ADA, "password": PASSWORD}).to_string();
    let refused_login = app.send(Request::post("/api/v1/sessions").headers(&login).body(&body)).await;
    assert_eq!(code(&refused_login), refused(403, "cross_site"));
    // A key takes precedence over the cookie.
    let with_key = [("authorization", bearer()), ("cookie", &*browser.cookie)];
    let me = app.send(Request::get("/api/v1/me").headers(&with_key)).await.json();
    assert_eq!(me["actor"], json!(actor()));
    let with_key =
        [("authorization", bearer()), ("cookie", &*browser.cookie), ("content-type", "application/json")];
    assert_eq!(app.send(Request::put("/api/v1/queues/p").headers(&with_key).body("{}")).await.status, 201);
    let with_wrong = [("authorization", "Bearer x"), ("cookie", &*browser.cookie)];
    assert_eq!(app.send(Request::get("/api/v1/me").headers(&with_wrong)).await.status, 401);
    for cookie in ["__Host-sched_session=x".to_owned(), format!("{}; {}", browser.cookie, other.cookie)] {
        let shown = [("authorization", ""), ("cookie", &*cookie)];
        assert_eq!(app.send(Request::get("/api/v1/me").headers(&shown)).await.status, 401, "{cookie}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_expires_and_use_extends_it() {
    let app = TestApp::start().await;
    member(&app, ADA, "viewer").await;
    let browser = Browser::new(&app, ADA).await;
    let earlier =
        "UPDATE sessions SET last_seen_at = now() - interval '2 min', idle_until = now() + interval '1 min'";
    app.fixture.sql(earlier).await;
    assert_eq!(browser.get("/me").await.status, 200);
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM sessions WHERE idle_until > now() + interval '11 h'").await,
        1
    );
    app.fixture.sql("UPDATE sessions SET idle_until = now()").await;
    browser.is_refused_within_five_seconds().await;
    let answer = browser.get("/me").await;
    assert!(answer.body.contains("sign in again"), "{}", answer.body);
    // Signing in removes expired sessions.
    Browser::new(&app, ADA).await;
    assert_eq!(app.fixture.number("SELECT count(*) FROM sessions").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_lists_and_ends_own_sessions() {
    let app = TestApp::start().await;
    let twin = app.twin().await;
    for email in [ADA, "bob@example.com"] {
        member(&app, email, "admin").await;
    }
    let (here, there, bobs) = (
        Browser::new(&app, ADA).await,
        Browser::new(&app, ADA).await,
        Browser::new(&app, "bob@example.com").await,
    );
    let list = here.get("/sessions").await.json();
    let ids: Vec<(&str, bool)> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["is_current"].as_bool().unwrap()))
        .collect();
    assert_eq!(ids, [(&*there.id, false), (&*here.id, true)]);
    let foreign = here.change("DELETE", &format!("/sessions/{}", bobs.id), &Value::Null).await;
    assert_eq!(code(&foreign), refused(404, "not_found"));
    assert_eq!(bobs.get("/me").await.status, 200);
    assert_eq!(there.get("/me").await.status, 200);
    let through_twin = Browser {
        addr: twin.addr,
        cookie: here.cookie.clone(),
        csrf: here.csrf.clone(),
        id: here.id.clone(),
    };
    let ended = through_twin.change("DELETE", &format!("/sessions/{}", there.id), &Value::Null).await;
    assert_eq!((ended.status, ended.header("set-cookie")), (204, None));
    there.is_refused_within_five_seconds().await;
    assert_eq!(
        code(&here.send(Request::delete("/sessions/current"), &Value::Null).await),
        refused(403, "csrf")
    );
    let out = here.change("DELETE", "/sessions/current", &Value::Null).await;
    assert_eq!(out.status, 204);
    let cleared = "__Host-sched_session=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0";
    assert_eq!(out.header("set-cookie"), Some(cleared));
    assert_eq!(here.get("/me").await.status, 401);
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'sign_out'").await, 2);
    assert_eq!(code(&app.get("/api/v1/sessions/current").await), refused(404, "not_found"));
    let spec = json!({"name": "t", "of_tenant": true, "scopes": ["jobs:read"]});
    let (key, _) = make_key(&app, bearer(), &spec).await;
    let none = app.send(Request::get("/api/v1/sessions").headers(&[("authorization", &key)])).await;
    assert_eq!(none.json()["items"], json!([]));
}

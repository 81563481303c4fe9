use serde_json::{Value, json};
use test_support::http::Answer;
use test_support::identity::{OWNER, actor, bearer};
use test_support::wait_for;

use crate::support::{LIMIT, Request, TestApp, function, manual, pointers, send};

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) permission: Option<String>,
    is_open: bool,
}

pub(crate) async fn routes(app: &TestApp) -> Vec<Route> {
    let document = app.get("/api/v1/openapi.json").await.json();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let path = path.strip_prefix("/api/v1").unwrap_or(path).to_owned();
            let permission = operation["x-permission"].as_str().map(str::to_owned);
            let is_open = operation["security"] == json!([]);
            found.push(Route { method: method.to_uppercase(), path, permission, is_open });
        }
    }
    assert!(found.len() > 40, "{} routes", found.len());
    found
}

impl Route {
    async fn send(&self, app: &TestApp, authorization: &str) -> Answer {
        let path = self.path.replace("{id}", &uuid::Uuid::nil().to_string());
        let path =
            path.replace("{email}", "nobody@example.com").replace("{job}", "none").replace("{name}", "none");
        let mut path = format!("/api/v1{}", path.replace("{key}", "none"));
        if path.ends_with("/stream") {
            // Rejected before the endless stream begins.
            path.push_str("?after=none");
        }
        let headers = [("authorization", authorization), ("content-type", "application/json")];
        // A write without a body is rejected after the permission check.
        send(app.addr, Request::new(&self.method, &path).headers(&headers)).await
    }
}

pub(crate) async fn post_as(app: &TestApp, authorization: &str, path: &str, body: &Value) -> Answer {
    let headers = [("authorization", authorization), ("content-type", "application/json")];
    app.send(Request::post(path).headers(&headers).body(&body.to_string())).await
}

pub(crate) async fn get_as(app: &TestApp, authorization: &str, path: &str) -> Answer {
    app.send(Request::get(path).headers(&[("authorization", authorization)])).await
}

/// Creates a user with a role in the tenant, and a key by plain SQL.
pub(crate) async fn member(app: &TestApp, email: &str, tenant: &str, role: &str) -> String {
    use sched_model::domain::identity::{ApiKey, ID_BYTES, SECRET_BYTES};
    use secrecy::ExposeSecret as _;
    let id: [u8; ID_BYTES] = uuid::Uuid::new_v4().as_bytes()[..ID_BYTES].try_into().unwrap();
    let key = ApiKey::new("live", id, [9; SECRET_BYTES]);
    let client = app.fixture.client().await;
    let statement = "WITH owner AS (INSERT INTO users (email, display_name) VALUES ($1, $1) RETURNING id),
        member AS (INSERT INTO memberships (tenant_id, user_id, role)
                   SELECT t.id, u.id, $3 FROM tenants t, owner u WHERE t.slug = $2 RETURNING tenant_id, user_id)
        INSERT INTO api_keys (tenant_id, user_id, name, key_prefix, key_hash)
        SELECT tenant_id, user_id, 'x', $4, $5 FROM member";
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&email, &tenant, &role, &key.prefix(), &&key.hash(None).hash[..]];
    assert_eq!(client.execute(statement, &parameters).await.unwrap(), 1);
    format!("Bearer {}", key.text().expose_secret())
}

pub(crate) async fn make_key(app: &TestApp, authorization: &str, spec: &Value) -> (String, Value) {
    let made = post_as(app, authorization, "/api/v1/api-keys", spec).await;
    assert_eq!(made.status, 201, "{}", made.body);
    (format!("Bearer {}", made.json()["key"].as_str().unwrap()), made.json())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_requires_authentication() {
    let app = TestApp::start().await;
    for route in routes(&app).await.into_iter().filter(|route| !route.is_open) {
        let answer = route.send(&app, "").await;
        assert_eq!((answer.status, &answer.json()["code"]), (401, &json!("unauthenticated")), "{route:?}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"sched\""), "{route:?}");
    }
    for (path, status) in [("/health", 200), ("/health/ready", 200), ("/metrics", 200), ("/nothing", 404)] {
        assert_eq!(
            send(app.addr, Request::get(path).headers(&[("authorization", "")])).await.status,
            status,
            "{path}"
        );
    }
    for path in ["/api/v1/", "/api/v1/nothing", "/%61pi/v1/jobs", "/api/v1/%6aobs"] {
        assert_eq!(
            send(app.addr, Request::get(path).headers(&[("authorization", "")])).await.status,
            401,
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_reach_only_routes_of_their_permissions() {
    let app = TestApp::start().await;
    let mut callers = vec![("system operator", bearer().to_owned())];
    for role in ["viewer", "operator", "admin", "owner"] {
        callers.push((role, member(&app, &format!("{role}@roles.example"), "default", role).await));
    }
    let (of_tenant, _) =
        make_key(&app, bearer(), &json!({"name": "t", "of_tenant": true, "scopes": ["queues:read"]})).await;
    callers.push(("queues:read", of_tenant));
    let routes = routes(&app).await;
    let (mut probes, mut refused) = (0, 0);
    for (caller, key) in &callers {
        let me = get_as(&app, key, "/api/v1/me").await.json();
        let has: Vec<&str> =
            me["permissions"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
        for route in &routes {
            let answer = route.send(&app, key).await;
            probes += 1;
            match &route.permission {
                Some(permission) if !has.contains(&permission.as_str()) => {
                    refused += 1;
                    assert_eq!(answer.status, 403, "{caller} {route:?} {}", answer.body);
                    assert!(
                        answer.json()["detail"].as_str().unwrap().contains(permission),
                        "{}",
                        answer.body
                    );
                }
                _ => {
                    assert!(
                        ![401, 403, 405, 500].contains(&answer.status),
                        "{caller} {route:?} {}",
                        answer.body
                    )
                }
            }
        }
    }
    println!("{} routes, {} callers, {probes} probes, {refused} refused", routes.len(), callers.len());
    assert!(refused > 50 && refused < probes, "{refused} of {probes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn key_works_until_it_is_revoked() {
    let app = TestApp::start().await;
    let (key, made) = make_key(&app, bearer(), &json!({"name": "ci", "scopes": ["jobs:read"]})).await;
    assert_eq!((&made["user"], &made["scopes"]), (&json!(OWNER), &json!(["jobs:read"])));
    assert_eq!((&made["hash_key"], &made["created_by"]), (&json!("test"), &json!(OWNER)));
    assert_eq!(get_as(&app, &key, "/api/v1/jobs").await.status, 200);
    let me = get_as(&app, &key, "/api/v1/me").await.json();
    assert_eq!((&me["api_key"], &me["permissions"]), (&made["prefix"], &json!(["jobs:read"])));
    let list = app.get("/api/v1/api-keys").await;
    let secret = key.get(key.len() - 40..).unwrap();
    assert!(
        list.body.contains(made["prefix"].as_str().unwrap()) && !list.body.contains(secret),
        "{}",
        list.body
    );
    let path = format!("/api/v1/api-keys/{}", made["prefix"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(app.send(Request::delete(&path)).await.status, 204);
    }
    let refused = get_as(&app, &key, "/api/v1/jobs").await;
    assert_eq!(refused.status, 401, "{}", refused.body);
    assert!(refused.body.contains("revoked"), "{}", refused.body);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"sched\", error=\"invalid_token\""));
    let actions = "SELECT count(*) FROM audit_log WHERE target_type = 'api_key' AND actor = ";
    assert_eq!(app.fixture.number(&format!("{actions} '{}'", actor())).await, 2);
    let shown = format!("SELECT count(*) FROM audit_log a WHERE a::text LIKE '%{secret}%'");
    assert_eq!(app.fixture.number(&shown).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_reaches_other_processes_within_five_seconds() {
    let app = TestApp::start().await;
    let (key, _) = make_key(&app, bearer(), &json!({"name": "ci"})).await;
    assert_eq!(get_as(&app, &key, "/api/v1/jobs").await.status, 200);
    let revoke = "UPDATE api_keys SET revoked_at = now() WHERE name = 'ci'";
    app.fixture.sql(revoke).await;
    let began = sched_runtime::monotonic_clock::monotonic();
    wait_for("the key is refused", LIMIT, async || match get_as(&app, &key, "/api/v1/jobs").await.status {
        401 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_credentials_are_refused_with_the_reason() {
    let app = TestApp::start().await;
    let (key, _) = make_key(&app, bearer(), &json!({"name": "ci"})).await;
    let (broken, elsewhere) = (format!("{key}x"), key.replace("sched_live_", "sched_test_"));
    let expired =
        "UPDATE api_keys SET created_at = now() - interval '2 h', expires_at = now() WHERE name = 'ci'";
    app.fixture.sql(expired).await;
    for (shown, part) in [
        ("Bearer hello", "not an API key"),
        ("Basic aGk6aGk=", "must be: Bearer"),
        (&broken, "checksum"),
        (&elsewhere, "checksum"),
        (&key, "expired"),
    ] {
        let answer = get_as(&app, shown, "/api/v1/jobs").await;
        assert_eq!(answer.status, 401, "{shown}: {}", answer.body);
        assert!(answer.json()["detail"].as_str().unwrap().contains(part), "{shown}: {}", answer.body);
        assert!(!answer.body.contains(shown), "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_cannot_exceed_its_creator() {
    let app = TestApp::start().await;
    let admin = member(&app, "admin@example.com", "default", "admin").await;
    let create = |scopes: Value| json!({"name": "x", "scopes": scopes});
    let wide = post_as(&app, &admin, "/api/v1/api-keys", &create(json!(["members:write"]))).await;
    assert_eq!(wide.status, 403, "{}", wide.body);
    assert!(wide.body.contains("members:write"), "{}", wide.body);
    // Keys of a bounded key are bounded too, even without own scopes.
    let bounds = json!({"name": "b", "scopes": ["keys:write", "jobs:read"]});
    let (bounded, _) = make_key(&app, &admin, &bounds).await;
    let (child, _) = make_key(&app, &bounded, &json!({"name": "c"})).await;
    let me = get_as(&app, &child, "/api/v1/me").await.json();
    assert_eq!(me["permissions"], json!(["jobs:read", "keys:write"]));
    for (spec, pointer) in [
        (json!({"name": "x", "of_tenant": true}), "/scopes"),
        (json!({"name": "x", "of_tenant": true, "scopes": ["system:operate"]}), "/scopes/0"),
        (json!({"name": "x", "scopes": ["jobs:read", "jobs:eat"]}), "/scopes/1"),
        (json!({"name": ""}), "/name"),
        (json!({"name": "x", "expires_at": "2020-01-01T00:00:00Z"}), "/expires_at"),
    ] {
        let refused = post_as(&app, bearer(), "/api/v1/api-keys", &spec).await;
        assert_eq!(
            (refused.status, pointers(&refused.json())),
            (422, vec![pointer.to_owned()]),
            "{}",
            refused.body
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_see_only_their_own_keys() {
    let app = TestApp::start().await;
    let viewer = member(&app, "eve@example.com", "default", "viewer").await;
    let other = member(&app, "bob@example.com", "default", "viewer").await;
    let (own, made) = make_key(&app, &viewer, &json!({"name": "laptop"})).await;
    let prefix = made["prefix"].as_str().unwrap().to_owned();
    assert_eq!(get_as(&app, &own, "/api/v1/me").await.json()["role"], "viewer");
    let seen =
        async |by: &str| get_as(&app, by, "/api/v1/api-keys").await.json()["items"].as_array().unwrap().len();
    assert_eq!((seen(&viewer).await, seen(&other).await), (2, 1));
    let revoke = async |by: &str| {
        let headers = [("authorization", by)];
        send(app.addr, Request::delete(&format!("/api/v1/api-keys/{prefix}")).headers(&headers)).await.status
    };
    // A key of the tenant needs another permission; a bounded key cannot act as a person.
    let of_tenant = json!({"name": "bot", "of_tenant": true, "scopes": ["jobs:read"]});
    assert_eq!(post_as(&app, &viewer, "/api/v1/api-keys", &of_tenant).await.status, 403);
    let (bounded, _) = make_key(&app, &viewer, &json!({"name": "narrow", "scopes": ["jobs:read"]})).await;
    assert_eq!(post_as(&app, &bounded, "/api/v1/api-keys", &json!({"name": "x"})).await.status, 403);
    assert_eq!((seen(&bounded).await, revoke(&bounded).await), (0, 404));
    assert_eq!((revoke(&other).await, revoke(&viewer).await), (404, 204));
    assert_eq!(get_as(&app, &own, "/api/v1/me").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_own_keys_is_limited() {
    let app = TestApp::start().await;
    let viewer = member(&app, "eve@example.com", "default", "viewer").await;
    let mut made = Vec::new();
    for n in 1..20 {
        made.push(make_key(&app, &viewer, &json!({"name": format!("k{n}")})).await.1);
    }
    let refused = post_as(&app, &viewer, "/api/v1/api-keys", &json!({"name": "more"})).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (409, &json!("quota_exceeded")),
        "{}",
        refused.body
    );
    let path = format!("/api/v1/api-keys/{}", made[0]["prefix"].as_str().unwrap());
    let headers = [("authorization", viewer.as_str())];
    assert_eq!(send(app.addr, Request::delete(&path).headers(&headers)).await.status, 204);
    make_key(&app, &viewer, &json!({"name": "in its place"})).await;
    for n in 0..25 {
        let answer = app.post("/api/v1/api-keys", &json!({"name": format!("o{n}")})).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_sees_only_its_own_tenant() {
    let app = TestApp::start().await;
    app.with_jobs(&["ours"]).await;
    let made = app.post("/api/v1/tenants", &json!({"slug": "acme"})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let theirs = member(&app, "ann@acme.example", "acme", "owner").await;
    assert_eq!(get_as(&app, &theirs, "/api/v1/me").await.json()["tenant"]["slug"], "acme");
    assert_eq!(get_as(&app, &theirs, "/api/v1/jobs").await.json()["items"], json!([]));
    let id = app.get("/api/v1/jobs/ours").await.json()["id"].clone();
    for name in ["ours", id.as_str().unwrap()] {
        assert_eq!(get_as(&app, &theirs, &format!("/api/v1/jobs/{name}")).await.status, 404);
        let path = format!("/api/v1/jobs/{name}/trigger");
        assert_eq!(post_as(&app, &theirs, &path, &json!({})).await.status, 404);
    }
    let manifest = json!({"task_functions": [function("f")], "jobs": [manual("theirs")]});
    assert_eq!(post_as(&app, &theirs, "/api/v1/apply", &manifest).await.status, 200);
    assert_eq!(app.get("/api/v1/jobs/theirs").await.status, 404);
    let our_key = app.get("/api/v1/api-keys").await.json()["items"][0]["id"].as_str().unwrap().to_owned();
    let revoke = app
        .send(Request::delete(&format!("/api/v1/api-keys/{our_key}")).headers(&[("authorization", &theirs)]))
        .await;
    assert_eq!(revoke.status, 404, "{}", revoke.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_key_need_an_allowed_host() {
    let app = TestApp::start_with(&[("API_ALLOWED_HOSTS", "sched.example")]).await;
    for (host, authorization, status) in [
        ("evil.example", bearer(), 200),
        ("evil.example", "", 421),
        ("sched.example", "", 401),
        ("localhost", "", 401),
    ] {
        let headers = [("host", host), ("authorization", authorization)];
        assert_eq!(
            send(app.addr, Request::get("/api/v1/me").headers(&headers)).await.status,
            status,
            "{host}"
        );
    }
}

//! Tokens of an identity provider, and key rotation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use scripted_http::{Response, Script as _, Server, Step};
use serde_json::{Value, json};
use test_support::http::Answer;
use test_support::identity::OWNER;
use test_support::wait_for;

use crate::support::{LIMIT, Request, TestApp};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn claims(changes: &Value) -> Value {
    let mut claims = json!({"iss": "https://idp.example", "aud": "sched", "nbf": 0, "exp": 4_000_000_000_u32, "email": OWNER});
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn with_secret(changes: &Value) -> String {
    let message = format!("{}.{}", encoded(&json!({"alg": "HS256"})), encoded(&claims(changes)));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET);
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, message.as_bytes())))
}

async fn me(app: &TestApp, token: &str) -> Answer {
    app.send(Request::get("/api/v1/me").headers(&[("authorization", &format!("Bearer {token}"))])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn token_has_the_permissions_of_its_member() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, SECRET).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let app = TestApp::start_with(&[
        ("JWT_ISSUER", "https://idp.example"),
        ("JWT_AUDIENCE", "sched"),
        ("JWT_ALGORITHM", "HS256"),
        ("JWT_SECRET_FILE", file.to_str().unwrap()),
    ])
    .await;
    let seen = me(&app, &with_secret(&json!({}))).await;
    assert_eq!(seen.status, 200, "{}", seen.body);
    let seen = seen.json();
    assert_eq!((&seen["role"], &seen["tenant"]["slug"]), (&json!("owner"), &json!("default")));
    assert_eq!((&seen["api_key"], &seen["actor"]), (&Value::Null, &json!(format!("{OWNER} via token"))));
    // A key outlives a token, so its creation with a token requires `keys:write`.
    let make = async |changes: Value| {
        let token = format!("Bearer {}", with_secret(&changes));
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        app.send(Request::post("/api/v1/api-keys").headers(&headers).body(r#"{"name": "k"}"#)).await.status
    };
    app.fixture
        .sql(
            "INSERT INTO users (email, display_name) VALUES ('eve@example.com', 'Eve');
             INSERT INTO memberships (tenant_id, user_id, role) SELECT t.id, u.id, 'viewer'
             FROM tenants t, users u WHERE t.slug = 'default' AND u.email = 'eve@example.com'",
        )
        .await;
    assert_eq!((make(json!({"email": "eve@example.com"})).await, make(json!({})).await), (403, 201));
    let bounded = me(&app, &with_secret(&json!({"sched_scope": "jobs:read"}))).await;
    assert_eq!(bounded.json()["permissions"], json!(["jobs:read"]));
    for (changes, part) in [
        (json!({"email": "nobody@example.com"}), "not an active member"),
        (json!({"email": "a\u{0}b"}), "not an active member"),
        (json!({"tenant": "acme"}), "not an active member"),
        (json!({"exp": 1_000_000_000}), "expired"),
        (json!({"aud": "another"}), "aud"),
    ] {
        let refused = me(&app, &with_secret(&changes)).await;
        assert_eq!(refused.status, 401, "{changes}: {}", refused.body);
        assert!(refused.json()["detail"].as_str().unwrap().contains(part), "{changes}: {}", refused.body);
    }
    let none = format!("{}.{}.", encoded(&json!({"alg": "none"})), encoded(&claims(&json!({}))));
    assert_eq!(me(&app, &none).await.status, 401);
    assert_eq!(app.get("/api/v1/me").await.status, 200, "keys work as before");
}

struct Issuer {
    set: Arc<Mutex<Value>>,
    hangs: Arc<AtomicBool>,
    server: Server,
}

impl Issuer {
    fn start() -> Self {
        let set = Arc::new(Mutex::new(json!({"keys": []})));
        let hangs = Arc::new(AtomicBool::new(false));
        let (published, is_hanging) = (set.clone(), hangs.clone());
        let server = Server::start(move |request: &scripted_http::Request| {
            if is_hanging.load(Ordering::SeqCst) {
                // The client's time limit ends it.
                return vec![Step::Hang];
            }
            Response::new(200).body(published.lock().unwrap().to_string()).steps(request)
        });
        Self { set, hangs, server }
    }

    fn url(&self) -> String {
        self.server.url("/jwks.json")
    }

    fn requests(&self) -> usize {
        self.server.requests().len()
    }

    fn rotate(&self, id: &str) -> String {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        *self.set.lock().unwrap() = json!({"keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "kid": id,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }]});
        let message =
            format!("{}.{}", encoded(&json!({"alg": "ES256", "kid": id})), encoded(&claims(&json!({}))));
        let signature = pair.sign(&random, message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_key_id_reloads_the_key_set() {
    let issuer = Issuer::start();
    let app = TestApp::start_with(&[
        ("JWT_ISSUER", "https://idp.example"),
        ("JWT_AUDIENCE", "sched"),
        ("JWT_ALGORITHM", "ES256"),
        ("JWT_JWKS_URL", &issuer.url()),
    ])
    .await;
    let first = issuer.rotate("one");
    for _ in 0..5 {
        let seen = me(&app, &first).await;
        assert_eq!(seen.status, 200, "{}", seen.body);
    }
    assert_eq!(issuer.requests(), 1);
    let second = issuer.rotate("two");
    // For any number of unknown tokens, the API requests the keys once per ten seconds.
    wait_for("the new key is taken", LIMIT, async || match me(&app, &second).await.status {
        200 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
    assert_eq!(issuer.requests(), 2);
    wait_for("the old key is forgotten", LIMIT, async || match me(&app, &first).await.status {
        401 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_issuer_does_not_delay_known_keys() {
    let issuer = Issuer::start();
    let app = TestApp::start_with(&[
        ("JWT_ISSUER", "https://idp.example"),
        ("JWT_AUDIENCE", "sched"),
        ("JWT_ALGORITHM", "ES256"),
        ("JWT_JWKS_URL", &issuer.url()),
    ])
    .await;
    let known = issuer.rotate("one");
    assert_eq!(me(&app, &known).await.status, 200);
    issuer.hangs.store(true, Ordering::SeqCst);
    let unknown = issuer.rotate("two");
    let asking = async {
        wait_for("the issuer receives the request", LIMIT, async || {
            assert_eq!(me(&app, &unknown).await.status, 401);
            if issuer.requests() == 2 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
    };
    let others = async {
        wait_for("the issuer receives the request", LIMIT, async || {
            if issuer.requests() == 2 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        // Longer than the token's cache time if the API waited for the issuer's five seconds.
        let began = sched_runtime::monotonic_clock::monotonic();
        assert_eq!(me(&app, &known).await.status, 200);
        assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
    };
    tokio::join!(asking, others);
}

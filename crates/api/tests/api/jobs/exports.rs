//! An export applies to its own installation without a change, and to an empty one with everything
//! but the values of secrets.

use serde_json::{Value, json};

use crate::access::permissions::{get_as, member};
use crate::support::{Request, TestApp, function};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

async fn set_secret(app: &TestApp, name: &str) {
    let path = format!("/api/v1/secrets/{name}");
    let set = app.send(Request::put(&path).headers(&JSON).body(r#"{"value": "canary"}"#)).await;
    assert_eq!(set.status, 201, "{}", set.body);
}

fn mailer() -> Value {
    let mut mailer = function("mail");
    mailer["handler_config"]["env"] = json!({
        "PGDATABASE": "sched", "API_URL": "https://example.com/v1", "SMTP_PASSWORD": "canary",
        "CALLBACK": "https://ada:canary@example.com/", "TOKEN": {"secret": "token"},
    });
    mailer
}

/// An installation with a function of each kind, and the export of it.
async fn exported() -> (TestApp, Value) {
    let app = TestApp::start().await;
    set_secret(&app, "token").await;
    set_secret(&app, "chat-url").await;
    let hook = json!({
        "name": "hook", "handler_type": "http",
        "handler_config": {
            "url": "https://example.com/", "headers": {"X-Source": "sched", "Authorization": "Basic canary"},
            "sign": {"secrets": ["whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5"]},
        },
    });
    let manifest = json!({
        "projects": [{"name": "billing", "display_name": "Billing"}],
        "queues": [{"name": "slow", "max_running": 2}],
        "task_functions": [mailer(), hook],
        "jobs": [{"name": "j", "function": "mail", "job_type": "manual", "project": "billing", "queue": "slow"}],
        "notification_channels": [{"name": "ops", "kind": "chat", "secret": "chat-url"}],
        "notification_rules": [{"name": "bad", "channel": "ops", "on": ["failure"], "project": "billing"}],
    });
    app.apply(&manifest).await;
    let exported = app.get("/api/v1/export").await;
    assert!(!exported.body.contains("canary") && !exported.body.contains("whsec"), "{}", exported.body);
    (app, exported.json())
}

#[tokio::test(flavor = "multi_thread")]
async fn export_shows_plain_values_and_hides_secrets() {
    let (_app, exported) = exported().await;
    let [hook, mail] = exported["task_functions"].as_array().unwrap().as_slice() else {
        panic!("{exported}")
    };
    assert_eq!(
        mail["handler_config"]["env"],
        json!({
            "PGDATABASE": "sched", "API_URL": "https://example.com/v1", "SMTP_PASSWORD": "(hidden)", "CALLBACK": "(hidden)",
            "TOKEN": {"secret": "token"},
        })
    );
    let config = &hook["handler_config"];
    assert_eq!(config["headers"], json!({"X-Source": "sched", "Authorization": "(hidden)"}));
    assert_eq!(config["sign"]["secrets"], json!(["(hidden)"]));
    assert_eq!(exported["secrets"], json!([{"name": "chat-url"}, {"name": "token"}]));
    assert_eq!(exported["projects"], json!([{"name": "billing", "display_name": "Billing"}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn export_changes_nothing_on_its_own_installation() {
    let (app, exported) = exported().await;
    let state = "SELECT (SELECT count(*) FROM audit_log) * 1000 + (SELECT count(*) FROM events)";
    let before = app.fixture.number(state).await;
    for path in ["/api/v1/apply?dry_run=true", "/api/v1/apply"] {
        let applied = app.post(path, &exported).await;
        assert_eq!(applied.status, 200, "{}", applied.body);
        let results = applied.json()["results"].as_array().unwrap().clone();
        assert!(results.iter().all(|one| one["change"] == "unchanged"), "{results:?}");
        assert!(applied.json().get("missing_secrets").is_none(), "{}", applied.body);
    }
    assert_eq!(app.fixture.number(state).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn export_creates_everything_but_secrets_on_an_empty_installation() {
    let (source, exported) = exported().await;
    let app = TestApp::start().await;
    let applied = app.post("/api/v1/apply", &exported).await;
    assert_eq!(applied.status, 200, "{}", applied.body);
    let results = applied.json()["results"].as_array().unwrap().clone();
    assert!(results.len() == 7 && results.iter().all(|one| one["change"] == "created"), "{results:?}");
    let missing = [
        "chat-url",
        "hook.authorization",
        "hook.sign-secrets-0",
        "mail.callback",
        "mail.smtp_password",
        "token",
    ];
    assert_eq!(applied.json()["missing_secrets"], json!(missing));
    let mail = app.get("/api/v1/functions/mail").await.json();
    let env = &mail["handler_config"]["env"];
    assert_eq!(env["PGDATABASE"], "sched");
    assert_eq!(env["SMTP_PASSWORD"], json!({"secret": "mail.smtp_password"}));
    assert_eq!(app.get("/api/v1/jobs/j").await.json()["project"], "billing");

    // Again with all secrets: the names stay, and nothing is missing.
    for name in missing {
        set_secret(&app, name).await;
    }
    let again = app.post("/api/v1/apply", &exported).await;
    assert_eq!(again.status, 200, "{}", again.body);
    let results = again.json()["results"].as_array().unwrap().clone();
    assert!(results.iter().all(|one| one["change"] == "unchanged"), "{results:?}");
    assert!(again.json().get("missing_secrets").is_none(), "{}", again.body);
    drop(source);
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_missing_secret_and_reserved_variable_are_refused() {
    let app = TestApp::start().await;
    let mut reserved = function("f");
    reserved["handler_config"]["env"] = json!({"PATH": "(hidden)"});
    let manifest = json!({"task_functions": [mailer(), reserved], "secrets": [{"name": "other"}]});
    let refused = app.post("/api/v1/apply", &manifest).await;
    let mut pointers = crate::support::pointers(&refused.json());
    pointers.sort();
    let at = |index: usize, name: &str| format!("/task_functions/{index}/handler_config/env/{name}");
    assert_eq!((refused.status, pointers), (422, vec![at(0, "TOKEN"), at(1, "PATH")]), "{}", refused.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_one_of_several_signing_secrets_is_refused() {
    let app = TestApp::start().await;
    let signed = |secrets: &[&str]| {
        json!({"task_functions": [{
            "name": "hook", "handler_type": "http",
            "handler_config": {"url": "https://example.com/", "sign": {"secrets": secrets}},
        }]})
    };
    let (one, other) = ("whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5", "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ6");
    app.apply(&signed(&[one, other])).await;
    assert_eq!(app.apply(&signed(&["(hidden)", "(hidden)"])).await, ["task_function hook unchanged"]);
    let refused = app.post("/api/v1/apply", &signed(&["(hidden)"])).await;
    let pointers = crate::support::pointers(&refused.json());
    assert_eq!(
        (refused.status, pointers),
        (422, vec!["/task_functions/0/handler_config/sign/secrets/0".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_without_write_permission_see_no_values() {
    let (app, _) = exported().await;
    let mut changed = mailer();
    changed["handler_config"]["env"]["PGDATABASE"] = json!("other");
    let dry = app.post("/api/v1/apply?dry_run=true", &json!({"task_functions": [changed.clone()]})).await;
    assert_eq!(
        dry.json()["results"][0]["changes"],
        json!([{"pointer": "/handler_config/env/PGDATABASE", "before": "sched", "after": "other"}])
    );
    app.apply(&json!({"task_functions": [changed]})).await;
    let viewer = member(&app, "viewer@example.com", "default", "viewer").await;
    let operator = member(&app, "operator@example.com", "default", "operator").await;
    for path in ["/api/v1/functions", "/api/v1/functions/mail", "/api/v1/export"] {
        let shown = get_as(&app, &viewer, path).await;
        assert_eq!(shown.status, 200, "{path}");
        assert!(
            !shown.body.contains("example.com/v1") && shown.body.contains("API_URL"),
            "{path} {}",
            shown.body
        );
        assert!(app.get(path).await.body.contains("example.com/v1"), "{path}");
    }
    let headers = [("authorization", operator.as_str()), JSON[0]];
    let paused = app.send(Request::post("/api/v1/functions/mail/pause").headers(&headers).body("{}")).await;
    assert_eq!(paused.status, 200, "{}", paused.body);
    assert!(!paused.body.contains("example.com/v1"), "{}", paused.body);
    // The scope of a key narrows it too.
    let spec = json!({"name": "auditor", "of_tenant": true, "scopes": ["audit:read"]});
    let (auditor, _) =
        crate::access::permissions::make_key(&app, test_support::identity::bearer(), &spec).await;
    let entries = "/api/v1/audit-events?target_type=task_function";
    let (own, narrow) = (app.get(entries).await.body, get_as(&app, &auditor, entries).await.body);
    assert!(own.contains("\"PGDATABASE\":\"other\"") && !own.contains("canary"), "{own}");
    assert!(narrow.contains("\"PGDATABASE\":\"(hidden)\"") && !narrow.contains("\"other\""), "{narrow}");
}

use serde_json::{Value, json};

use crate::support::{Request, TestApp, function, manual, pointers};

const CHANNEL: &str = "/api/v1/notification-channels/ops";
const RULE: &str = "/api/v1/notification-rules/bad";

fn channel() -> Value {
    json!({"kind": "webhook", "url": "https://hooks.example.com/sched?x=1", "description": "The ones on call."})
}

async fn put(
    app: &TestApp,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> test_support::http::Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    app.send(Request::put(path).headers(&all).body(&body.to_string())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_and_rules_are_created_changed_and_deleted() {
    let app = TestApp::start().await;
    app.with_jobs(&["nightly"]).await;
    let made = put(&app, CHANNEL, &[("if-none-match", "*")], &channel()).await;
    assert_eq!(
        (made.status, made.header("location"), made.header("etag")),
        (201, Some(CHANNEL), Some("\"1\""))
    );
    assert_eq!((&made.json()["is_active"], &made.json()["addresses"]), (&json!(true), &json!([])));
    let again = put(&app, CHANNEL, &[], &channel()).await;
    assert_eq!((again.status, again.header("etag")), (200, Some("\"1\"")), "nothing was written");
    let mail = json!({"kind": "email", "addresses": ["ops@example.com"], "is_active": false});
    let changed = put(&app, CHANNEL, &[("if-match", "\"1\"")], &mail).await;
    assert_eq!((changed.status, changed.header("etag")), (200, Some("\"2\"")), "{}", changed.body);
    assert_eq!((&changed.json()["url"], &changed.json()["is_active"]), (&Value::Null, &json!(false)));
    assert_eq!(put(&app, CHANNEL, &[("if-match", "\"1\"")], &mail).await.status, 412);
    assert_eq!(app.get(CHANNEL).await.json(), changed.json());
    assert_eq!(app.get("/api/v1/notification-channels").await.json()["items"], json!([changed.json()]));

    let rule = json!({"channel": "ops", "on": ["recovery", "failure", "failure"], "job": "nightly", "min_interval_seconds": 60});
    let made = put(&app, RULE, &[], &rule).await;
    assert_eq!((made.status, made.header("location"), made.header("etag")), (201, Some(RULE), Some("\"1\"")));
    let shown = made.json();
    assert_eq!((&shown["on"], &shown["job"]), (&json!(["failure", "recovery"]), &json!("nightly")));
    assert_eq!(put(&app, RULE, &[], &rule).await.header("etag"), Some("\"1\""));
    let wide = json!({"channel": "ops", "on": ["failure"]});
    let changed = put(&app, RULE, &[("if-match", "\"1\"")], &wide).await;
    assert_eq!((changed.status, &changed.json()["job"]), (200, &Value::Null), "{}", changed.body);
    assert_eq!(app.get(RULE).await.json(), changed.json());
    assert_eq!(app.get("/api/v1/notification-rules").await.json()["items"], json!([changed.json()]));

    let used = app.send(Request::delete(CHANNEL)).await;
    assert_eq!((used.status, &used.json()["code"]), (409, &json!("in_use")));
    assert_eq!(app.send(Request::delete(RULE).headers(&[("if-match", "\"1\"")])).await.status, 412);
    assert_eq!(app.send(Request::delete(RULE)).await.status, 204);
    assert_eq!(app.send(Request::delete(CHANNEL)).await.status, 204);
    for path in [RULE, CHANNEL] {
        assert_eq!(app.send(Request::delete(path)).await.status, 404);
        assert_eq!(app.get(path).await.status, 404);
    }
    let audited = "SELECT count(*) FROM audit_log WHERE target_type LIKE 'notification_%'";
    assert_eq!(app.fixture.number(audited).await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn activated_rule_notifies_later_events_only() {
    let app = TestApp::start().await;
    put(&app, CHANNEL, &[], &channel()).await;
    let rule = |is_active: bool| json!({"channel": "ops", "on": ["missed"], "is_active": is_active});
    put(&app, RULE, &[], &rule(true)).await;
    let since =
        "SELECT count(*) FROM notification_rules WHERE active_since > created_at + interval '1 microsecond'";
    put(&app, RULE, &[], &rule(false)).await;
    assert_eq!(app.fixture.number(since).await, 0);
    put(&app, RULE, &[], &rule(true)).await;
    assert_eq!(app.fixture.number(since).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_rules_are_refused_with_fields() {
    let app = TestApp::start().await;
    for (body, expected) in [
        (json!({"kind": "webhook"}), vec!["/url"]),
        (json!({"kind": "webhook", "url": "https://user:word@example.com/"}), vec!["/url"]),
        (json!({"kind": "webhook", "url": "file:///etc/passwd"}), vec!["/url"]),
        (json!({"kind": "webhook", "url": "https://example.com/", "secret": "nothing"}), vec!["/secret"]),
        (json!({"kind": "chat", "url": "https://example.com/"}), vec!["/secret", "/url"]),
        (json!({"kind": "email", "addresses": ["a@example.com\r\nBcc: b@example.com"]}), vec!["/addresses"]),
        (json!({"kind": "pigeon"}), vec!["/kind"]),
        (json!({"kind": "email", "addresses": ["a@example.com"], "colour": "red"}), vec!["/colour"]),
    ] {
        let refused = put(&app, CHANNEL, &[], &body).await;
        assert_eq!(
            (refused.status, pointers(&refused.json())),
            (422, expected.iter().map(|&p| p.to_owned()).collect()),
            "{body}"
        );
    }
    put(&app, CHANNEL, &[], &channel()).await;
    for (body, expected) in [
        (
            json!({"channel": "nobody", "on": ["failure"], "job": "none", "project": "none"}),
            vec!["/channel", "/job", "/project"],
        ),
        (json!({"channel": "ops", "on": []}), vec!["/on"]),
        (json!({"channel": "ops", "on": ["success"]}), vec!["/on/0"]),
        (
            json!({"channel": "ops", "on": ["failure"], "min_interval_seconds": -1}),
            vec!["/min_interval_seconds"],
        ),
        (json!({"channel": "ops", "on": ["failure"], "job": "a\u{0}b"}), vec!["/job"]),
    ] {
        let refused = put(&app, RULE, &[], &body).await;
        assert_eq!(
            (refused.status, pointers(&refused.json())),
            (422, expected.iter().map(|&p| p.to_owned()).collect()),
            "{body}"
        );
    }
    assert_eq!(app.fixture.number("SELECT count(*) FROM notification_rules").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn test_delivery_waits_and_deliveries_are_filtered() {
    let app = TestApp::start().await;
    assert_eq!(app.post(&format!("{CHANNEL}/test"), &json!({})).await.status, 404);
    put(&app, CHANNEL, &[], &channel()).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let asked = app.post(&format!("{CHANNEL}/test"), &json!({})).await;
        assert_eq!(asked.status, 202, "{}", asked.body);
        let asked = asked.json();
        assert_eq!((&asked["kind"], &asked["status"]), (&json!("test"), &json!("waiting")));
        assert_eq!((&asked["body"]["channel"], &asked["body"]["tenant"]), (&json!("ops"), &json!("default")));
        let one = format!("/api/v1/notification-deliveries/{}", asked["id"].as_str().unwrap());
        assert_eq!(app.get(&one).await.json(), asked);
        ids.push(asked["id"].as_str().unwrap().to_owned());
    }
    ids.sort();
    ids.reverse();
    let listed = async |query: &str| {
        let page = app.get(&format!("/api/v1/notification-deliveries{query}")).await.json();
        let items: Vec<String> = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect();
        (items, page["next_cursor"].as_str().map(str::to_owned))
    };
    let (first, cursor) = listed("?limit=2&status=waiting&channel=ops").await;
    let (rest, end) =
        listed(&format!("?limit=2&status=waiting&channel=ops&cursor={}", cursor.unwrap())).await;
    assert_eq!(([first, rest].concat(), end), (ids, None));
    for none in ["?status=sent", "?channel=other", "?rule=bad"] {
        assert_eq!(listed(none).await.0, Vec::<String>::new(), "{none}");
    }
    for wrong in ["?status=lost", "?channel=a%00b", "?cursor=x"] {
        assert_eq!(app.get(&format!("/api/v1/notification-deliveries{wrong}")).await.status, 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_contains_channels_and_rules() {
    let app = TestApp::start().await;
    let manifest = |seconds| {
        json!({
            "task_functions": [function("f")],
            "jobs": [manual("nightly")],
            "notification_channels": [
                {"name": "ops", "kind": "webhook", "url": "https://hooks.example.com/sched"},
                {"name": "mail", "kind": "email", "addresses": ["ops@example.com"]},
            ],
            "notification_rules": [
                {"name": "bad", "channel": "ops", "on": ["failure"], "job": "nightly", "project": "default", "min_interval_seconds": seconds},
            ],
        })
    };
    let first = app.apply(&manifest(0)).await;
    assert_eq!(
        first[1..],
        [
            "job nightly created",
            "notification_channel ops created",
            "notification_channel mail created",
            "notification_rule bad created"
        ]
    );
    let again = app.apply(&manifest(0)).await;
    assert!(again.iter().all(|line| line.ends_with(" unchanged")), "{again:?}");
    assert_eq!(app.apply(&manifest(60)).await[4], "notification_rule bad updated");
    let shown = app.get(RULE).await.json();
    assert_eq!(
        (&shown["job"], &shown["min_interval_seconds"], &shown["version"]),
        (&json!("nightly"), &json!(60), &json!(2))
    );
    let told = "SELECT count(*) FROM audit_log WHERE action IN
                ('create_notification_channel', 'create_notification_rule', 'update_notification_rule')";
    assert_eq!(app.fixture.number(told).await, 4);

    let wrong = json!({
        "jobs": [{"name": "weekly", "function": "f", "job_type": "manual"}],
        "notification_channels": [
            {"name": "chat", "kind": "chat", "secret": "nobody-set-it"},
            {"name": "web", "kind": "webhook", "url": "ftp://example.com"},
        ],
        "notification_rules": [
            {"name": "a", "channel": "chat", "on": ["failure"], "job": "weekly"},
            {"name": "b", "channel": "nowhere", "on": ["failure"], "job": "yearly", "project": "none"},
            {"name": "c", "channel": "ops", "on": []},
        ],
    });
    let refused = app.post("/api/v1/apply", &wrong).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    let found = pointers(&refused.json());
    let rule = "/notification_rules";
    assert_eq!(
        found,
        [
            "/notification_channels/0/secret".to_owned(),
            "/notification_channels/1/url".to_owned(),
            format!("{rule}/1/channel"),
            format!("{rule}/1/job"),
            format!("{rule}/1/project"),
            format!("{rule}/2/on"),
        ]
    );
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_jobs WHERE name = 'weekly'").await, 0);

    let crowd: Vec<Value> = (0..99)
        .map(|n| json!({"name": format!("c{n}"), "kind": "email", "addresses": ["a@example.com"]}))
        .collect();
    let refused = app.post("/api/v1/apply", &json!({"notification_channels": crowd})).await;
    assert_eq!((refused.status, pointers(&refused.json())), (422, vec!["/notification_channels".to_owned()]));
    assert_eq!(app.apply(&json!({"notification_channels": crowd[1..]})).await.len(), 98);
}

use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{Request, TestApp, function, manual, pointers};

async fn send(app: &TestApp, request: Request<'_>, header: Option<(&str, &str)>, body: &Value) -> Answer {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(header);
    let (path, body) = (format!("/api/v1/jobs/{}", request.path), body.to_string());
    app.send(Request { path: &path, headers: &headers, body: Some(&body), ..request }).await
}

fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn put_job_honours_if_match() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let body = json!({"function": "f", "job_type": "manual"});
    let absent = Some(("if-none-match", "*"));
    let missing = send(&app, Request::put("a"), Some(("if-match", "\"1\"")), &body).await;
    assert_eq!(code(&missing), (412, "precondition_failed".into()));
    let made = send(&app, Request::put("a"), absent, &body).await;
    assert_eq!((made.status, made.header("etag")), (201, Some("\"1\"")), "{}", made.body);
    let location = made.header("location").unwrap().to_owned();
    assert_eq!(app.get(&location).await.json(), made.json());
    assert_eq!(
        code(&send(&app, Request::put("a"), absent, &body).await),
        (412, "precondition_failed".into())
    );
    let same = send(&app, Request::put("a"), None, &body).await;
    assert_eq!((same.status, same.header("etag")), (200, Some("\"1\"")), "nothing was changed");
    let changed = json!({"name": "a", "function": "f", "job_type": "manual", "priority": 7});
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let put = send(&app, Request::put(&id), Some(("if-match", "\"1\"")), &changed).await;
    assert_eq!((put.status, put.header("etag"), &put.json()["priority"]), (200, Some("\"2\""), &json!(7)));
    let late = send(&app, Request::put("a"), Some(("if-match", "\"1\"")), &body).await;
    assert_eq!(code(&late), (412, "version_mismatch".into()));
    let renamed = send(&app, Request::put("a"), None, &manual("b")).await;
    assert_eq!((renamed.status, pointers(&renamed.json())), (422, vec!["/name".to_owned()]));
    let nowhere = send(&app, Request::put("00000000-0000-4000-8000-000000000000"), None, &body).await;
    assert_eq!(code(&nowhere), (404, "not_found".into()));
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_job_versions").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn merge_patch_keeps_other_settings() {
    let app = TestApp::start().await;
    let job = json!({"name": "a", "function": "f", "job_type": "cron", "schedule_config": {"expression": "@daily"},
        "timezone": "Europe/Berlin", "priority": 9, "task_args": {"x": 1, "y": 2}, "retry_policy": {"max_attempts": 3}});
    app.apply(&json!({"task_functions": [function("f")], "jobs": [job]})).await;
    let patch = json!({"priority": null, "task_args": {"x": null, "z": 3}, "schedule_config": {"expression": "@hourly"}});
    let headers = [("content-type", "application/merge-patch+json")];
    let patched = app.send(Request::patch("/api/v1/jobs/a").headers(&headers).body(&patch.to_string())).await;
    assert_eq!((patched.status, patched.header("etag")), (200, Some("\"2\"")), "{}", patched.body);
    let after = patched.json();
    assert_eq!((&after["priority"], &after["task_args"]), (&Value::Null, &json!({"y": 2, "z": 3})));
    assert_eq!(
        (&after["timezone"], &after["retry_policy"]["max_attempts"]),
        (&json!("Europe/Berlin"), &json!(3))
    );
    for (patch, pointer) in [
        (json!({"schedule_config": {"expression": "61 * * * *"}}), "/schedule_config/expression"),
        (json!({"function": null}), "/function"),
        (json!({"colour": 1}), "/colour"),
        (json!({"name": "b"}), "/name"),
        (json!([]), ""),
    ] {
        let refused = send(&app, Request::patch("a"), None, &patch).await;
        assert_eq!((refused.status, pointers(&refused.json())), (422, vec![pointer.to_owned()]), "{patch}");
    }
    assert_eq!(
        code(&send(&app, Request::patch("nobody"), None, &json!({})).await),
        (404, "not_found".into())
    );
    let late = send(&app, Request::patch("a"), Some(("if-match", "\"1\"")), &json!({"priority": 1})).await;
    assert_eq!(code(&late), (412, "version_mismatch".into()));
    assert_eq!(app.fixture.number("SELECT count(*) FROM events WHERE event_type = 'job_updated'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_has_its_author_and_can_be_restored() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    send(&app, Request::patch("a"), None, &json!({"priority": 7, "description": "why"})).await;
    send(&app, Request::post("a/pause"), None, &json!({"reason": "disk"})).await;
    let page = app.get("/api/v1/jobs/a/versions?limit=2").await.json();
    let versions = page["items"].as_array().unwrap();
    assert_eq!((&versions[0]["change"], &versions[0]["pause_reason"]), (&json!("paused"), &json!("disk")));
    assert_eq!(versions[0]["changes"], json!([]));
    let changes = json!([{"pointer": "/description", "after": "why"}, {"pointer": "/priority", "after": 7}]);
    assert_eq!((&versions[1]["version"], &versions[1]["changes"]), (&json!(2), &changes));
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = app.get(&format!("/api/v1/jobs/a/versions?cursor={cursor}")).await.json();
    assert_eq!(
        (rest["items"][0]["change"].as_str(), rest["items"].as_array().unwrap().len()),
        (Some("created"), 1)
    );
    assert_eq!(app.get("/api/v1/jobs/a/versions/2").await.json(), versions[1]);
    assert_eq!(app.get("/api/v1/jobs/a/versions/9").await.status, 404);
    let back =
        send(&app, Request::post("a/rollback"), Some(("if-match", "\"3\"")), &json!({"version": 1})).await;
    assert_eq!((back.status, back.header("etag")), (200, Some("\"4\"")), "{}", back.body);
    assert_eq!((&back.json()["priority"], &back.json()["is_paused"]), (&Value::Null, &json!(true)));
    assert_eq!(app.get("/api/v1/jobs/a/versions/4").await.json()["change"], "rolled_back");
    let unknown = send(&app, Request::post("a/rollback"), None, &json!({"version": 9})).await;
    assert_eq!((unknown.status, pointers(&unknown.json())), (422, vec!["/version".to_owned()]));
    let audited = "SELECT count(*) FROM audit_log WHERE action = 'rollback_job' AND before->>'priority' = '7' AND after->>'priority' IS NULL";
    assert_eq!(app.fixture.number(audited).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_job_frees_its_name_and_can_be_restored() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    app.post("/api/v1/jobs/a/trigger", &json!({})).await;
    let late = app.send(Request::delete("/api/v1/jobs/a").headers(&[("if-match", "\"9\"")])).await;
    assert_eq!(code(&late), (412, "version_mismatch".into()));
    let gone = app.send(Request::delete("/api/v1/jobs/a")).await;
    assert_eq!(
        (gone.status, gone.header("etag"), &gone.json()["cancelled"]),
        (200, Some("\"2\""), &json!(1))
    );
    let id = gone.json()["job_id"].as_str().unwrap().to_owned();
    for (method, path) in [
        ("GET", "a"),
        ("DELETE", "a"),
        ("POST", "a/pause"),
        ("POST", "a/trigger"),
        ("POST", &format!("{id}/trigger")),
    ] {
        let answer = app.send(Request::new(method, &format!("/api/v1/jobs/{path}"))).await;
        assert_eq!(code(&answer), (404, "not_found".into()), "{method} {path}");
    }
    let shown = app.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&shown["status"], shown["deleted_at"].is_string()), (&json!("deleted"), true));
    assert_eq!(app.get("/api/v1/jobs").await.json()["items"], json!([]));
    assert_eq!(app.get("/api/v1/jobs?include=deleted").await.json()["items"][0]["id"], json!(id));
    assert_eq!(app.get(&format!("/api/v1/jobs/{id}/runs?total=true")).await.json()["total"], 1);
    app.with_jobs(&["a"]).await;
    let taken = send(&app, Request::post(&format!("{id}/restore")), None, &json!({})).await;
    assert_eq!(
        (code(&taken), pointers(&taken.json())),
        ((409, "already_exists".into()), vec!["/name".to_owned()])
    );
    let bad = send(&app, Request::post(&format!("{id}/restore")), None, &json!({"name": "No"})).await;
    assert_eq!((bad.status, pointers(&bad.json())), (422, vec!["/name".to_owned()]));
    let back = send(&app, Request::post("a/restore"), None, &json!({"name": "a2"})).await;
    assert_eq!(
        (back.status, back.header("etag"), &back.json()["id"]),
        (200, Some("\"3\""), &json!(id)),
        "{}",
        back.body
    );
    assert_eq!((&back.json()["name"], &back.json()["status"]), (&json!("a2"), &json!("enabled")));
    assert_eq!(
        code(&send(&app, Request::post("nobody/restore"), None, &json!({})).await),
        (404, "not_found".into())
    );
    let told = "SELECT count(*) FROM events WHERE event_type IN ('job_deleted', 'job_restored', 'dispatch_cancelled')";
    assert_eq!(app.fixture.number(told).await, 3);
    let audited = "SELECT count(*) FROM audit_log WHERE action IN ('delete_job', 'restore_job')";
    assert_eq!(app.fixture.number(audited).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_with_dependents_cannot_be_deleted() {
    let app = TestApp::start().await;
    let after = json!({"name": "b", "function": "f", "job_type": "manual", "after": [{"job": "a"}]});
    app.apply(&json!({"task_functions": [function("f")], "jobs": [manual("a"), after]})).await;
    let refused = app.send(Request::delete("/api/v1/jobs/a")).await;
    assert_eq!(code(&refused), (409, "in_use".into()));
    assert!(refused.json()["detail"].as_str().unwrap().contains("b runs after it"), "{}", refused.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_searched_sorted_and_counted() {
    let app = TestApp::start().await;
    app.with_jobs(&["load-a", "load-b", "tidy"]).await;
    send(&app, Request::post("load-b/disable"), None, &json!({})).await;
    let names = async |query: &str| {
        let answer = app.get(&format!("/api/v1/jobs?{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        let items = answer.json()["items"].as_array().unwrap().clone();
        items.iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (query, expected) in [
        ("q=LOAD", "load-a load-b"),
        ("name_prefix=t", "tidy"),
        ("status=disabled", "load-b"),
        ("status=enabled&sort=-name", "tidy load-a"),
        ("function=f&queue=default&project=default&job_type=manual", "load-a load-b tidy"),
        ("function=g", ""),
        ("last_status=failed", ""),
        ("sort=-updated_at&limit=1", "load-b"),
    ] {
        assert_eq!(names(query).await, expected, "{query}");
    }
    let first = app.get("/api/v1/jobs?sort=-name&limit=2&total=true").await.json();
    assert_eq!((&first["total"], first.get("total_is_at_least")), (&json!(3), None));
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(names(&format!("sort=-name&cursor={cursor}")).await, "load-a");
    for query in ["sort=name", "sort=-name&q=a", "sort=-updated_at"] {
        let answer = app.get(&format!("/api/v1/jobs?{query}&cursor={cursor}")).await;
        assert_eq!((answer.status, pointers(&answer.json())), (400, vec!["cursor".to_owned()]), "{query}");
    }
    let without = app.get("/api/v1/jobs").await.json();
    assert!(without.get("total").is_none() && without["next_cursor"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn put_calendar_and_queue_honour_if_match() {
    let app = TestApp::start().await;
    for (path, first, second) in [
        ("/api/v1/calendars/c", json!({"weekly": ["SAT"]}), json!({"weekly": ["SUN"]})),
        ("/api/v1/queues/q", json!({"max_running": 1}), json!({"max_running": 2})),
    ] {
        let put = async |header: (&str, &str), body: &Value| {
            app.send(
                Request::put(path)
                    .headers(&[("content-type", "application/json"), header])
                    .body(&body.to_string()),
            )
            .await
        };
        let made = put(("if-none-match", "*"), &first).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let tag = made.header("etag").unwrap().to_owned();
        assert_eq!(app.get(path).await.header("etag"), Some(tag.as_str()));
        assert_eq!(code(&put(("if-none-match", "*"), &first).await), (412, "precondition_failed".into()));
        let changed = put(("if-match", &tag), &second).await;
        assert_eq!(changed.status, 200, "{}", changed.body);
        assert_ne!(changed.header("etag"), Some(tag.as_str()));
        assert_eq!(code(&put(("if-match", &tag), &first).await), (412, "version_mismatch".into()));
        let shown = app.get(path).await;
        assert_eq!(shown.header("etag"), changed.header("etag"), "a rejected change is not written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_restore_returns_the_same_job() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let delete = async |path: &str| assert_eq!(app.send(Request::delete(path)).await.status, 200);
    delete("/api/v1/jobs/a").await;
    assert_eq!(app.post("/api/v1/jobs", &crate::support::manual("a")).await.status, 201);
    delete("/api/v1/jobs/a").await;
    let restore = async |body: Value| app.post("/api/v1/jobs/a/restore", &body).await;
    let first = restore(json!({})).await;
    assert_eq!(first.status, 200, "{}", first.body);
    let again = restore(json!({})).await;
    assert_eq!((again.status, again.json()), (200, first.json()), "{}", again.body);
    let other = restore(json!({"name": "b"})).await;
    assert_eq!(
        (other.status, &other.json()["name"]),
        (200, &json!("b")),
        "the one before it, under another name"
    );
    let twice = restore(json!({"name": "b"})).await;
    assert_eq!((twice.status, twice.json()), (200, other.json()), "{}", twice.body);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let kept = app.post(&format!("/api/v1/jobs/{id}/restore"), &json!({"name": "c"})).await;
    assert_eq!((kept.status, &kept.json()["code"]), (409, &json!("already_exists")), "{}", kept.body);
}

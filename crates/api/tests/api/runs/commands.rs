//! Cancelling, retrying and discarding over HTTP.

use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{Request, TestApp, pointers};

async fn trigger(app: &TestApp, job: &str) -> String {
    let answer = app.send(Request::post(&format!("/api/v1/jobs/{job}/trigger"))).await;
    answer.json()["run_id"].as_str().unwrap().to_owned()
}

async fn sql(app: &TestApp, statements: &str) {
    app.fixture.sql(statements).await;
}

async fn begin(app: &TestApp, id: &str) {
    sql(
        app,
        &format!(
            "WITH worker AS (
                 INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
                 VALUES (gen_random_uuid(), 'host', 'linux', 1, '0', '{{default}}', 1, 30000) RETURNING worker_id
             ), claim AS (
                 INSERT INTO worker_claims (worker_id, dispatch_ids) SELECT worker_id, ARRAY['{id}'::uuid] FROM worker RETURNING worker_id
             )
             UPDATE job_dispatch SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = now(), attempt = attempt + 1,
                 worker_id = claim.worker_id, claim_token = nextval('claim_token_seq') FROM claim WHERE id = '{id}'"
        ),
    )
    .await;
}

async fn finish(app: &TestApp, id: &str, status: &str) {
    begin(app, id).await;
    sql(
        app,
        &format!(
            "UPDATE job_dispatch SET status = '{status}', completed_at = now(), error_message = 'it broke' WHERE id = '{id}';
             UPDATE scheduled_jobs SET active_dispatches = active_dispatches - 1 WHERE id = (SELECT job_id FROM job_dispatch WHERE id = '{id}');
             INSERT INTO dead_letters (dispatch_id, tenant_id, project_id, job_id, queue, error_class, died_at)
             SELECT d.id, d.tenant_id, j.project_id, d.job_id, d.queue, 'exit_code', now()
             FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id WHERE d.id = '{id}' AND d.status = 'DEAD_LETTER'"
        ),
    )
    .await;
}

async fn dead(app: &TestApp, job: &str) -> String {
    let id = trigger(app, job).await;
    finish(app, &id, "DEAD_LETTER").await;
    id
}

async fn act(app: &TestApp, id: &str, action: &str, body: Value) -> Answer {
    app.post(&format!("/api/v1/runs/{id}/{action}"), &body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_run_is_cancelled_at_once() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let id = trigger(&app, "report").await;
    let answer = act(&app, &id, "cancel", json!({"reason": "wrong data"})).await;
    let expected = json!({"run_id": id, "state": "cancelled", "status": "cancelled"});
    assert_eq!((answer.status, answer.json()), (200, expected.clone()));
    let again = app.send(Request::post(&format!("/api/v1/runs/{id}/cancel"))).await;
    assert_eq!((again.status, again.json()), (200, expected), "the body may be left out");
    let shown = app.get(&format!("/api/v1/runs/{id}")).await.json();
    assert_eq!(
        shown["error_message"],
        json!(format!("cancelled by {}: wrong data", test_support::identity::actor()))
    );
    let told = format!(
        "SELECT count(*) FROM events WHERE event_type = 'dispatch_cancelled' AND dispatch_id IS NOT NULL AND job_id IS NOT NULL
         AND payload @> '{}'",
        json!({"reason": "wrong data", "by": test_support::identity::actor(), "job_name": "report"})
    );
    let audited = "SELECT count(*) FROM audit_log WHERE action = 'cancel_run' AND target_type = 'run'
                   AND after->>'reason' = 'wrong data' AND request_id IS NOT NULL";
    assert_eq!((app.fixture.number(&told).await, app.fixture.number(audited).await), (1, 1));
    assert_eq!(
        app.fixture
            .number("SELECT active_dispatches::bigint FROM scheduled_jobs WHERE name = 'report'")
            .await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn running_run_is_stopped_and_ended_run_refused() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let id = trigger(&app, "report").await;
    begin(&app, &id).await;
    for _ in 0..2 {
        let answer = act(&app, &id, "cancel", json!({})).await;
        let expected = json!({"run_id": id, "state": "requested", "status": "running"});
        assert_eq!((answer.status, answer.json()), (202, expected));
    }
    let marked =
        "SELECT count(*) FROM job_dispatch WHERE cancel_requested_at IS NOT NULL AND status = 'IN_PROGRESS'";
    assert_eq!(app.fixture.number(marked).await, 1);
    let told = "SELECT count(*) FROM events WHERE event_type = 'dispatch_cancel_requested'";
    let audited = "SELECT count(*) FROM audit_log WHERE action = 'cancel_run'";
    assert_eq!(
        (app.fixture.number(told).await, app.fixture.number(audited).await),
        (1, 1),
        "asking again changes nothing"
    );
    let ended = trigger(&app, "report").await;
    finish(&app, &ended, "COMPLETED").await;
    let refused = act(&app, &ended, "cancel", json!({})).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("finished")));
    assert!(refused.json()["detail"].as_str().unwrap().contains("succeeded"), "{}", refused.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_runs_of_a_job_are_cancelled() {
    let app = TestApp::start().await;
    app.with_jobs(&["report", "other"]).await;
    let running = trigger(&app, "report").await;
    begin(&app, &running).await;
    trigger(&app, "report").await;
    trigger(&app, "report").await;
    trigger(&app, "other").await;
    let answer = app.post("/api/v1/jobs/report/cancel", &json!({"reason": "r"})).await;
    let expected = json!({"cancelled": 2, "requested": 1, "has_more": false});
    assert_eq!((answer.status, answer.json()), (200, expected), "{}", answer.body);
    let again = app.post("/api/v1/jobs/report/cancel", &json!({})).await.json();
    assert_eq!(again, json!({"cancelled": 0, "requested": 0, "has_more": false}));
    assert_eq!(app.fixture.number("SELECT count(*) FROM job_dispatch WHERE status = 'PENDING'").await, 1);
    let audited = "SELECT count(*) FROM audit_log WHERE action = 'cancel_dispatches' AND after @> '{\"cancelled\": 2, \"requested\": 1}'";
    assert_eq!(app.fixture.number(audited).await, 1);
    assert_eq!(app.post("/api/v1/jobs/nobody/cancel", &json!({})).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_run_is_retried_once() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let id = trigger(&app, "report").await;
    let early = act(&app, &id, "retry", json!({})).await;
    assert_eq!((early.status, early.json()["code"].as_str()), (409, Some("not_finished")));
    finish(&app, &id, "FAILED").await;
    let (one, other) = tokio::join!(act(&app, &id, "retry", json!({})), act(&app, &id, "retry", json!({})));
    assert_eq!((one.status, other.status), (202, 202), "{} {}", one.body, other.body);
    assert_eq!(one.json()["run_id"], other.json()["run_id"]);
    assert_ne!(one.json()["duplicate"], other.json()["duplicate"]);
    let made = app.get(one.header("location").unwrap()).await.json();
    let first = app.get(&format!("/api/v1/runs/{id}")).await.json();
    assert_eq!((&made["retry_of"], &made["triggered_by"]), (&json!(id), &json!("retry")));
    assert_eq!((&made["scheduled_for"], &first["status"]), (&first["scheduled_for"], &json!("failed")));
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'retry_run'").await, 1);
    let told = format!(
        "SELECT count(*) FROM events WHERE event_type = 'dispatch_retried' AND payload->>'by' = '{}'",
        test_support::identity::actor()
    );
    assert_eq!(app.fixture.number(&told).await, 1);
    finish(&app, made["id"].as_str().unwrap(), "COMPLETED").await;
    let done = act(&app, made["id"].as_str().unwrap(), "retry", json!({})).await;
    assert_eq!((done.status, done.json()["code"].as_str()), (409, Some("succeeded")));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_an_inactive_job_cannot_be_retried() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let id = dead(&app, "report").await;
    for (change, code) in [
        ("UPDATE scheduled_jobs SET is_enabled = false", "job_disabled"),
        (
            "UPDATE scheduled_jobs SET is_enabled = true; UPDATE task_functions SET is_active = false",
            "inactive",
        ),
        ("UPDATE scheduled_jobs SET deleted_at = now()", "job_deleted"),
    ] {
        sql(&app, change).await;
        for path in [format!("/api/v1/runs/{id}/retry"), format!("/api/v1/dead-letters/{id}/retry")] {
            let refused = app.post(&path, &json!({})).await;
            assert_eq!(
                (refused.status, refused.json()["code"].as_str()),
                (409, Some(code)),
                "{}",
                refused.body
            );
        }
        let many = app.post("/api/v1/dead-letters/retry", &json!({"all": true})).await.json();
        assert_eq!((&many["count"], &many["refused"]), (&json!(0), &json!([{"code": code, "count": 1}])));
    }
    assert_eq!(app.fixture.number("SELECT count(*) FROM job_dispatch").await, 1);
}

fn ids(answer: &Value, list: &str) -> Vec<String> {
    let items = answer[list].as_array().unwrap().iter();
    items.map(|item| item["run_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_filtered_and_paged() {
    let app = TestApp::start().await;
    app.with_jobs(&["a", "b"]).await;
    let mut all = Vec::new();
    for job in ["a", "b", "a"] {
        all.push((dead(&app, job).await, job));
    }
    all.sort();
    all.reverse();
    let of = |wanted: Option<&str>| -> Vec<String> {
        all.iter().filter(|(_, job)| wanted.is_none_or(|w| *job == w)).map(|(id, _)| id.clone()).collect()
    };
    let list =
        async |query: &str| ids(&app.get(&format!("/api/v1/dead-letters{query}")).await.json(), "items");
    assert_eq!(list("").await, of(None));
    assert_eq!(
        list("?job=a&error_class=exit_code&queue=default&project=default&since=-1h").await,
        of(Some("a"))
    );
    for empty in ["?error_class=oom", "?queue=other", "?until=-1h", "?state=discarded", "?state=retried"] {
        assert_eq!(list(empty).await, Vec::<String>::new(), "{empty}");
    }
    let newest = app.get("/api/v1/dead-letters?limit=2").await.json();
    assert_eq!(ids(&newest, "items"), of(None)[..2]);
    let rest = format!("?limit=2&cursor={}", newest["next_cursor"].as_str().unwrap());
    assert_eq!(list(&rest).await, of(None)[2..]);
    let oldest_first: Vec<String> = of(None).into_iter().rev().collect();
    let page = app.get("/api/v1/dead-letters?sort=created_at&limit=2").await.json();
    assert_eq!(ids(&page, "items"), oldest_first[..2]);
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(list(&format!("?sort=created_at&cursor={cursor}")).await, oldest_first[2..]);
    let other_order = app.get(&format!("/api/v1/dead-letters?cursor={cursor}")).await;
    assert_eq!(other_order.status, 400, "{}", other_order.body);
    let shown = app.get(&format!("/api/v1/dead-letters/{}", all[0].0)).await.json();
    assert_eq!(shown, newest["items"][0]);
    assert_eq!(
        (&shown["state"], &shown["error_class"], &shown["error_message"], &shown["attempts"]),
        (&json!("open"), &json!("exit_code"), &json!("it broke"), &json!(1))
    );
    assert_eq!(shown["handed_back"], json!(0));
    sql(&app, &format!("UPDATE job_dispatch SET attempt = 6, retry_count = 2 WHERE id = '{}'", all[0].0))
        .await;
    let shown = app.get(&format!("/api/v1/dead-letters/{}", all[0].0)).await.json();
    assert_eq!((&shown["attempts"], &shown["handed_back"]), (&json!(6), &json!(3)), "three used up retries");
    for (query, status) in [
        ("?since=yesterday", 400),
        ("?state=dead", 400),
        ("?sort=job", 400),
        ("?cursor=x", 400),
        ("?job=no", 404),
        ("?project=no", 404),
    ] {
        assert_eq!(app.get(&format!("/api/v1/dead-letters{query}")).await.status, status, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_settled_by_filter() {
    let app = TestApp::start().await;
    app.with_jobs(&["a", "b"]).await;
    for job in ["a", "b", "a"] {
        dead(&app, job).await;
    }
    let many = async |action: &str, body: Value| {
        let answer = app.post(&format!("/api/v1/dead-letters/{action}"), &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    };
    let meant = many("retry", json!({"job": "a", "dry_run": true})).await;
    assert_eq!(
        (&meant["dry_run"], &meant["count"], ids(&meant, "sample").len()),
        (&json!(true), &json!(2), 2)
    );
    assert_eq!(app.fixture.number("SELECT count(*) FROM dead_letters WHERE settled_at IS NOT NULL").await, 0);
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM audit_log WHERE action LIKE '%dead_letters'").await,
        0
    );
    let mut done = many("retry", json!({"job": "a"})).await;
    let retried = done["retried"].take();
    let new = "SELECT string_agg(l.dispatch_id || '>' || l.retried_as, ' ' ORDER BY l.dispatch_id) FROM dead_letters l
               WHERE l.retried_as IS NOT NULL";
    let mut pairs: Vec<String> = retried
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{}>{}", one["run_id"].as_str().unwrap(), one["retried_as"].as_str().unwrap()))
        .collect();
    pairs.sort();
    assert_eq!(pairs.join(" "), app.fixture.text(new).await);
    let expected = json!({
        "dry_run": false, "count": 2, "refused": [], "retried": null, "sample": [], "next_cursor": null,
    });
    assert_eq!(done, expected);
    let done = many("discard", json!({"all": true, "reason": "known"})).await;
    assert_eq!(done["count"], json!(1));
    let discarded = app.get("/api/v1/dead-letters?state=discarded").await.json();
    assert_eq!(
        (&discarded["items"][0]["job"], &discarded["items"][0]["settled_reason"]),
        (&json!("b"), &json!("known"))
    );
    let audited = "SELECT count(*) FROM audit_log WHERE (action, (after->>'count')::integer) IN (('retry_dead_letters', 2), ('discard_dead_letters', 1))
                   AND after->'meant' IS NOT NULL";
    assert_eq!(app.fixture.number(audited).await, 2, "one entry for each command");
    let told =
        "SELECT count(*) FROM events WHERE event_type IN ('dispatch_retried', 'dead_letter_discarded')";
    assert_eq!(app.fixture.number(told).await, 3);
    assert_eq!(app.fixture.number("SELECT count(*) FROM job_dispatch WHERE triggered_by = 'retry'").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_is_discarded_or_retried() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let (one, other) = (dead(&app, "a").await, dead(&app, "a").await);
    let discard = async |id: &str| app.post(&format!("/api/v1/dead-letters/{id}/discard"), &json!({})).await;
    for _ in 0..2 {
        let answer = discard(&one).await;
        assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("discarded")), "{}", answer.body);
    }
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'discard_dead_letter'").await,
        1
    );
    let retried = app.post(&format!("/api/v1/dead-letters/{other}/retry"), &json!({})).await;
    assert_eq!(retried.status, 202, "{}", retried.body);
    let shown = app.get(&format!("/api/v1/dead-letters/{other}")).await.json();
    assert_eq!((&shown["state"], &shown["retried_as"]), (&json!("retried"), &retried.json()["run_id"]));
    let refused = discard(&other).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("already_retried")));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_commands_are_refused() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let id = trigger(&app, "report").await;
    let long = json!({"reason": "x".repeat(501)});
    for (path, body, pointer) in [
        (format!("runs/{id}/cancel"), &long, "/reason"),
        (format!("runs/{id}/cancel"), &json!({"why": "x"}), "/why"),
        (format!("runs/{id}/retry"), &json!({"reason": "x"}), "/reason"),
        ("jobs/report/cancel".to_owned(), &long, "/reason"),
        ("dead-letters/retry".to_owned(), &json!({}), "/all"),
        ("dead-letters/discard".to_owned(), &json!({}), "/all"),
        ("dead-letters/retry".to_owned(), &json!({"all": true, "job": "report"}), "/all"),
        ("dead-letters/retry".to_owned(), &json!({"all": true, "reason": "x"}), "/reason"),
        ("dead-letters/retry".to_owned(), &json!({"since": "yesterday"}), "/since"),
        ("dead-letters/discard".to_owned(), &json!({"all": true, "cursor": "x"}), "/cursor"),
    ] {
        let answer = app.post(&format!("/api/v1/{path}"), body).await;
        assert_eq!(
            (answer.status, pointers(&answer.json())),
            (422, vec![pointer.to_owned()]),
            "{path} {body}"
        );
    }
    assert_eq!(app.fixture.number("SELECT count(*) FROM job_dispatch WHERE status = 'PENDING'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_of_another_tenant_are_not_found() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let (waiting, buried) = (trigger(&app, "report").await, dead(&app, "report").await);
    sql(
        &app,
        "INSERT INTO tenants (id, slug, name) VALUES ('018f0000-0000-7000-8000-000000000001', 'other', 'Other');
         SET session_replication_role = replica;
         UPDATE job_dispatch SET tenant_id = '018f0000-0000-7000-8000-000000000001';
         UPDATE dead_letters SET tenant_id = '018f0000-0000-7000-8000-000000000001'",
    )
    .await;
    let nobody = "018f0000-0000-7000-8000-0000000000ff";
    for id in [waiting.as_str(), buried.as_str(), nobody] {
        for path in [
            format!("runs/{id}/cancel"),
            format!("runs/{id}/retry"),
            format!("dead-letters/{id}/retry"),
            format!("dead-letters/{id}/discard"),
        ] {
            let answer = app.post(&format!("/api/v1/{path}"), &json!({})).await;
            assert_eq!((answer.status, answer.json()["code"].as_str()), (404, Some("not_found")), "{path}");
        }
        assert_eq!(app.get(&format!("/api/v1/dead-letters/{id}")).await.status, 404);
    }
    assert_eq!(app.get("/api/v1/dead-letters").await.json()["items"], json!([]));
    for action in ["retry", "discard"] {
        let answer = app.post(&format!("/api/v1/dead-letters/{action}"), &json!({"all": true})).await;
        assert_eq!(answer.json()["count"], json!(0));
    }
    let untouched = "SELECT count(*) FROM job_dispatch WHERE status IN ('PENDING', 'DEAD_LETTER')";
    assert_eq!(app.fixture.number(untouched).await, 2);
    assert_eq!(app.fixture.number("SELECT count(*) FROM dead_letters WHERE settled_at IS NULL").await, 1);
}

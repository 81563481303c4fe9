use std::sync::Mutex;

use sched_model::connection::notify::{self, DISPATCH_CHANNEL, Hint};
use serde_json::{Value, json};
use test_support::http::Answer;
use test_support::identity::OWNER;
use test_support::wait_for;

use crate::support::{LIMIT, Request, TestApp, function, manual, pointers};

const TRIGGER: &str = "/api/v1/jobs/report/trigger";
const DISPATCHES: &str = "SELECT count(*) FROM job_dispatch";

async fn trigger(app: &TestApp, key: &str, body: Option<&Value>) -> Answer {
    let text = body.map(Value::to_string);
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    app.send(Request::post(TRIGGER).headers(&headers).optional_body(text.as_deref())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_creates_a_run() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let answer = app.send(Request::post(TRIGGER)).await;
    assert_eq!((answer.status, &answer.json()["duplicate"]), (202, &json!(false)), "{}", answer.body);
    let location = answer.header("location").unwrap().to_owned();
    let dispatch = app.get(&location).await.json();
    assert_eq!(dispatch["id"], answer.json()["run_id"]);
    assert_eq!((&dispatch["job"], &dispatch["status"]), (&json!("report"), &json!("waiting")));
    assert_eq!((&dispatch["triggered_by"], &dispatch["triggered_by_user"]), (&json!("api"), &json!(OWNER)));
    let job = app.get("/api/v1/jobs/report").await.json();
    assert_eq!((&job["total_run_count"], &job["active_runs"]), (&json!(1), &json!(1)));
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'trigger_job'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_counted_without_duplicates() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    for _ in 0..2 {
        assert_eq!(trigger(&app, "k", None).await.status, 202);
    }
    assert_eq!(app.send(Request::post(TRIGGER)).await.status, 202);
    let text = app.get("/metrics").await.body;
    assert!(text.lines().any(|line| line == "sched_dispatches_created_total 2"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn created_run_belongs_to_the_request_trace() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let given = format!("00-{trace}-b7ad6b7169203331-01");
    let answer = app.send(Request::post(TRIGGER).headers(&[("traceparent", &given)])).await;
    let location = answer.header("location").unwrap().to_owned();
    assert_eq!(app.get(&location).await.json()["trace_id"], trace);
    let explained = app.get(&format!("{location}/explain")).await.json();
    assert_eq!(explained["run"]["trace_id"], trace);
    let kept: String = app.fixture.text("SELECT traceparent FROM job_dispatch").await;
    assert!(kept.starts_with(&format!("00-{trace}-")) && kept.ends_with("-01"), "{kept}");
    assert!(
        !kept.contains("b7ad6b7169203331"),
        "the request itself is between the caller and the dispatch: {kept}"
    );

    app.fixture
        .sql("UPDATE job_dispatch SET status = 'FAILED', completed_at = now(), claimable_at = NULL")
        .await;
    let retry = app.send(Request::post(&format!("{location}/retry"))).await;
    assert_eq!(retry.status, 202, "{}", retry.body);
    let of_retry = app.get(retry.header("location").unwrap()).await.json()["trace_id"].clone();
    assert!(of_retry.as_str().is_some_and(|id| id.len() == 32 && id != trace), "{of_retry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_arguments_replace_those_of_the_job() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let answer = app.post(TRIGGER, &json!({"task_args": {"depth": 9}})).await;
    let dispatch = app.get(answer.header("location").unwrap()).await.json();
    assert_eq!(dispatch["task_args"], json!({"depth": 9}));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_shows_arguments_of_its_version() {
    let app = TestApp::start().await;
    let with_depth = async |depth: i32| {
        let mut job = manual("report");
        job["task_args"] = json!({"depth": depth});
        app.apply(&json!({"task_functions": [function("f")], "jobs": [job]})).await;
    };
    with_depth(1).await;
    let answer = app.send(Request::post(TRIGGER)).await;
    with_depth(2).await;
    assert_eq!(app.fixture.text("SELECT args FROM job_dispatch").await, "-", "not stored twice");
    let dispatch = app.get(answer.header("location").unwrap()).await.json();
    assert_eq!(dispatch["task_args"], json!({"depth": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_with_stale_version_creates_nothing() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let of_version = async |tag: &str| app.send(Request::post(TRIGGER).headers(&[("if-match", tag)])).await;
    let job = app.get("/api/v1/jobs/report").await;
    let tag = job.header("etag").unwrap().to_owned();
    let refused = of_version("\"99\"").await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (412, &json!("version_mismatch")),
        "{}",
        refused.body
    );
    assert_eq!(app.fixture.number(DISPATCHES).await, 0);
    for tag in [tag.as_str(), "*"] {
        let done = of_version(tag).await;
        assert_eq!(done.status, 202, "{tag}: {}", done.body);
    }
    assert_eq!(app.fixture.number(DISPATCHES).await, 2);
    assert_eq!(of_version("3").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_triggers_with_one_key_create_one_run() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    // The other concurrent requests get the first one's answer, or 409 while it runs.
    let done = async || loop {
        let answer = trigger(&app, "k-1", None).await;
        if answer.status != 409 {
            return answer;
        }
        assert_eq!(answer.json()["code"], "idempotency_key_in_flight", "{}", answer.body);
    };
    let (a, b, c) = tokio::join!(done(), done(), done());
    let again = trigger(&app, "k-1", None).await;
    let mut duplicates = 0;
    for answer in [&a, &b, &c, &again] {
        assert_eq!(answer.status, 202, "{}", answer.body);
        assert_eq!(answer.json()["run_id"], a.json()["run_id"]);
        duplicates += u32::from(answer.json()["duplicate"] == json!(true));
    }
    assert_eq!((duplicates, app.fixture.number(DISPATCHES).await), (3, 1));
    assert_eq!(trigger(&app, "k-2", None).await.json()["duplicate"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_trigger_gets_the_first_answer() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let first = trigger(&app, "k", None).await;
    let headers = [("content-type", "application/json")];
    let patch = json!({"task_args": {"depth": 9}}).to_string();
    assert_eq!(
        app.send(Request::patch("/api/v1/jobs/report").headers(&headers).body(&patch)).await.status,
        200
    );
    let changed = trigger(&app, "k", None).await;
    assert_eq!(app.send(Request::delete("/api/v1/jobs/report")).await.status, 200);
    let deleted = trigger(&app, "k", None).await;
    for again in [changed, deleted] {
        assert_eq!(
            (again.status, again.header("idempotency-replayed")),
            (202, Some("true")),
            "{}",
            again.body
        );
        assert_eq!(again.json(), json!({"run_id": first.json()["run_id"], "duplicate": true}));
    }
    assert_eq!(app.fixture.number(DISPATCHES).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_key_with_other_arguments_is_refused() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    trigger(&app, "k", Some(&json!({"task_args": {"a": 1}}))).await;
    let answer = trigger(&app, "k", Some(&json!({"task_args": {"a": 2}}))).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (422, Some("idempotency_key_reused")));
    assert_eq!(pointers(&answer.json()), ["Idempotency-Key"]);
    assert_eq!(app.fixture.number(DISPATCHES).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_of_inactive_function_cannot_be_triggered() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    app.fixture.client().await.execute("UPDATE task_functions SET is_active = false", &[]).await.unwrap();
    let answer = app.send(Request::post(TRIGGER)).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (409, Some("inactive")), "{}", answer.body);
    assert_eq!(app.fixture.number(DISPATCHES).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_notified_of_a_run() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let (database, hints) = (app.fixture.database.clone(), Mutex::new(Vec::new()));
    let listening = notify::listen(&database, &[DISPATCH_CHANNEL], |hint| hints.lock().unwrap().push(hint));
    let seen = async |wanted: Hint| {
        wait_for("the hint comes", LIMIT, async || {
            let seen = hints.lock().unwrap();
            if seen.contains(&wanted) { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    };
    let triggering = async {
        seen(Hint::Reconnected).await;
        app.send(Request::post(TRIGGER)).await;
        seen(Hint::Notified { channel: DISPATCH_CHANNEL.to_owned(), payload: "default".to_owned() }).await;
    };
    tokio::select! {
        () = listening => panic!("listening ended"),
        () = triggering => {}
    }
}

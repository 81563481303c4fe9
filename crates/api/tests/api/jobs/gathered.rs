//! Batched triggers: each has the answer that it would have alone.

use std::pin::pin;

use futures_util::future::{Either, join, join_all, select};
use serde_json::{Value, json};
use test_support::fixture::BEGIN;
use test_support::http::Answer;
use test_support::identity::bearer;
use test_support::wait_for;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_postgres::Client;

use crate::support::{LIMIT, Request, TestApp, function, manual};

const DISPATCHES: &str = "SELECT count(*) FROM job_dispatch";

async fn trigger(app: &TestApp, job: &str) -> Answer {
    app.post(&format!("/api/v1/jobs/{job}/trigger"), &json!({})).await
}

/// A client holds a lock that every batch of a tenant with a quota needs, until it commits.
async fn held_by_quota(jobs: &[&str]) -> (TestApp, Client) {
    let app = TestApp::start_with(&[("DATABASE_LOCK_TIMEOUT", "25s")]).await;
    app.with_jobs(jobs).await;
    let client = app.fixture.client().await;
    client
        .batch_execute(
            "UPDATE tenants SET quotas = '{\"dispatches_per_minute\": 100000}';
             INSERT INTO tenant_usage (tenant_id, minute, dispatched) SELECT id, now(), 0 FROM tenants",
        )
        .await
        .unwrap();
    client.batch_execute(&format!("{BEGIN}; SELECT FROM tenant_usage FOR UPDATE")).await.unwrap();
    (app, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_triggers_share_one_transaction() {
    let names: Vec<String> = (0..10).map(|n| format!("j{n}")).collect();
    let (app, holder) = held_by_quota(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let asked = join_all((0..40).map(|n| trigger(&app, &names[n % names.len()])));
    let release = async {
        app.fixture.wait_for_blocked(1).await;
        let_the_others_arrive(&app).await;
        holder.batch_execute("COMMIT").await.unwrap();
    };
    let (answers, ()) = join(asked, release).await;
    let mut dispatches: Vec<String> = Vec::new();
    for answer in &answers {
        assert_eq!((answer.status, &answer.json()["duplicate"]), (202, &json!(false)), "{}", answer.body);
        dispatches.push(answer.json()["run_id"].as_str().unwrap().to_owned());
    }
    dispatches.sort();
    dispatches.dedup();
    assert_eq!((dispatches.len(), app.fixture.number(DISPATCHES).await), (40, 40));
    let transactions = app.fixture.number("SELECT count(DISTINCT xmin::text) FROM job_dispatch").await;
    assert!(transactions < 10, "{transactions} transactions for 40 triggers");
    for (what, query, expected) in [
        (
            "each is in the audit log",
            "SELECT count(DISTINCT request_id) FROM audit_log WHERE action = 'trigger_job'",
            40,
        ),
        (
            "with its dispatch and its job",
            "SELECT count(*) FROM audit_log a JOIN job_dispatch d ON d.id::text = a.after ->> 'dispatch_id' AND d.job_id::text = a.target_id",
            40,
        ),
        ("each has a span of its own", "SELECT count(DISTINCT traceparent) FROM job_dispatch", 40),
        ("and is counted", "SELECT sum(active_dispatches)::bigint FROM scheduled_jobs", 40),
        (
            "the quota too, whose minute may have turned",
            "SELECT count(*) FROM tenant_usage WHERE dispatched BETWEEN 1 AND 40",
            1,
        ),
    ] {
        assert_eq!(app.fixture.number(query).await, expected, "{what}");
    }
}

async fn let_the_others_arrive(app: &TestApp) {
    for _ in 0..20 {
        assert_eq!(app.get("/api/v1/jobs/nobody").await.status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_refusal_reaches_only_its_request() {
    let app = TestApp::start().await;
    app.with_jobs(&["good"]).await;
    app.apply(&json!({
        "task_functions": [function("off")],
        "jobs": [{"name": "bad", "function": "off", "job_type": "manual"}],
    }))
    .await;
    app.fixture.sql("UPDATE task_functions SET is_active = false WHERE name = 'off'").await;
    let jobs = ["good", "bad", "missing"];
    let answers = join_all((0..30).map(|n| trigger(&app, jobs[n % jobs.len()]))).await;
    for (n, answer) in answers.iter().enumerate() {
        let code = answer.json()["code"].as_str().map(str::to_owned);
        let expected = [(202, None), (409, Some("inactive")), (404, Some("not_found"))][n % jobs.len()];
        assert_eq!((answer.status, code.as_deref()), expected, "{}", answer.body);
    }
    assert!(answers[2].body.contains("missing"), "{}", answers[2].body);
    assert_eq!(app.fixture.number(DISPATCHES).await, 10);
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'trigger_job'").await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_job_delays_only_its_own_triggers() {
    let app = TestApp::start().await;
    app.with_jobs(&["held", "free"]).await;
    let holder = app.fixture.client().await;
    let hold = format!("{BEGIN}; SELECT FROM scheduled_jobs WHERE name = 'held' FOR NO KEY UPDATE");
    holder.batch_execute(&hold).await.unwrap();
    let held = pin!(trigger(&app, "held"));
    let others = pin!(async {
        app.fixture.wait_for_blocked(1).await;
        for answer in join_all((0..8).map(|_| trigger(&app, "free"))).await {
            assert_eq!(answer.status, 202, "{}", answer.body);
        }
    });
    let held = match select(held, others).await {
        Either::Left((answer, _)) => panic!("the job is held: {}", answer.body),
        Either::Right(((), held)) => {
            holder.batch_execute("COMMIT").await.unwrap();
            held.await
        }
    };
    assert_eq!((held.status, app.fixture.number(DISPATCHES).await), (202, 9), "{}", held.body);
}

/// Runs `body` at the commit of every transaction that inserts a run. The sequence `tries` counts
/// the tries, including those that roll back.
async fn at_commit(client: &Client, body: &str) {
    client
        .batch_execute(&format!(
            "CREATE SEQUENCE tries MINVALUE 0 START 0;
             SELECT nextval('tries');
             CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
             BEGIN PERFORM nextval('public.tries'); {body} RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON job_dispatch DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION at_commit()"
        ))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_commit_is_not_retried() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let client = app.fixture.client().await;
    at_commit(&client, "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1);").await;
    let answer = trigger(&app, "report").await;
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (503, Some("database_unavailable")),
        "{}",
        answer.body
    );
    assert!(answer.header("retry-after").is_some());
    assert_eq!(
        app.fixture.number("SELECT last_value FROM tries").await,
        1,
        "the outcome of the commit is unknown"
    );
    client.batch_execute("DROP TRIGGER at_commit ON job_dispatch").await.unwrap();
    assert_eq!((trigger(&app, "report").await.status, app.fixture.number(DISPATCHES).await), (202, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_trigger_does_not_affect_its_batch() {
    let app = TestApp::start().await;
    app.with_jobs(&["good", "poison"]).await;
    let client = app.fixture.client().await;
    client
        .batch_execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN IF NEW.args ? 'poison' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON job_dispatch FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await
        .unwrap();
    let poison = json!({"task_args": {"poison": true}});
    let asked = |n: usize| {
        let (job, body) = if n.is_multiple_of(5) { ("poison", poison.clone()) } else { ("good", json!({})) };
        let app = &app;
        async move { app.post(&format!("/api/v1/jobs/{job}/trigger"), &body).await }
    };
    let answers = join_all((0..20).map(asked)).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    let expected: Vec<u16> = (0..20).map(|n| if n % 5 == 0 { 500 } else { 202 }).collect();
    assert_eq!((statuses, app.fixture.number(DISPATCHES).await), (expected, 16));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_wrote_nothing_unanswered() {
    let (app, holder) = held_by_quota(&["report"]).await;
    // The connection breaks with the process.
    let mut stream = TcpStream::connect(app.addr).await.unwrap();
    let (addr, key) = (app.addr, bearer());
    let head = format!("host: {addr}\r\nauthorization: {key}\r\ncontent-length: 0");
    let request = format!("POST /api/v1/jobs/report/trigger HTTP/1.1\r\n{head}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    app.fixture.wait_for_blocked(1).await;
    let fixture = app.killed();
    holder.batch_execute("COMMIT").await.unwrap();
    wait_for("no transaction of the API is left", LIMIT, async || {
        let left = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = 'sched-api' AND state <> 'idle'";
        match fixture.number(left).await {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        }
    })
    .await;
    assert_eq!(fixture.number(DISPATCHES).await, 0);
    assert_eq!(fixture.number("SELECT count(*) FROM audit_log WHERE action = 'trigger_job'").await, 0);
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn batched_triggers_with_keys_take_effect_once() {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")], "jobs": [manual("report")]})).await;
    let headers = [("content-type", "application/json")];
    let keyed = [("content-type", "application/json"), ("idempotency-key", "k")];
    let path = "/api/v1/jobs/report/trigger";
    let once = async || loop {
        let answer = app.send(Request::post(path).headers(&keyed).body("{}")).await;
        if answer.status != 409 {
            return answer;
        }
    };
    let plain = join_all((0..12).map(|_| app.send(Request::post(path).headers(&headers).body("{}"))));
    let (plain, keyed) = join(plain, join_all((0..6).map(|_| once()))).await;
    let ids = |answers: &[Answer]| -> Vec<Value> {
        answers.iter().map(|answer| answer.json()["run_id"].clone()).collect()
    };
    assert!(plain.iter().chain(&keyed).all(|answer| answer.status == 202));
    assert!(ids(&keyed).windows(2).all(|two| two[0] == two[1]));
    assert!(!ids(&plain).contains(&ids(&keyed)[0]));
    assert_eq!(app.fixture.number(DISPATCHES).await, 13);
    assert_eq!(
        app.fixture
            .number("SELECT active_dispatches::bigint FROM scheduled_jobs WHERE name = 'report'")
            .await,
        13
    );
}

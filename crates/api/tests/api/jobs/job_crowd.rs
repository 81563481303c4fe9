//! Eight clients create, pause, resume and delete jobs concurrently, each request twice: every
//! count is exact.
//!
//! Full size: `SCHED_TEST_JOBS=10000 scripts/test -E 'package(sched-api) & test(job_crowd)'`.

use std::env;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Request, TestApp, function, manual};

const CLIENTS: usize = 8;

fn jobs() -> usize {
    #[expect(clippy::disallowed_methods, reason = "a test has no configuration")]
    let asked = env::var("SCHED_TEST_JOBS").ok();
    asked.map_or(400, |count| count.parse().unwrap())
}

#[derive(Debug, Default)]
struct ClientCounts {
    done: usize,
    replayed: usize,
}

/// Sends a request twice until both have an answer; returns the number of replayed answers.
async fn twice(app: &TestApp, request: Request<'_>, key: &str, at_once: bool) -> usize {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    let Request { method, path, .. } = request;
    let until_answered = async || {
        loop {
            let answer = app.send(request.headers(&headers)).await;
            let is_busy = answer.status == 503
                || answer.status == 409 && answer.json()["code"] == "idempotency_key_in_flight";
            if !is_busy {
                assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.body);
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    let (one, two) = match at_once {
        true => tokio::join!(until_answered(), until_answered()),
        false => (until_answered().await, until_answered().await),
    };
    assert_eq!((one.status, &one.body), (two.status, &two.body), "{method} {path}");
    [one, two].iter().filter(|answer| answer.header("idempotency-replayed") == Some("true")).count()
}

async fn client(app: &TestApp, number: usize) -> ClientCounts {
    let mut seen = ClientCounts::default();
    for index in (number..jobs()).step_by(CLIENTS) {
        let (name, at_once) = (format!("job-{index}"), index % 2 == 0);
        let one = format!("/api/v1/jobs/{name}");
        let spec: Value = manual(&name);
        let requests = [
            ("POST", "/api/v1/jobs".to_owned(), Some(spec.to_string())),
            ("POST", format!("{one}/pause"), Some(json!({"reason": "crowd"}).to_string())),
            ("POST", format!("{one}/resume"), Some("{}".to_owned())),
            ("DELETE", one, None),
        ];
        for (step, (method, path, body)) in requests.iter().enumerate() {
            let key = format!("{name}-{step}");
            seen.replayed +=
                twice(app, Request::new(method, path).optional_body(body.as_deref()), &key, at_once).await;
            seen.done += 1;
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_requests_of_eight_clients_take_effect_once() {
    let app = Arc::new(TestApp::start_with(&[("API_REQUEST_RATE", "0")]).await);
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let app = Arc::clone(&app);
        clients.spawn(async move { client(&app, number).await });
    }
    let mut seen = ClientCounts::default();
    while let Some(one) = clients.join_next().await {
        let one = one.unwrap();
        seen.done += one.done;
        seen.replayed += one.replayed;
    }
    let jobs = jobs();
    assert_eq!((seen.done, seen.replayed), (4 * jobs, 4 * jobs), "of each pair exactly one is a replay");
    let expected = i64::try_from(jobs).unwrap();
    for (what, query) in [
        ("jobs", "SELECT count(*) FROM scheduled_jobs WHERE name LIKE 'job-%' AND deleted_at IS NOT NULL AND version = 4"),
        ("no others", "SELECT count(*) FROM scheduled_jobs WHERE name LIKE 'job-%'"),
        ("versions", "SELECT count(*) / 4 FROM scheduled_job_versions v JOIN scheduled_jobs j ON j.id = v.job_id WHERE j.name LIKE 'job-%'"),
        (
            "the right versions",
            "SELECT count(*) FROM (SELECT string_agg(change, ' ' ORDER BY v.version) AS life FROM scheduled_job_versions v
                                   JOIN scheduled_jobs j ON j.id = v.job_id WHERE j.name LIKE 'job-%' GROUP BY v.job_id) AS lives
             WHERE life = 'created paused resumed deleted'",
        ),
        ("audited creations", "SELECT count(*) FROM audit_log WHERE action = 'create_job'"),
        ("audited pauses", "SELECT count(*) FROM audit_log WHERE action = 'pause_job'"),
        ("audited resumptions", "SELECT count(*) FROM audit_log WHERE action = 'resume_job'"),
        ("audited deletions", "SELECT count(*) FROM audit_log WHERE action = 'delete_job'"),
        (
            "events",
            "SELECT count(*) / 4 FROM events WHERE event_type IN ('job_created', 'job_paused', 'job_resumed', 'job_deleted')",
        ),
        ("answers", "SELECT count(*) / 4 FROM kept_answers"),
    ] {
        assert_eq!(app.fixture.number(query).await, expected, "{what}");
    }
}

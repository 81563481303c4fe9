//! The output stream of a run: during the run, at its end, and resumed.

use std::time::Duration;

use sched_model::domain::attempt::{AttemptEnd, AttemptOutcome, decide};
use sched_model::domain::ids::{WorkerId, execution_id};
use sched_model::domain::retry::RetryPolicy;
use sched_model::running::attempts::{self, Ended, OutputChunk, Record};
use sched_model::running::claims::{self, Claimed};
use sched_model::running::live_output::{self, LiveUpdate, Piece};
use sched_model::running::workers::{self, NewWorker};
use sched_wire::{LogEvent, RunStatus};
use serde_json::json;
use test_support::wait_for;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::support::{LIMIT, Request, TestApp};

async fn running() -> (TestApp, Claimed) {
    let app = TestApp::start().await;
    app.with_jobs(&["talks"]).await;
    app.send(Request::post("/api/v1/jobs/talks/trigger")).await;
    let claimed = claim(&app).await;
    (app, claimed)
}

async fn claim(app: &TestApp) -> Claimed {
    let mut conn = app.fixture.database.clone().dedicated().await.unwrap();
    let worker = NewWorker {
        worker_id: WorkerId(Uuid::new_v4()),
        hostname: "test".into(),
        platform: "linux".into(),
        process_id: 1,
        version: "0.0.0".into(),
        queues: vec!["default".into()],
        concurrency: 1,
        lease_ms: 60_000,
    };
    workers::register(&mut conn, &worker, None).await.unwrap();
    let queues = ["default".to_owned()];
    wait_for("the claim", LIMIT, async || {
        let mut conn = app.fixture.database.clone().dedicated().await.unwrap();
        claims::claim(&mut conn, worker.worker_id, &queues, 1)
            .await
            .unwrap()
            .pop()
            .ok_or_else(|| "nothing waits".to_owned())
    })
    .await
}

async fn write_live(
    app: &TestApp,
    claimed: &Claimed,
    (seq, starts_at, content): (i64, i64, &str),
    progress: Option<&str>,
) {
    let told = LiveUpdate {
        dispatch_id: claimed.dispatch_id,
        token: claimed.token,
        pieces: vec![Piece { seq, stream: "stdout", starts_at, content: content.into() }],
        keep_from: 0,
        progress: progress.map(|message| (Some(50.0), message.to_owned())),
    };
    let mut conn = app.fixture.database.clone().dedicated().await.unwrap();
    assert_eq!(live_output::write(&mut conn, &[told]).await.unwrap(), [claimed.token]);
}

async fn end(app: &TestApp, claimed: &Claimed, outcome: AttemptOutcome, output: &str) {
    let ended = Ended {
        dispatch_id: claimed.dispatch_id,
        tenant_id: claimed.tenant_id,
        job_id: claimed.job_id,
        job: claimed.job.clone(),
        token: claimed.token,
        outcome,
        verdict: decide(
            AttemptEnd { outcome, error_class: None },
            claimed.failures,
            &RetryPolicy::standard(3),
            0.5,
        ),
        record: Record {
            execution_id: execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token),
            started_at: claimed.claimed_at,
            duration: Duration::from_millis(5),
            exit_code: Some(0),
            result: None,
            error_class: None,
            error_message: (outcome != AttemptOutcome::Completed).then(|| "exit code 1".to_owned()),
            traceback: None,
            metrics: None,
            output: vec![OutputChunk {
                stream: "stdout",
                chunk: 0,
                content: output.into(),
                dropped_bytes: 0,
            }],
            output_bytes: i64::try_from(output.len()).unwrap(),
        },
    };
    let mut conn = app.fixture.database.clone().dedicated().await.unwrap();
    assert_eq!(attempts::end(&mut conn, &[ended], &[]).await.unwrap().len(), 1);
}

fn events(body: &str) -> Vec<(String, LogEvent)> {
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
    };
    // An incomplete event is ignored.
    let whole = body.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    whole
        .split("\n\n")
        .filter_map(|block| {
            Some((field(block, "id")?, serde_json::from_str(&field(block, "data")?).unwrap()))
        })
        .collect()
}

fn kinds(events: &[(String, LogEvent)]) -> Vec<String> {
    let word = |event: &LogEvent| match event {
        LogEvent::Output { text, dropped_bytes: 0, .. } => text.clone(),
        LogEvent::Output { text, dropped_bytes, .. } => format!("({dropped_bytes}) {text}"),
        LogEvent::Attempt { attempt, .. } => format!("attempt {attempt}"),
        LogEvent::Progress { progress, .. } => format!("progress {}", progress.message),
        LogEvent::AttemptEnd { status, .. } => status.to_string(),
        LogEvent::End { status } => format!("end {status}"),
    };
    events.iter().map(|(_, event)| word(event)).collect()
}

fn unchunked(body: &str) -> String {
    let is_size = |line: &&str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    body.split("\r\n").filter(|line| !is_size(line)).collect()
}

async fn logs(app: &TestApp, claimed: &Claimed, query: &str) -> Vec<(String, LogEvent)> {
    let answer = app.get(&format!("/api/v1/runs/{}/logs{query}", claimed.dispatch_id)).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("text/event-stream")),
        "{}",
        answer.body
    );
    events(&unchunked(&answer.body))
}

#[tokio::test(flavor = "multi_thread")]
async fn running_attempt_shows_its_output_so_far() {
    let (app, claimed) = running().await;
    write_live(&app, &claimed, (1, 0, "one\n"), Some("counting")).await;
    let seen = logs(&app, &claimed, "").await;
    assert_eq!(kinds(&seen), ["attempt 1", "one\n", "progress counting", "end running"]);
    let shown = app.get(&format!("/api/v1/runs/{}", claimed.dispatch_id)).await.json();
    assert_eq!(
        (&shown["progress"]["percent"], &shown["progress"]["message"]),
        (&json!(50.0), &json!("counting"))
    );

    end(&app, &claimed, AttemptOutcome::Completed, "one\ntwo\n").await;
    let rest = logs(&app, &claimed, &format!("?after={}", seen[1].0)).await;
    assert_eq!(kinds(&rest), ["two\n", "succeeded", "end succeeded"]);
    let nothing = logs(&app, &claimed, &format!("?after={}", rest[1].0)).await;
    assert_eq!(kinds(&nothing), ["end succeeded"]);
    assert_eq!(
        kinds(&logs(&app, &claimed, "?follow=true").await),
        ["attempt 1", "one\ntwo\n", "succeeded", "end succeeded"]
    );
    let shown = app.get("/api/v1/runs").await.json();
    assert!(shown["items"][0]["progress"].is_null(), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_shows_output_and_retries_until_the_run_ends() {
    let (app, first) = running().await;
    write_live(&app, &first, (1, 0, "one\n"), None).await;
    let (mut from, mut to) = TcpStream::connect(app.addr).await.unwrap().into_split();
    let path = format!("/api/v1/runs/{}/logs?follow=true", first.dispatch_id);
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\nconnection: close\r\n\r\n",
        app.addr,
        test_support::identity::bearer()
    );
    to.write_all(request.as_bytes()).await.unwrap();
    let mut seen = String::new();
    let mut read_until = async |word: &str| {
        let mut buffer = [0; 4096];
        while !kinds(&events(&unchunked(&seen))).iter().any(|seen| seen == word) {
            let read = tokio::time::timeout(LIMIT, from.read(&mut buffer)).await;
            let count = read.unwrap_or_else(|_| panic!("no {word} in {seen}")).unwrap();
            assert!(count > 0, "the stream ended before {word}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        kinds(&events(&unchunked(&seen)))
    };
    read_until("one\n").await;
    write_live(&app, &first, (2, 10, "two\n"), None).await;
    read_until("(6) two\n").await;
    end(&app, &first, AttemptOutcome::Failed, "one\nthree\ntwo\n").await;
    read_until("failed").await;
    app.fixture.sql("UPDATE job_dispatch SET available_at = now(), claimable_at = now()").await;
    let second = claim(&app).await;
    read_until("attempt 2").await;
    end(&app, &second, AttemptOutcome::Completed, "done\n").await;
    let all = read_until("end succeeded").await;
    assert_eq!(
        all,
        ["attempt 1", "one\n", "(6) two\n", "failed", "attempt 2", "done\n", "succeeded", "end succeeded"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_run_or_position_is_refused() {
    let (app, claimed) = running().await;
    let nobody = format!("/api/v1/runs/{}/logs?follow=true", Uuid::nil());
    assert_eq!(app.get(&nobody).await.json()["code"], "not_found");
    let path = format!("/api/v1/runs/{}/logs", claimed.dispatch_id);
    assert_eq!(app.get(&format!("{path}?after=7")).await.json()["code"], "invalid_parameters");
    assert_eq!(app.get(&format!("{path}?tail=7")).await.status, 400);
    let seen = logs(&app, &claimed, "").await;
    assert!(matches!(seen.last(), Some((_, LogEvent::End { status: RunStatus::Running }))));
}

async fn next_attempt(app: &TestApp, claimed: &Claimed, output: &str) -> Claimed {
    end(app, claimed, AttemptOutcome::Failed, output).await;
    let due = "UPDATE job_dispatch SET available_at = now(), claimable_at = now()";
    app.fixture.sql(due).await;
    claim(app).await
}

#[tokio::test(flavor = "multi_thread")]
async fn much_output_of_many_attempts_is_sent_in_pages() {
    let (app, first) = running().await;
    let output = "x".repeat(900_000);
    let second = next_attempt(&app, &first, &output).await;
    let third = next_attempt(&app, &second, &output).await;
    end(&app, &third, AttemptOutcome::Completed, &output).await;
    let answer = app.get(&format!("/api/v1/runs/{}/logs", first.dispatch_id)).await;
    let pages = answer.body.split("\r\n").map(str::len).max().unwrap();
    assert!((900_000..2_000_000).contains(&pages), "a page of {pages} bytes");
    let seen = events(&unchunked(&answer.body));
    let texts =
        seen.iter().filter(|(_, event)| matches!(event, LogEvent::Output { text, .. } if *text == output));
    assert_eq!(texts.count(), 3);
    assert!(matches!(seen.last(), Some((_, LogEvent::End { status: RunStatus::Succeeded }))));
}

async fn open_stream(app: &TestApp, claimed: &Claimed, query: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(app.addr).await.unwrap();
    let path = format!("/api/v1/runs/{}/logs{query}", claimed.dispatch_id);
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\nconnection: close\r\n\r\n",
        app.addr,
        test_support::identity::bearer()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    tokio::time::timeout(LIMIT, stream.read_exact(&mut head)).await.unwrap().unwrap();
    (stream, String::from_utf8_lossy(&head).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn log_readers_are_limited() {
    let (app, claimed) = running().await;
    let mut followers = Vec::new();
    loop {
        let (stream, head) = open_stream(&app, &claimed, "?follow=true").await;
        if head == "HTTP/1.1 429" {
            break;
        }
        followers.push(stream);
        assert!(followers.len() <= 1_000, "no bound");
    }
    assert_eq!(
        open_stream(&app, &claimed, "").await.1,
        "HTTP/1.1 429",
        "a reader without `follow` counts as well"
    );
    drop(followers);
    wait_for("there is room", LIMIT, async || match open_stream(&app, &claimed, "").await.1 {
        head if head == "HTTP/1.1 200" => Ok(()),
        head => Err(head),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_between_two_polls_is_not_missed() {
    let (app, first) = running().await;
    let (mut stream, _) = open_stream(&app, &first, "?follow=true").await;
    let mut seen = String::new();
    let mut read_until = async |words_wanted: usize| {
        let mut buffer = [0; 4096];
        while kinds(&events(&unchunked(&seen))).len() < words_wanted {
            let read = tokio::time::timeout(LIMIT, stream.read(&mut buffer)).await;
            let count = read.unwrap_or_else(|_| panic!("no {words_wanted} events in {seen}")).unwrap();
            assert!(count > 0, "the stream ended: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        kinds(&events(&unchunked(&seen)))
    };
    end(&app, &first, AttemptOutcome::Failed, "one\n").await;
    read_until(3).await;
    // In one transaction, so that no poll sees the run.
    let client = app.fixture.client().await;
    client
        .batch_execute(
            "BEGIN;
             UPDATE job_dispatch SET attempt = attempt + 1, retry_count = 2;
             INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at,
                                            duration_ms, claim_token, triggered_by)
             SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid, tenant_id, job_id, id, 2, 'FAILED', scheduled_for, clock_timestamp(),
                    clock_timestamp(), 0, 7, 'api'
             FROM job_dispatch;
             COMMIT",
        )
        .await
        .unwrap();
    let all = read_until(5).await;
    assert_eq!(all, ["attempt 1", "one\n", "failed", "attempt 2", "failed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_stream_ends_on_revocation() {
    let (app, claimed) = running().await;
    write_live(&app, &claimed, (1, 0, "one\n"), None).await;
    let (mut from, mut to) = TcpStream::connect(app.addr).await.unwrap().into_split();
    let request = format!(
        "GET /api/v1/runs/{}/logs?follow=true HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\n\r\n",
        claimed.dispatch_id,
        app.addr,
        test_support::identity::bearer()
    );
    to.write_all(request.as_bytes()).await.unwrap();
    let mut buffer = [0; 4096];
    assert!(from.read(&mut buffer).await.unwrap() > 0);
    app.fixture.sql("UPDATE api_keys SET revoked_at = now()").await;
    let mut seen = String::new();
    while !seen.ends_with("0\r\n\r\n") {
        let count = tokio::time::timeout(LIMIT, from.read(&mut buffer)).await.unwrap().unwrap();
        assert!(count > 0, "the connection ended before the stream: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert!(!seen.contains("event: end"), "{seen}");
}

//! What a dead letter shows of its last failure.

use sched_model::domain::attempt::{AttemptDecision, AttemptOutcome};
use sched_model::domain::ids::execution_id;
use sched_model::domain::run_state::DispatchEvent;
use sched_model::running::attempts::OutputChunk;
use test_support::fixture::ended;

use crate::support::{Request, TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_has_output_tail_and_url() {
    let app = TestApp::start_with(&[("PUBLIC_URL", "https://sched.example.com/")]).await;
    app.with_jobs(&["nightly"]).await;
    app.send(Request::post("/api/v1/jobs/nightly/trigger")).await;
    let worker = app.fixture.worker().await;
    let claimed = app.fixture.claim(worker, 1).await.pop().unwrap();
    let attempt = execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token);
    let chunk = |stream, content: &str| OutputChunk {
        stream,
        chunk: 0,
        content: content.to_owned(),
        dropped_bytes: 0,
    };
    let mut end = ended(&claimed, AttemptOutcome::Failed)
        .record(|record| {
            record.execution_id = attempt;
            record.output = vec![
                chunk("stdout", "dumping\n"),
                chunk("stderr", "\u{1b}[31mFATAL: database \"nosuchdb\" does not exist\u{1b}[0m\n"),
            ];
        })
        .build();
    end.verdict = AttemptDecision { event: DispatchEvent::GiveUp, wait: None };
    assert_eq!(app.fixture.end(&[end], &[]).await.len(), 1);

    let run = claimed.dispatch_id.to_string();
    let url = format!("https://sched.example.com/api/v1/runs/{run}");
    let shown = app.get(&format!("/api/v1/dead-letters/{run}")).await.json();
    assert_eq!(shown["output_tail"], "FATAL: database \"nosuchdb\" does not exist", "{shown}");
    assert_eq!((&shown["url"], &shown["attempt_id"]), (&url.clone().into(), &attempt.to_string().into()));
    let listed = app.get("/api/v1/dead-letters").await.json();
    assert_eq!(listed["items"][0]["url"], url, "{listed}");
    assert!(listed["items"][0].get("output_tail").is_none(), "{listed}");
}

//! Ends of attempts: their effect on the run, and the fence of the claim token.

use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{ClaimToken, ExecutionId};
use sched_model::running::attempts::{self, OutputChunk};
use test_support::fixture::{Fixture, QUEUE, ended};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_attempt_leaves_history_output_and_counters() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let mut success = ended(&claimed, AttemptOutcome::Completed).build();
    success.record.output = ["one", "two"]
        .into_iter()
        .zip(0..)
        .map(|(text, chunk)| OutputChunk { stream: "stdout", chunk, content: text.into(), dropped_bytes: 7 })
        .collect();
    success.record.output_bytes = 20;
    assert_eq!(world.end(&[success], &[claimed.claim_id]).await, [claimed.dispatch_id]);

    let dispatch =
        "SELECT status, completed_at IS NOT NULL, claimable_at, retry_count, error_message FROM job_dispatch";
    assert_eq!(world.rows(dispatch).await, [["COMPLETED", "t", "-", "0", "-"]]);
    let history =
        "SELECT status, attempt, duration_ms, completed_at - started_at, exit_code, result, output_bytes,
                          project_id IS NOT NULL FROM job_execution_log";
    let expected = ["COMPLETED", "1", "1500", "00:00:01.5", "0", r#"{"n": 1}"#, "20", "t"];
    assert_eq!(world.rows(history).await, [expected]);
    let output = "SELECT stream, chunk, content, dropped_bytes FROM job_execution_output ORDER BY chunk";
    assert_eq!(world.rows(output).await, [["stdout", "0", "one", "7"], ["stdout", "1", "two", "7"]]);
    let job = "SELECT last_status, last_run_at IS NOT NULL, active_dispatches FROM scheduled_jobs";
    assert_eq!(world.rows(job).await, [["COMPLETED", "t", "0"]]);
    assert_eq!(
        world.number("SELECT count(*) FROM worker_claims").await,
        0,
        "the finished claim is forgotten"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_changes_nothing() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let before = world.rows("SELECT d.*, j.* FROM job_dispatch d, scheduled_jobs j").await;
    let mut forged = ended(&claimed, AttemptOutcome::Completed).build();
    forged.token = ClaimToken(claimed.token.0 + 1);
    forged.record.output =
        vec![OutputChunk { stream: "log", chunk: 0, content: "text".into(), dropped_bytes: 0 }];
    assert!(world.end(&[forged], &[]).await.is_empty());
    assert_eq!(world.rows("SELECT d.*, j.* FROM job_dispatch d, scheduled_jobs j").await, before);
    assert_eq!(world.number("SELECT count(*) FROM job_execution_log").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM job_execution_output").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_twice_is_harmless() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let success = ended(&claimed, AttemptOutcome::Completed).build();
    assert_eq!(world.end(std::slice::from_ref(&success), &[claimed.claim_id]).await.len(), 1);
    assert!(world.end(std::slice::from_ref(&success), &[claimed.claim_id]).await.is_empty());
    assert_eq!(world.number("SELECT count(*) FROM job_execution_log").await, 1);
    world.assert_counters_are_true().await;

    let (done, never) = (success.record.execution_id, ExecutionId(Uuid::now_v7()));
    let mut conn = world.conn().await;
    let known = attempts::was_ended(&mut conn, &[never, done], claimed.claimed_at).await.unwrap();
    assert_eq!(known, [done]);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_end_beside_the_next_end_is_ignored() {
    let world = Fixture::new().await;
    let first = world.running("hourly").await;
    let mut failure = ended(&first, AttemptOutcome::Failed).build();
    failure.record.output =
        vec![OutputChunk { stream: "log", chunk: 0, content: "text".into(), dropped_bytes: 0 }];
    assert_eq!(world.end(std::slice::from_ref(&failure), &[]).await.len(), 1);
    world.skip_waits().await;
    let worker = world.worker().await;
    let second = world.claim(worker, 1).await.pop().unwrap();
    assert_eq!((second.dispatch_id, second.attempt), (first.dispatch_id, 2));

    let success = ended(&second, AttemptOutcome::Completed).build();
    assert_eq!(world.end(&[failure, success], &[]).await, [first.dispatch_id]);
    let history = "SELECT attempt, status FROM job_execution_log ORDER BY attempt";
    assert_eq!(world.rows(history).await, [["1", "FAILED"], ["2", "COMPLETED"]]);
    assert_eq!(world.text("SELECT status FROM job_dispatch").await, "COMPLETED");
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_attempt_waits_before_its_retry() {
    let world = Fixture::new().await;
    let first = world.running("hourly").await;
    let failure = ended(&first, AttemptOutcome::Failed).build();
    let wait = failure.verdict.wait.unwrap().as_millis();
    assert!(wait >= 10_000, "{wait}");
    world.sql("CREATE TABLE test_before AS SELECT clock_timestamp() AS at").await;
    world.end(&[failure], &[]).await;
    let retry = format!(
        "SELECT status, retry_count, error_message, available_at = claimable_at, completed_at,
                available_at - at >= {wait} * interval '1 ms', available_at - clock_timestamp() <= {wait} * interval '1 ms'
         FROM job_dispatch, test_before"
    );
    assert_eq!(world.rows(&retry).await, [["PENDING", "1", "it FAILED", "t", "-", "t", "t"]]);
    let job = "SELECT last_status, last_run_at IS NOT NULL, active_dispatches FROM scheduled_jobs";
    assert_eq!(world.rows(job).await, [["-", "t", "1"]], "the dispatch is still open");

    let worker = world.worker().await;
    assert!(world.claim(worker, 1).await.is_empty(), "it is not due yet");
    world.skip_waits().await;
    let second = world.claim(worker, 1).await.pop().unwrap();
    assert_eq!((second.attempt, second.failures.retried, second.failures.lost), (2, 1, 0));
    world.end(&[ended(&second, AttemptOutcome::Completed).build()], &[]).await;
    assert_eq!(world.rows("SELECT status, error_message FROM job_dispatch").await, [["COMPLETED", "-"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn last_attempt_decides_the_state_of_the_run() {
    let world = Fixture::new().await;
    let table = [
        ("one-failure", AttemptOutcome::Failed, 1, "FAILED"),
        ("one-timeout", AttemptOutcome::Timeout, 1, "TIMEOUT"),
        ("cancelled", AttemptOutcome::Cancelled, 9, "CANCELLED"),
        ("all-failures", AttemptOutcome::Failed, 3, "DEAD_LETTER"),
        ("poison", AttemptOutcome::Lost, 100, "DEAD_LETTER"),
    ];
    for (name, outcome, max_attempts, expected) in table {
        let mut claimed = world.running(name).await;
        let worker = world.worker().await;
        loop {
            let attempt = ended(&claimed, outcome).max_attempts(max_attempts).build();
            let is_last = attempt.verdict.wait.is_none();
            assert_eq!(world.end(&[attempt], &[]).await, [claimed.dispatch_id]);
            if is_last {
                break;
            }
            world.skip_waits().await;
            claimed = world.claim(worker, 1).await.pop().unwrap();
        }
        let found = format!(
            "SELECT d.status, j.last_status, d.error_message, j.active_dispatches
             FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id WHERE j.name = '{name}'"
        );
        assert_eq!(
            world.rows(&found).await,
            [[expected, expected, &format!("it {}", outcome.as_str()), "0"]]
        );
    }
    let counts =
        "SELECT retry_count, lost_count, attempt FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id
                  WHERE j.name = 'poison'";
    assert_eq!(world.rows(counts).await, [["2", "3", "3"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn released_run_waits_at_once_without_a_retry() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    world
        .end(&[ended(&claimed, AttemptOutcome::Released).max_attempts(1).build()], &[claimed.claim_id])
        .await;
    let dispatch =
        "SELECT status, retry_count, lost_count, claimable_at <= clock_timestamp() FROM job_dispatch";
    assert_eq!(world.rows(dispatch).await, [["PENDING", "0", "0", "t"]]);
    let worker = world.worker().await;
    let again = world.claim(worker, 1).await.pop().unwrap();
    assert_eq!((again.dispatch_id, again.attempt), (claimed.dispatch_id, 2));
    assert!(again.token > claimed.token);
    assert_eq!(world.rows("SELECT status FROM job_execution_log").await, [["RELEASED"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_with_nul_is_rejected() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let mut success = ended(&claimed, AttemptOutcome::Completed).build();
    success.record.output =
        vec![OutputChunk { stream: "log", chunk: 0, content: "a\0b".into(), dropped_bytes: 0 }];
    let refused = attempts::end(&mut world.conn().await, &[success], &[]).await;
    assert!(refused.as_ref().is_err_and(|error| !error.is_outage() && !error.is_retryable()), "{refused:?}");
    let open =
        format!("SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS' AND queue = '{QUEUE}'");
    assert_eq!(world.number(&open).await, 1, "the worker removes NUL");
}

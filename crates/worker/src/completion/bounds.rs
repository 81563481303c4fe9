//! Tests: the bounds of the completer, without a database.

use sched_model::domain::attempt::{AttemptDecision, AttemptOutcome};
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId};
use sched_model::domain::run_state::DispatchEvent;
use uuid::Uuid;

use super::*;
use crate::attempt::fixture::job_columns;
use crate::backend::{DbError, OutputChunk, Record};
use crate::completion::retry_budget::RetryBudget;

fn with_output(bytes: usize) -> Ended {
    let content = "x".repeat(bytes);
    let output = vec![OutputChunk { stream: "stdout", chunk: 0, content, dropped_bytes: 0 }];
    Ended {
        dispatch_id: DispatchId(Uuid::new_v4()),
        tenant_id: TenantId(Uuid::nil()),
        job_id: JobId(Uuid::nil()),
        job: job_columns("job"),
        token: ClaimToken(1),
        outcome: AttemptOutcome::Completed,
        verdict: AttemptDecision { event: DispatchEvent::Succeed, wait: None },
        record: Record {
            execution_id: ExecutionId(Uuid::new_v4()),
            started_at: chrono::DateTime::UNIX_EPOCH,
            duration: Duration::from_secs(1),
            exit_code: None,
            result: None,
            error_class: None,
            error_message: None,
            traceback: None,
            metrics: None,
            output,
            output_bytes: 0,
        },
    }
}

fn completer() -> (Completer, CompleterHandle) {
    let slots = Arc::new(tokio::sync::Semaphore::new(10));
    Completer::new(Backend::unreachable(), Arc::new(Counters::new()), Arc::default(), slots)
}

#[tokio::test]
async fn transaction_is_bounded_by_bytes() {
    let (mut completer, handle) = completer();
    for _ in 0..5 {
        handle.send(None, with_output(MAX_BYTES / 2), None).await;
    }
    let mut sizes = Vec::new();
    for _ in 0..3 {
        assert!(completer.gather().await);
        sizes.push(std::mem::take(&mut completer.batch).len());
    }
    assert_eq!(sizes, [2, 2, 1]);
}

#[tokio::test]
async fn kept_results_are_bounded_by_bytes() {
    let (_completer, handle) = completer();
    let first = handle.room_for(KEPT_BYTES - 10 * UNIT_BYTES).await;
    let small = handle.room_for(100).await;
    assert!(futures_util::FutureExt::now_or_never(handle.room_for(10 * UNIT_BYTES)).is_none());
    drop(small);
    drop(first);
    assert!(
        handle.room_for(2 * KEPT_BYTES).await.is_some(),
        "a result larger than the bound takes all of it"
    );
}

#[tokio::test]
async fn results_without_room_are_dropped_when_the_worker_stops() {
    let (_completer, handle) = completer();
    for _ in 0..MAX_RESULTS {
        handle.send(None, with_output(1), None).await;
    }
    let all = handle.room_for(KEPT_BYTES).await;
    let (waiting, no_room) = (handle.send(None, with_output(1), None), handle.room_for(1));
    let gives_up = async { handle.give_up() };
    let ((), room, ()) = tokio::join!(waiting, no_room, gives_up);
    assert!(all.is_some() && room.is_none());
    assert_eq!(handle.flushed().await, MAX_RESULTS + 1, "none is stored");
}

#[test]
fn unanswered_results_are_halved() {
    let mut budget = RetryBudget::new();
    let away = || DbError::Unavailable("reset".into());
    assert_eq!([(); 3].map(|()| budget.is_unanswered(&away())), [false, false, true]);
    assert!(!budget.is_unanswered(&DbError::NotFound), "an answer");
    assert!(!budget.is_unanswered(&away()), "the count restarts");
}

#[test]
fn size_of_a_result_includes_its_output() {
    let mut ended = with_output(100);
    ended.record.result = Some(serde_json::json!({"text": "y".repeat(50), "list": ["z".repeat(25)]}));
    assert!((175..300).contains(&bytes_of(&ended)), "{}", bytes_of(&ended));
}

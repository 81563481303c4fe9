//! What the completer gathers and keeps, without a database.

use sched_model::domain::attempt::{AttemptOutcome, Verdict};
use sched_model::domain::dispatch::DispatchEvent;
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId};
use sched_model::running::attempts::{OutputChunk, Record};
use sched_model::{DatabaseSettings, DbError};
use uuid::Uuid;

use super::*;
use crate::completion::retry_budget::Patience;

/// An attempt that wrote that many bytes.
fn chatty(bytes: usize) -> Ended {
    let content = "x".repeat(bytes);
    let output = vec![OutputChunk { stream: "stdout", chunk: 0, content, dropped_bytes: 0 }];
    Ended {
        dispatch_id: DispatchId(Uuid::new_v4()),
        tenant_id: TenantId(Uuid::nil()),
        job_id: JobId(Uuid::nil()),
        token: ClaimToken(1),
        outcome: AttemptOutcome::Completed,
        verdict: Verdict { event: DispatchEvent::Succeed, wait: None },
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

/// One whose database is nowhere.
fn completer() -> (Completer, CompleterHandle) {
    let database = Database::new(&DatabaseSettings::new("postgres://nobody@127.0.0.1:1/none", "test"));
    let slots = Arc::new(tokio::sync::Semaphore::new(10));
    Completer::new(database.unwrap(), Arc::new(Seen::new()), Arc::default(), slots)
}

#[tokio::test]
async fn a_transaction_is_bounded_by_the_size_of_its_results_and_not_only_by_their_number() {
    let (mut completer, handle) = completer();
    for _ in 0..5 {
        handle.send(None, chatty(MOST_BYTES / 2), None).await;
    }
    let mut sizes = Vec::new();
    for _ in 0..3 {
        assert!(completer.gather().await);
        sizes.push(std::mem::take(&mut completer.batch).len());
    }
    assert_eq!(sizes, [2, 2, 1]);
}

#[tokio::test]
async fn results_that_are_kept_are_bounded_by_their_size() {
    let (_completer, handle) = completer();
    let first = handle.room_for(KEPT_BYTES - 10 * UNIT_BYTES).await;
    let small = handle.room_for(100).await;
    assert!(futures_util::FutureExt::now_or_never(handle.room_for(10 * UNIT_BYTES)).is_none());
    drop(small);
    drop(first);
    assert!(handle.room_for(2 * KEPT_BYTES).await.is_some(), "one that is larger than all takes all");
}

#[tokio::test]
async fn results_that_find_no_room_are_given_up_when_the_worker_stops() {
    let (_completer, handle) = completer();
    for _ in 0..MOST_AT_ONCE {
        handle.send(None, chatty(1), None).await;
    }
    let all = handle.room_for(KEPT_BYTES).await;
    let (waiting, no_room) = (handle.send(None, chatty(1), None), handle.room_for(1));
    let gives_up = async { handle.give_up() };
    let ((), room, ()) = tokio::join!(waiting, no_room, gives_up);
    assert!(all.is_some() && room.is_none());
    assert_eq!(handle.flushed().await, MOST_AT_ONCE + 1, "nobody has stored any");
}

#[test]
fn results_that_get_no_answer_again_and_again_are_offered_in_halves() {
    let mut patience = Patience::new();
    let away = || DbError::Unavailable("reset".into());
    assert_eq!([(); 3].map(|()| patience.is_unanswered(&away())), [false, false, true]);
    assert!(!patience.is_unanswered(&DbError::NotFound), "an answer");
    assert!(!patience.is_unanswered(&away()), "counted anew");
}

#[test]
fn what_a_result_holds_is_counted_with_its_output() {
    let mut ended = chatty(100);
    ended.record.result = Some(serde_json::json!({"text": "y".repeat(50), "list": ["z".repeat(25)]}));
    assert!((175..300).contains(&bytes_of(&ended)), "{}", bytes_of(&ended));
}

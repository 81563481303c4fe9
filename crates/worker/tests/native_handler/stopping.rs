//! Handlers that a deadline or a cancellation stops, gracefully or by force.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;

use sched_worker::handlers::Outcome;
use sched_worker::testing::TestRun;
use sched_worker::{Ctx, HandlerError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(3600);

/// Returns a partial value after a stop.
async fn polite(ctx: Ctx, _: Value) -> Result<&'static str, HandlerError> {
    ctx.cancelled().await;
    Ok("half of it")
}

#[tokio::test(start_paused = true)]
async fn timed_out_handler_may_return_a_value() {
    let report = TestRun::new(polite).timeout(Duration::from_secs(5)).run().await;
    assert_eq!((report.outcome, report.error_class), (Outcome::TimedOut, Some("timeout")));
    assert_eq!(report.result, Some(json!("half of it")));
    assert_eq!(report.error_message.as_deref(), Some("timed out after 5s; returned within the grace period"));
}

#[tokio::test(start_paused = true)]
async fn cancelled_handler_is_notified_at_once() {
    let cancel = CancellationToken::new();
    let run = TestRun::new(polite).timeout(LONG).cancelled_by(cancel.clone()).run();
    let (report, ()) = tokio::join!(run, async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!((report.outcome, report.error_class), (Outcome::Cancelled, Some("cancelled")));
    assert_eq!(report.error_message.as_deref(), Some("cancelled; returned within the grace period"));

    let never_begun = TestRun::new(polite).cancelled_by(cancel).run().await;
    assert_eq!(never_begun.error_message.as_deref(), Some("cancelled before it started"));
}

#[tokio::test(start_paused = true)]
async fn error_within_the_grace_period_is_reported() {
    let run = TestRun::new(|ctx: Ctx, _: Value| async move {
        ctx.cancelled().await;
        Err::<(), HandlerError>("rolled back".into())
    });
    let report = run.timeout(Duration::from_secs(1)).run().await;
    assert_eq!(report.outcome, Outcome::TimedOut);
    let message = "timed out after 1s; ended within the grace period: rolled back";
    assert_eq!(report.error_message.as_deref(), Some(message));
}

#[tokio::test(start_paused = true)]
async fn unresponsive_handler_is_dropped_after_the_grace_period() {
    let (dropped, was_dropped) = mpsc::channel::<()>();
    let run = TestRun::new(move |ctx: Ctx, _: Value| {
        let guard = dropped.clone();
        async move {
            ctx.log("waiting");
            pending::<()>().await;
            drop(guard);
            Ok::<_, HandlerError>(())
        }
    });
    let report = run.timeout(Duration::from_secs(1)).grace_seconds(3).run().await;
    assert_eq!(report.outcome, Outcome::TimedOut);
    let message = "timed out after 1s; dropped after the grace period of 3s";
    assert_eq!(report.error_message.as_deref(), Some(message));
    assert_eq!(report.log, "waiting\n");
    // The handler's sender is dropped with its future, the closure's with the run.
    assert_eq!(was_dropped.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

#[tokio::test]
async fn blocking_handler_stops_when_it_checks_cancellation() {
    let run = TestRun::blocking(|ctx: Ctx, _: Value| {
        while !ctx.is_cancelled() {
            std::thread::yield_now();
        }
        Ok::<_, HandlerError>(ctx.remaining().is_zero())
    });
    let report = run.timeout(Duration::from_millis(50)).run().await;
    assert_eq!((report.outcome, report.result), (Outcome::TimedOut, Some(json!(true))));
}

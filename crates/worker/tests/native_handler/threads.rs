//! Handlers on separate threads: blocking handlers delay no other code, and are reported.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sched_worker::handlers::native::{NativeHandler, Registry};
use sched_worker::handlers::{ErrorClass, Execution, Live, Outcome, Report, Secrets};
use sched_worker::{Ctx, HandlerError};
use serde_json::{Value, json};
use test_support::wait_for;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(30);

fn execution(config: Value, timeout: Duration) -> Execution {
    Execution {
        tenant_id: Uuid::new_v4(),
        run_id: Uuid::from_u128(0xd),
        project_id: None,
        job_id: Uuid::from_u128(0xb),
        attempt_id: Uuid::new_v4(),
        job_name: "test".into(),
        attempt: 1,
        fire_time: "2026-11-21T04:05:06Z".parse().unwrap(),
        lateness_ms: 0,
        catch_up: false,
        trigger: "api",
        details: None,
        idempotency_key: "key".into(),
        args: json!({}),
        timeout,
        traceparent: None,
        handler_config: config,
        live: Live::detached(),
        secrets: Secrets::default(),
        upstream: None,
    }
}

async fn run(handler: &NativeHandler, config: Value, timeout: Duration) -> Report {
    handler.run(execution(config, timeout), &CancellationToken::new()).await
}

fn message(report: &Report) -> &str {
    report.error_message.as_deref().unwrap()
}

/// Handlers `block` (blocks its thread until a message), `blocking` (the same on a separate thread)
/// and `quick`. All share one thread.
fn blocked() -> (mpsc::Sender<()>, NativeHandler) {
    let (release, released) = mpsc::channel();
    let released = Arc::new(Mutex::new(released));
    let wait = move || released.lock().unwrap().recv().map_err(HandlerError::from);
    let wait_too = wait.clone();
    let mut registry = Registry::default();
    registry
        .add("block", move |_, _: Value| {
            let wait = wait.clone();
            async move { wait() }
        })
        .unwrap();
    registry.add_blocking("blocking", move |_, _: Value| wait_too()).unwrap();
    registry.add("quick", |_, _: Value| async { Ok::<_, HandlerError>("done") }).unwrap();
    (release, NativeHandler::new(registry, 1).unwrap())
}

// A handler that blocked this thread would stop the test.
#[tokio::test(flavor = "current_thread")]
async fn blocked_thread_delays_only_other_handlers() {
    let (release, handler) = blocked();
    let tenth = Duration::from_millis(100);
    let stuck = json!({"handler": "block", "grace_seconds": 0});
    let report = run(&handler, stuck, tenth).await;
    assert_eq!((report.outcome, report.error_class), (Outcome::TimedOut, Some(ErrorClass::Timeout)));
    assert!(message(&report).contains("still running after"), "{}", message(&report));
    assert_eq!(report.notes, ["a native handler does not stop and keeps its thread"]);
    assert_eq!(handler.alive(), 1);
    assert!(!handler.ended_within(tenth).await);

    let report = run(&handler, json!({"handler": "quick", "grace_seconds": 0}), tenth).await;
    assert_eq!((report.outcome, report.started_after), (Outcome::TimedOut, None));
    assert!(message(&report).contains("never began"), "{}", message(&report));

    release.send(()).unwrap();
    assert!(handler.ended_within(PATIENCE).await);
    let report = run(&handler, json!({"handler": "quick"}), PATIENCE).await;
    assert_eq!(report.result, Some(json!("done")), "{report:?}");
    assert!(report.started_after.is_some());
}

#[tokio::test(flavor = "current_thread")]
async fn blocking_handler_delays_no_other_handler() {
    let (release, handler) = blocked();
    let others = async {
        let report = run(&handler, json!({"handler": "quick"}), PATIENCE).await;
        assert_eq!(report.outcome, Outcome::Succeeded);
        release.send(()).unwrap();
    };
    let (report, ()) = tokio::join!(run(&handler, json!({"handler": "blocking"}), PATIENCE), others);
    assert_eq!(report.outcome, Outcome::Succeeded, "{report:?}");
}

#[tokio::test]
async fn dropped_attempt_is_cancelled() {
    let mut registry = Registry::default();
    let begun = CancellationToken::new();
    let begins = begun.clone();
    let until_cancelled = move |ctx: Ctx, _: Value| {
        begins.cancel();
        while !ctx.is_cancelled() {
            std::thread::yield_now();
        }
        Ok::<_, HandlerError>(())
    };
    registry.add_blocking("until_cancelled", until_cancelled).unwrap();
    let handler = NativeHandler::new(registry, 1).unwrap();
    tokio::select! {
        _ = run(&handler, json!({"handler": "until_cancelled"}), PATIENCE) => panic!("the attempt ended"),
        () = begun.cancelled() => {}
    }
    wait_for("the handler ends", PATIENCE, async || match handler.alive() {
        0 => Ok(()),
        alive => Err(format!("{alive} alive")),
    })
    .await;
}

#[tokio::test]
async fn unknown_handler_error_lists_known_names() {
    let (_release, handler) = blocked();
    let report = run(&handler, json!({"handler": "billing"}), PATIENCE).await;
    assert_eq!((report.outcome, report.error_class), (Outcome::Failed, Some(ErrorClass::UnknownHandler)));
    assert!(
        message(&report).contains("\"billing\"; it has: block, blocking, quick."),
        "{}",
        message(&report)
    );
    let none = NativeHandler::new(Registry::default(), 1).unwrap();
    let report = run(&none, json!({"handler": "billing"}), PATIENCE).await;
    assert!(message(&report).contains("it has: none."), "{}", message(&report));
}

#[tokio::test]
async fn configuration_without_handler_name_is_rejected() {
    let (_release, handler) = blocked();
    let report = run(&handler, json!({"program": "true"}), PATIENCE).await;
    assert_eq!(report.error_class, Some(ErrorClass::InvalidConfig));
}

#[tokio::test]
async fn long_log_keeps_head_and_tail() {
    let mut registry = Registry::default();
    let chatty = |ctx: Ctx, _: Value| async move {
        for line in 0..1000 {
            ctx.log(format!("line {line:03}"));
        }
        Ok::<_, HandlerError>(())
    };
    registry.add("chatty", chatty).unwrap();
    let handler = NativeHandler::new(registry, 1).unwrap();
    let report = run(&handler, json!({"handler": "chatty", "max_output_bytes": 90}), PATIENCE).await;
    assert_eq!(report.log.total_bytes, 9000);
    assert!(report.log.head.starts_with("line 000\nline 001\n"), "{}", report.log.head);
    assert!(report.log.tail.ends_with("line 998\nline 999\n"), "{}", report.log.tail);
    assert_eq!(report.log.dropped_bytes, 8910);
}

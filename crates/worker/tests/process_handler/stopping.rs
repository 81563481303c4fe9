//! Stops: the soft signal, the grace period, the kill.

use std::time::Duration;

use sched_worker::handlers::{ErrorClass, Outcome};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Bench, alive_with, cancel_when_sleeping, entries, execution, shell, token, wait_for, wait_for_silence,
    wait_for_sleepers, within,
};

#[tokio::test]
async fn timeout_kills_the_whole_group() {
    let (bench, token) = (Bench::new(), token());
    let mut execution = execution(shell(&format!("sleep {token} & sleep {token}")));
    execution.timeout = Duration::from_secs(2);
    let (report, ()) = tokio::join!(bench.run(execution), wait_for_sleepers(&token, 2));
    assert_eq!((report.outcome, report.error_class), (Outcome::TimedOut, Some(ErrorClass::Timeout)));
    assert_eq!(report.error_message.as_deref(), Some("timed out after 2s; ended within the grace period"));
    assert!(
        report.elapsed >= Duration::from_secs(2) && report.elapsed < Duration::from_secs(15),
        "{report:?}"
    );
    assert_eq!(alive_with(&token), Vec::<u32>::new());
    assert_eq!(entries(bench.root.path()), 0);
}

#[tokio::test]
async fn cancelled_program_may_clean_up() {
    let (bench, token) = (Bench::new(), token());
    let command = format!("trap 'echo tidied; exit 0' TERM; sleep {token} & wait");
    let report = cancel_when_sleeping(&bench, shell(&command), &token, 1).await;
    assert_eq!((report.outcome, report.exit_code), (Outcome::Cancelled, Some(0)));
    assert_eq!((report.stdout.head.as_str(), report.error_class), ("tidied\n", Some(ErrorClass::Cancelled)));
    assert_eq!(report.error_message.as_deref(), Some("cancelled; ended within the grace period"));
}

#[tokio::test]
async fn background_process_gets_the_grace_period_too() {
    let (bench, token) = (Bench::new(), token());
    // The trap is set before the sleep.
    let tidy =
        format!("trap 'sleep 0.3; echo tidied; exit' TERM; sleep {token} & while :; do sleep 0.05; done");
    let report = cancel_when_sleeping(&bench, shell(&format!("({tidy}) & sleep 1000")), &token, 1).await;
    assert_eq!((report.outcome, report.stdout.head.as_str()), (Outcome::Cancelled, "tidied\n"));
    assert!(report.elapsed < Duration::from_secs(15), "{:?}", report.elapsed);
}

#[tokio::test]
async fn program_ignoring_sigterm_is_killed_after_the_grace_period() {
    let (bench, token) = (Bench::new(), token());
    let command = format!("trap '' TERM; sleep {token} & while :; do sleep 0.05; done");
    let config = json!({"shell": true, "command": command, "grace_seconds": 1});
    let report = cancel_when_sleeping(&bench, config, &token, 1).await;
    assert_eq!((report.outcome, report.exit_code), (Outcome::Cancelled, None));
    assert_eq!(report.error_message.as_deref(), Some("cancelled; killed after the grace period of 1s"));
    assert!(report.elapsed >= Duration::from_secs(1), "{:?}", report.elapsed);
    assert_eq!(alive_with(&token), Vec::<u32>::new());
}

#[tokio::test]
async fn zero_grace_period_kills_at_once() {
    let (bench, token) = (Bench::new(), token());
    let command = format!("trap '' TERM; sleep {token} & while :; do sleep 0.05; done");
    let config = json!({"shell": true, "command": command, "grace_seconds": 0});
    let report = within(Duration::from_secs(20), cancel_when_sleeping(&bench, config, &token, 1)).await;
    assert_eq!((report.outcome, alive_with(&token)), (Outcome::Cancelled, Vec::new()));
}

#[tokio::test]
async fn a_stopped_process_is_killed_too() {
    let (bench, token) = (Bench::new(), token());
    let config =
        json!({"shell": true, "command": format!("sleep {token} & kill -STOP $$"), "grace_seconds": 1});
    let report = cancel_when_sleeping(&bench, config, &token, 1).await;
    assert_eq!((report.outcome, alive_with(&token)), (Outcome::Cancelled, Vec::new()));
}

#[tokio::test]
async fn attempt_cancelled_before_its_start_never_runs() {
    let (bench, cancel) = (Bench::new(), CancellationToken::new());
    let proof = bench.root.path().join("ran");
    cancel.cancel();
    let report = bench.run_until(execution(json!({"program": "touch", "args": [proof]})), cancel).await;
    assert_eq!((report.outcome, report.started_after), (Outcome::Cancelled, None));
    assert!(!proof.exists());
}

#[tokio::test]
async fn dropping_the_attempt_kills_its_tree_at_once() {
    let (bench, token) = (Bench::new(), token());
    let command =
        format!("trap '' TERM; setsid sleep {token} & sleep {token} & while :; do sleep 0.05; done");
    tokio::select! {
        report = bench.run(execution(shell(&command))) => panic!("ended without being dropped: {report:?}"),
        () = wait_for_sleepers(&token, 2) => {}
    }
    wait_for_silence(&token).await;
    wait_for(|| "the private directory to go".into(), || entries(bench.root.path()) == 0).await;
}

//! What people do about work that is there: stopping it, and running again what was given up.

use std::path::Path;

use serde_json::{Value, json};
use system_tests::{Installation, PATIENCE, manual, shell_jobs};
use test_support::wait_for;

/// What was printed as JSON.
#[track_caller]
fn printed(finished: &test_support::Finished) -> Value {
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_process_is_cancelled_from_the_command_line_with_all_its_children() {
    // A lease and a poll interval that will not be what ends it.
    let mut system = Installation::with(1, 0).await;
    system.start_worker(&[("WORKER_OFFLINE_THRESHOLD", "600s"), ("WORKER_HEARTBEAT_INTERVAL", "60s")]).await;
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    // It does not hear the soft signal, so only the end of the grace ends it, with the child that it has.
    let command = format!(
        "trap '' TERM; sleep 600 & echo $$ $! > {0}.new; mv {0}.new {0}; wait; sleep 600",
        pids.display()
    );
    let mut jobs = shell_jobs(&command, &[manual("stubborn")]);
    jobs["task_functions"][0]["handler_config"]["grace_seconds"] = json!(1);
    system.apply(&jobs).await;
    let dispatch = system.trigger("stubborn").await;
    let pids = wait_for("the work to run", PATIENCE, async || {
        std::fs::read_to_string(&pids).map_err(|error| error.to_string())
    })
    .await;
    let alive = || pids.split_whitespace().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).count();
    assert_eq!(alive(), 2);
    let cancel = ["dispatches", "cancel", &dispatch, "--reason", "wrong data", "--wait", "-o", "json"];
    let shown = printed(&system.schedctl(&cancel).await);
    assert_eq!(
        (&shown["status"], &shown["error_message"]),
        (
            &json!("CANCELLED"),
            &json!(format!("cancelled by {}: wrong data", test_support::identity::actor()))
        )
    );
    wait_for("no process of it", PATIENCE, async || match alive() {
        0 => Ok(()),
        left => Err(format!("{left} of {pids}")),
    })
    .await;
    let again = printed(&system.schedctl(&["dispatches", "cancel", &dispatch, "-o", "json"]).await);
    assert_eq!(again, json!({"dispatch_id": dispatch, "state": "cancelled", "status": "CANCELLED"}));
    let attempts = "SELECT count(*) FROM job_execution_log WHERE status = 'CANCELLED'";
    assert_eq!(system.count(attempts).await, 1);
    let events = "SELECT string_agg(event_type, ' ' ORDER BY id) FROM events WHERE dispatch_id IS NOT NULL";
    assert_eq!(
        system.text(events).await,
        "schedule_execution_started dispatch_cancel_requested schedule_execution_completed"
    );
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_a_job_has_waiting_and_running_is_cancelled() {
    let system = Installation::with(1, 1).await;
    let queue = json!({"overlap_policy": "queue"});
    let (Value::Object(mut job), Value::Object(queue)) = (manual("endless"), queue) else {
        panic!("objects")
    };
    job.extend(queue);
    system.apply(&shell_jobs("sleep 600", &[Value::Object(job)])).await;
    for _ in 0..5 {
        system.trigger("endless").await;
    }
    system
        .wait_count("one running", "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'", 1)
        .await;
    let done = printed(&system.schedctl(&["jobs", "cancel", "endless", "-o", "json"]).await);
    assert_eq!(done, json!({"cancelled": 4, "requested": 1}));
    system
        .wait_count("all cancelled", "SELECT count(*) FROM job_dispatch WHERE status = 'CANCELLED'", 5)
        .await;
    assert_eq!(system.count("SELECT count(*) FROM job_execution_log").await, 1, "nothing else has run");
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_retried_by_filter_once_what_killed_them_is_mended() {
    let system = Installation::with(1, 1).await;
    let folder = tempfile::tempdir().unwrap();
    let mended = folder.path().join("mended");
    let policy = json!({"max_attempts": 2, "backoff_seconds": 0, "jitter_percent": 0});
    let mut jobs = shell_jobs(&format!("test -e {}", mended.display()), &[manual("a"), manual("b")]);
    jobs["task_functions"][0]["retry_policy"] = policy;
    system.apply(&jobs).await;
    for job in ["a", "a", "a", "b"] {
        system.trigger(job).await;
    }
    let dead = "SELECT count(*) FROM dead_letters WHERE settled_at IS NULL";
    system.wait_count("dead letters", dead, 4).await;
    let listed = printed(&system.schedctl(&["dead-letters", "list", "--job", "a", "-o", "json"]).await);
    let listed = &listed["items"];
    assert_eq!(listed.as_array().unwrap().len(), 3, "{listed}");
    assert_eq!(listed[0]["attempts"], json!(2));
    let class = listed[0]["error_class"].as_str().unwrap();
    std::fs::write(&mended, "").unwrap();
    let meant = system.schedctl(&["dead-letters", "retry", "--job", "a", "--dry-run"]).await;
    assert!(meant.status.success() && meant.stderr.contains("3 are meant"), "{meant:?}");
    let retry =
        ["dead-letters", "retry", "--job", "a", "--error-class", class, "--since", "-1h", "-o", "json"];
    assert_eq!(printed(&system.schedctl(&retry).await), json!({"count": 3, "refused": []}));
    let done = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED' AND triggered_by = 'retry'";
    system.wait_count("the retries", done, 3).await;
    assert_eq!(printed(&system.schedctl(&retry).await), json!({"count": 0, "refused": []}));
    assert_eq!(system.count(dead).await, 1, "the other job's is open still");
    let unnamed = system.schedctl(&["dead-letters", "discard"]).await;
    assert_eq!(unnamed.status.code(), Some(2), "{unnamed:?}");
    let unagreed = system.schedctl(&["dead-letters", "discard", "--all"]).await;
    assert_eq!(unagreed.status.code(), Some(2), "{unagreed:?}");
    let discard = ["dead-letters", "discard", "--all", "--yes", "--reason", "known", "-o", "json"];
    assert_eq!(printed(&system.schedctl(&discard).await), json!({"count": 1, "refused": []}));
    let discarded =
        printed(&system.schedctl(&["dead-letters", "list", "--state", "discarded", "-o", "json"]).await);
    let id = discarded["items"][0]["dispatch_id"].as_str().unwrap();
    let retried = system.schedctl(&["dispatches", "retry", id, "--wait"]).await;
    assert_eq!(retried.status.code(), Some(0), "{retried:?}");
    system.check_invariants().await;
}

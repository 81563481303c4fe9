//! Work that no worker claims: it is shown, expires if its job says so, and waits otherwise.

use serde_json::json;
use system_tests::{Installation, PATIENCE, manual, shell_jobs};
use test_support::wait_for;

#[tokio::test(flavor = "multi_thread")]
async fn work_without_a_worker_is_shown_and_expires_or_waits_for_one() {
    let mut system = Installation::with(1, 0).await;
    let urgent = json!({"name": "urgent", "job_type": "manual", "start_within_seconds": 1});
    system.apply(&shell_jobs("true", &[urgent, manual("patient")])).await;
    let dispatch = system.trigger("urgent").await;
    system.trigger("patient").await;
    let path = format!("/api/v1/runs/{dispatch}");
    wait_for("the dispatch to expire", PATIENCE, async || match system.get(&path).await {
        shown if shown["status"] == "failed" => Ok(()),
        shown => Err(shown.to_string()),
    })
    .await;
    let shown = system.get(&path).await;
    assert_eq!((&shown["attempt"], shown["expires_at"].is_string()), (&json!(0), true), "{shown}");
    assert!(shown["error_message"].as_str().unwrap().contains("which no living worker serves"), "{shown}");
    assert_eq!(system.get("/api/v1/jobs/urgent").await["start_within_seconds"], 1);
    let events = |kind| format!("SELECT count(*) FROM events WHERE event_type = '{kind}'");
    assert_eq!(system.count(&events("dispatch_expired")).await, 1);
    system.wait_count("the queue to be told unserved", &events("queue_unserved"), 1).await;
    let queue = system.get("/api/v1/status").await["queues"][0].clone();
    assert_eq!(
        (&queue["name"], &queue["waiting"], &queue["has_live_worker"]),
        (&json!("default"), &json!(1), &json!(false))
    );

    system.start_worker(&[]).await;
    let completed = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";
    assert_eq!(system.wait_count("the patient one", completed, 1).await, 1);
    system.wait_count("the queue to be told served", &events("queue_unserved_ended"), 1).await;
    assert_eq!(system.count(&events("queue_unserved")).await, 1);
    system.check_invariants().await;
}

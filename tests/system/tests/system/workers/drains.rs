//! Draining a worker: it finishes running work, claims nothing new, and continues on request.

use serde_json::json;
use system_tests::{Installation, manual, shell_jobs};
use test_support::http;

const DRAINED: &str = "SELECT count(*) FROM worker_registration WHERE status = 'DRAINING' AND running = 0";

async fn post(system: &Installation, worker: &str, action: &str) {
    let path = format!("/api/v1/workers/{worker}/{action}");
    let answer = http::post(system.api_addr(), &path, &json!({})).await.unwrap();
    assert_eq!(answer.status, 202, "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_drains_and_goes_on() {
    let system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("sleep 2", &[manual("slow")])).await;
    let worker = system.text("SELECT worker_id FROM worker_registration").await;
    let first = system.trigger("slow").await;
    let of = |id: &str, status: &str| {
        format!("SELECT count(*) FROM job_dispatch WHERE id = '{id}' AND status = '{status}'")
    };
    system.wait_count("the first to run", &of(&first, "IN_PROGRESS"), 1).await;
    post(&system, &worker, "drain").await;
    let second = system.trigger("slow").await;
    system.wait_count("the drain", DRAINED, 1).await;
    assert_eq!(system.count(&of(&first, "COMPLETED")).await, 1, "the running work finished");
    assert_eq!(system.count(&of(&second, "PENDING")).await, 1, "nothing new was taken");
    post(&system, &worker, "undrain").await;
    system.wait_count("the second", &of(&second, "COMPLETED"), 1).await;
    assert_eq!(
        system.text("SELECT worker_id FROM worker_registration").await,
        worker,
        "it is the same worker"
    );
    system.check_invariants().await;
}

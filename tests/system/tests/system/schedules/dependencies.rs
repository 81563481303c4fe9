//! Jobs that run after others, from a file to the last run of a chain.

use serde_json::{Value, json};
use system_tests::{Installation, manual, shell_jobs};

fn after(name: &str, others: Value) -> Value {
    let retry_policy = json!({"max_attempts": 2, "backoff_seconds": 1, "jitter_percent": 0});
    json!({"name": name, "job_type": "manual", "after": others, "retry_policy": retry_policy})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_runs_to_its_end_and_a_failure_takes_its_own_branch() {
    let mut system = Installation::with(1, 1).await;
    // Dependent jobs stand before their dependencies. The second run of `b` fails, with both
    // attempts.
    let jobs = [
        after("mended", json!([{"job": "b", "on": "failure"}])),
        after("c", json!([{"job": "b", "on": "success"}])),
        after("b", json!([{"job": "a"}])),
        manual("a"),
    ];
    let command = "test \"$SCHED_JOB_NAME\" != b || ! grep -q fail";
    system.apply(&shell_jobs(command, &jobs)).await;
    let first = system.trigger("a").await;
    let completed = |name: &str| {
        format!(
            "SELECT count(*) FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id
             WHERE j.name = '{name}' AND d.status = 'COMPLETED'"
        )
    };
    system.wait_count("the end of the chain", &completed("c"), 1).await;
    let chain = format!(
        "SELECT count(*) FROM job_dispatch b JOIN job_dispatch c ON c.trigger_id = b.id
         WHERE b.trigger_id = '{first}' AND b.triggered_by = 'dependency' AND c.triggered_by = 'dependency'
           AND c.scheduled_for = b.completed_at AND c.created_at >= b.completed_at"
    );
    assert_eq!(system.count(&chain).await, 1);
    let shown = system.get("/api/v1/runs?job=b").await;
    assert_eq!(
        (&shown["items"][0]["triggered_by"], &shown["items"][0]["caused_by"]),
        (&json!("dependency"), &json!(first))
    );

    // Another leader handles the next end, and finds it by a scan.
    let old = system.leader().await;
    system.start_scheduler(&[]).await;
    system.execute("UPDATE scheduled_jobs SET task_args = '{\"fail\": true}' WHERE name = 'b'").await;
    system.schedulers[old].kill9().await;
    system.trigger("a").await;
    system.wait_count("the branch of the failure", &completed("mended"), 1).await;
    let ends = "SELECT count(*) FROM job_ends";
    assert_eq!(system.count(ends).await, 0);
    assert_eq!(
        system.count(&completed("c")).await,
        1,
        "a failure does not trigger a dependent of the success"
    );
    let attempts = "SELECT count(*) FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id WHERE j.name = 'b'";
    assert_eq!(system.count(attempts).await, 3, "the attempt that was retried was followed by nothing");
    let all = "SELECT count(*) FROM job_dispatch WHERE triggered_by = 'dependency'";
    assert_eq!(system.count(all).await, 4);
    system.check_invariants().await;
}

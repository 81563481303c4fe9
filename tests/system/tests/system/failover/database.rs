//! A database that crashes under load.

use serde_json::Value;
use system_tests::{Installation, PATIENCE, every, retried, shell_jobs};
use test_support::{OwnServer, http, wait_for};

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

/// Repeated `stop -m immediate`: committed data is there, terms only grow, no fire is lost or
/// doubled, and accepted work is done.
#[tokio::test(flavor = "multi_thread")]
async fn failover_across_crashes_of_the_database_loses_and_doubles_nothing() {
    let mut server = OwnServer::start().await;
    let mut system = Installation::on(server.database().await).await;
    system.start_api().await;
    system.start_schedulers(2, &[]).await;
    system.start_worker(&[]).await;
    let jobs = (0..20).map(|n| every(&format!("job-{n}"), 1)).chain([retried("asked")]);
    system.apply(&shell_jobs("true", &jobs.collect::<Vec<Value>>())).await;
    let mut accepted = Vec::new();
    for _ in 0..4 {
        let before = system.count(COMPLETED).await;
        system.wait_count("runs", COMPLETED, before + 30).await;
        accepted.push(system.trigger("asked").await);
        server.crash().await;
        system.reconnect().await;
        let api = system.api_addr();
        wait_for("the API to be ready again", PATIENCE, async || {
            match http::get(api, "/health/ready").await {
                Ok(answer) if answer.status == 200 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    let before = system.count(COMPLETED).await;
    system.wait_count("runs after the last crash", COMPLETED, before + 30).await;
    for dispatch in accepted {
        let completed =
            format!("SELECT count(*) FROM job_dispatch WHERE id = '{dispatch}' AND status = 'COMPLETED'");
        system.wait_count("what was accepted", &completed, 1).await;
    }
    system.check_invariants().await;
}

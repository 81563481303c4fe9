//! A database server that dies, and a standby that replaces it.

use serde_json::Value;
use system_tests::{Installation, PATIENCE, every, retried, shell_jobs};
use test_support::{Pair, http, wait_for};

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

/// The URL of the daemons names both servers. Commits wait for the standby, so no accepted write is
/// missing afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn failover_to_a_standby_loses_and_doubles_nothing_and_needs_no_new_settings() {
    let folder = tempfile::tempdir().unwrap();
    let mut servers = Pair::start(folder.path(), "sched").await.unwrap();
    servers.follow(None).await.unwrap();
    servers.synchronize().await.unwrap();
    let mut system = Installation::on(servers.database()).await;
    system.start_api().await;
    system.start_schedulers(2, &[]).await;
    system.start_worker(&[]).await;
    let jobs = (0..5).map(|n| every(&format!("job-{n}"), 1)).chain([retried("asked")]);
    system.apply(&shell_jobs("true", &jobs.collect::<Vec<Value>>())).await;
    system.wait_count("runs", COMPLETED, 10).await;
    let mut accepted = Vec::new();
    for _ in 0..5 {
        accepted.push(system.trigger("asked").await);
    }
    servers.kill_primary().await.unwrap();
    servers.promote().await.unwrap();
    system.reconnect().await;
    let api = system.api_addr();
    wait_for("the API to be ready again", PATIENCE, async || match http::get(api, "/health/ready").await {
        Ok(answer) if answer.status == 200 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let before = system.count(COMPLETED).await;
    system.wait_count("runs after the fail-over", COMPLETED, before + 15).await;
    accepted.push(system.trigger("asked").await);
    for dispatch in accepted {
        let completed =
            format!("SELECT count(*) FROM job_dispatch WHERE id = '{dispatch}' AND status = 'COMPLETED'");
        system.wait_count("what was accepted", &completed, 1).await;
    }
    system.check_invariants().await;
}

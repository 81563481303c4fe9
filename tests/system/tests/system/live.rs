//! What runs is seen while it runs, and stops when its claim is taken away.

use system_tests::{Installation, PATIENCE, manual, shell_jobs};
use test_support::{http, wait_for};

/// The events of a dispatch so far, as text.
async fn seen(system: &Installation, dispatch: &str) -> String {
    let path = format!("/api/v1/dispatches/{dispatch}/logs");
    http::get(system.api_addr(), &path).await.unwrap().body
}

#[tokio::test(flavor = "multi_thread")]
async fn live_output_is_seen_before_the_end_and_once() {
    let system = Installation::with(1, 1).await;
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("go");
    let command = format!(
        "echo first; echo oops >&2; until test -e {}; do sleep 0.05; done; printf 'second\\033[2J\\n'",
        flag.display()
    );
    system.apply(&shell_jobs(&command, &[manual("talker")])).await;
    let dispatch = system.trigger("talker").await;
    wait_for("the first line, while the job runs", PATIENCE, async || {
        let seen = seen(&system, &dispatch).await;
        if seen.contains("first") && seen.contains("oops") { Ok(()) } else { Err(seen) }
    })
    .await;
    assert!(seen(&system, &dispatch).await.contains("IN_PROGRESS"));
    let follow = ["logs", &dispatch, "--follow"];
    let (followed, ()) = tokio::join!(system.schedctl(&follow), async {
        std::fs::write(&flag, "").unwrap();
    });
    assert_eq!(followed.status.code(), Some(0), "{followed:?}");
    assert_eq!(followed.stdout, "first\nsecond\\u{1b}[2J\n");
    assert!(
        followed.stderr.contains("oops\n") && followed.stderr.contains("COMPLETED"),
        "{}",
        followed.stderr
    );
    let raw = system.schedctl(&["logs", &dispatch, "--raw"]).await;
    assert_eq!(raw.stdout, "first\nsecond\u{1b}[2J\n");
    wait_for("the live rows are taken away", PATIENCE, async || {
        match system.count("SELECT count(*) FROM live_output").await {
            0 => Ok(()),
            rows => Err(format!("{rows} rows")),
        }
    })
    .await;
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_work_whose_claim_was_taken_away_is_killed_at_once() {
    let mut system = Installation::with(1, 0).await;
    // A lease that will not be what ends it.
    system.start_worker(&[("WORKER_OFFLINE_THRESHOLD", "600s")]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let command = format!("echo $$ > {}; while :; do echo still here; sleep 0.1; done", file.display());
    system.apply(&shell_jobs(&command, &[manual("talker")])).await;
    system.trigger("talker").await;
    system.wait_count("live output", "SELECT count(*) FROM live_output", 1).await;
    let pid = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    system.execute("UPDATE job_dispatch SET claim_token = claim_token + 1000000").await;
    wait_for("the work is killed", PATIENCE, async || {
        if std::path::Path::new(&format!("/proc/{pid}")).exists() {
            Err(format!("{pid} lives"))
        } else {
            Ok(())
        }
    })
    .await;
    let health = system.workers[0].health_addr().await;
    wait_for("the loss is counted", PATIENCE, async || {
        let metrics = http::get(health, "/metrics").await.unwrap().body;
        let counted = metrics.lines().any(|line| line == "sched_claims_lost_total 1");
        if counted { Ok(()) } else { Err(metrics) }
    })
    .await;
    assert_eq!(system.count("SELECT count(*) FROM job_execution_log").await, 0, "nothing of it is stored");
}

//! Running work is visible, and stops when its claim is lost.

use system_tests::{Installation, PATIENCE, manual, shell_jobs};
use test_support::{http, is_running, wait_for};

async fn live_output(system: &Installation, dispatch: &str) -> String {
    let path = format!("/api/v1/runs/{dispatch}/logs");
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
        let seen = live_output(&system, &dispatch).await;
        if seen.contains("first") && seen.contains("oops") { Ok(()) } else { Err(seen) }
    })
    .await;
    assert!(live_output(&system, &dispatch).await.contains("running"));
    let follow = ["runs", "logs", &dispatch, "--follow"];
    let (followed, ()) = tokio::join!(system.schedctl(&follow), async {
        std::fs::write(&flag, "").unwrap();
    });
    assert_eq!(followed.status.code(), Some(0), "{followed:?}");
    assert_eq!(followed.stdout, "first\nsecond\\u{1b}[2J\n");
    assert!(
        followed.stderr.contains("oops\n") && followed.stderr.contains("succeeded"),
        "{}",
        followed.stderr
    );
    let raw = system.schedctl(&["runs", "logs", &dispatch, "--raw"]).await;
    assert_eq!(raw.stdout, "first\nsecond\u{1b}[2J\n");
    wait_for("the live rows are deleted", PATIENCE, async || {
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
    // Neither the lease nor a heartbeat may end it.
    let patient = [("WORKER_OFFLINE_THRESHOLD", "600s"), ("WORKER_HEARTBEAT_INTERVAL", "200s")];
    system.start_worker(&patient).await;
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

/// The job writes no output, so only the check with each heartbeat can detect the lost claim. Other
/// work continues.
#[tokio::test(flavor = "multi_thread")]
async fn silent_work_whose_claim_was_taken_away_is_killed_with_the_next_heartbeat() {
    let mut system = Installation::with(1, 0).await;
    system.start_worker(&[("WORKER_OFFLINE_THRESHOLD", "600s")]).await;
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let command = format!(
        "echo $$ > {place}/$SCHED_RUN_ID; trap '' TERM; until test -e {place}/go; do sleep 0.1; done"
    );
    system.apply(&shell_jobs(&command, &[manual("silent"), manual("other")])).await;
    let (silent, other) = (system.trigger("silent").await, system.trigger("other").await);
    let pid_of = async |dispatch: &str| {
        wait_for("the work to begin", PATIENCE, async || {
            let text = std::fs::read_to_string(folder.path().join(dispatch)).unwrap_or_default();
            text.trim().parse::<i32>().map_err(|_not_yet| text)
        })
        .await
    };
    let (lost, kept) = (pid_of(&silent).await, pid_of(&other).await);
    assert!(is_running(lost) && is_running(kept));
    let take_away =
        format!("UPDATE job_dispatch SET claim_token = claim_token + 1000000 WHERE id = '{silent}'");
    system.execute(&take_away).await;
    wait_for("the work is killed", PATIENCE, async || match is_running(lost) {
        true => Err(format!("{lost} lives")),
        false => Ok(()),
    })
    .await;
    assert!(is_running(kept), "work with a valid claim continues");
    std::fs::write(folder.path().join("go"), "").unwrap();
    let completed =
        format!("SELECT count(*) FROM job_dispatch WHERE id = '{other}' AND status = 'COMPLETED'");
    system.wait_count("the end of the other", &completed, 1).await;
    let history = system.text("SELECT string_agg(dispatch_id::text, ' ') FROM job_execution_log").await;
    assert_eq!(history, other, "no output of the lost claim is stored");
    let health = system.workers[0].health_addr().await;
    wait_for("the loss is counted, once", PATIENCE, async || {
        let metrics = http::get(health, "/metrics").await.unwrap().body;
        let counted = metrics.lines().any(|line| line == "sched_claims_lost_total 1");
        if counted { Ok(()) } else { Err(metrics) }
    })
    .await;
}

/// The output that the worker had sent is the evidence of its loss.
#[tokio::test(flavor = "multi_thread")]
async fn output_of_a_killed_worker_is_kept() {
    let mut system = Installation::with(1, 1).await;
    let command = "echo loading; echo 'cannot allocate' >&2; sleep 600";
    system.apply(&shell_jobs(command, &[manual("hungry")])).await;
    let run = system.trigger("hungry").await;
    wait_for("the live output", PATIENCE, async || {
        let seen = live_output(&system, &run).await;
        if seen.contains("loading") && seen.contains("cannot allocate") { Ok(()) } else { Err(seen) }
    })
    .await;
    system.workers[0].kill9().await;
    let lost = "SELECT count(*) FROM job_execution_log WHERE status = 'LOST' AND output_bytes = 24";
    system.wait_count("the lost attempt", lost, 1).await;

    let logs = system.schedctl(&["runs", "logs", &run]).await;
    assert_eq!(logs.stdout, "loading\n");
    assert!(
        logs.stderr.contains("cannot allocate\n") && logs.stderr.contains("the output is incomplete"),
        "{}",
        logs.stderr
    );
    let attempt = system.text("SELECT id::text FROM job_execution_log").await;
    let shown = system.get(&format!("/api/v1/attempts/{attempt}")).await;
    assert_eq!(shown["is_output_incomplete"], true, "{shown}");
    let output = system.get(&format!("/api/v1/attempts/{attempt}/output")).await;
    assert_eq!(output["is_incomplete"], true, "{output}");
    assert_eq!(output["chunks"][0]["content"], "cannot allocate\n");
    let shown = system.schedctl(&["attempts", "get", &attempt]).await.stdout;
    assert!(shown.contains("24B (incomplete)"), "{shown}");
}

//! Notifications, from the command line to the receiving server: one for each failure, and one when
//! it is over.

use scripted_http::{Request, Response, Server};
use serde_json::{Value, json};
use system_tests::{Installation, PATIENCE, manual, shell_jobs};
use test_support::{Process, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_job_is_told_once_for_each_failure_and_once_when_it_works_again() {
    let server = Server::start(Response::new(204));
    let url = server.url("/told");

    let mut system = Installation::new().await;
    let migrate =
        Process::program("schedctl").args(["migrate", "up", "--database-url", system.database.url()]);
    let migrated = migrate.run(PATIENCE).await;
    assert!(migrated.status.success(), "{}", migrated.stderr);
    system.start_api().await;
    system.start_schedulers(2, &[]).await;
    system.start_worker(&[("WORKER_HTTP_ALLOW", "127.0.0.1")]).await;
    let commands: [&[&str]; 3] = [
        &["channels", "set", "ops", "--kind", "webhook", "--url", &url],
        &["rules", "set", "all", "--channel", "ops", "--on", "failure,recovery"],
        &["test", "ops", "--wait", "--wait-timeout", "60s"],
    ];
    for command in commands {
        let done = system.schedctl(&[&["notifications"][..], command].concat()).await;
        assert!(done.status.success(), "{}", done.stderr);
    }

    let folder = tempfile::tempdir().unwrap();
    let mended = folder.path().join("mended");
    let command = format!("test -e {} || {{ echo 'FATAL: no database' >&2; exit 3; }}", mended.display());
    let job = json!({"name": "nightly", "job_type": "manual", "retry_policy": {"max_attempts": 1}});
    system.apply(&shell_jobs(&command, &[job, manual("unused")])).await;
    let mut failed = Vec::new();
    for _ in 0..3 {
        failed.push(system.trigger("nightly").await);
    }
    let ended = "SELECT count(*) FROM job_execution_log WHERE status = 'FAILED'";
    system.wait_count("the runs to fail", ended, 3).await;
    std::fs::write(&mended, "").unwrap();
    let recovered = system.trigger("nightly").await;

    let sent = "SELECT count(*) FROM notification_deliveries WHERE status = 'sent'";
    wait_for("the messages to be sent", PATIENCE, async || {
        let told = system.count(sent).await;
        if told == 5 { Ok(()) } else { Err(format!("{told} were sent")) }
    })
    .await;
    let bodies: Vec<Value> = server.requests().iter().map(Request::json).collect();
    let mut told: Vec<(String, String)> = bodies
        .iter()
        .map(|body| {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            (text("type"), text("run_id"))
        })
        .collect();
    let tails = bodies.iter().filter(|body| body["output_tail"] == "FATAL: no database").count();
    assert_eq!(tails, 3, "{bodies:?}");
    told.sort();
    let mut expected: Vec<(String, String)> =
        failed.into_iter().map(|id| ("failure".to_owned(), id)).collect();
    expected.extend([("recovery".to_owned(), recovered), ("test".to_owned(), String::new())]);
    expected.sort();
    assert_eq!(told, expected, "{bodies:?}");
    assert_eq!(system.count("SELECT count(*) FROM notification_deliveries").await, 5);

    let listed = system.schedctl(&["notifications", "deliveries", "--rule", "all"]).await;
    assert_eq!(listed.stdout.matches(" sent ").count(), 4, "{}", listed.stdout);
    system.check_invariants().await;
}

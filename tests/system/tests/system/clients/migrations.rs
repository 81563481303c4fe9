//! `schedctl migrate` on a used database.

use std::process::Command;
use std::time::Duration;

use system_tests::{Installation, every, manual, shell_jobs};
use test_support::{Login, Process, server_program};

const LIMIT: Duration = Duration::from_secs(60);

/// The schema by `pg_dump`, without the lines that differ in each dump.
fn schema_dump(url: &str) -> String {
    let pg_dump = server_program("pg_dump");
    let output = Command::new(pg_dump).args(["--schema-only", "--dbname", url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dump = String::from_utf8(output.stdout).unwrap();
    dump.lines()
        .filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"))
        .collect::<Vec<_>>()
        .join("\n")
}

pub(crate) async fn migrate(url: &str, arguments: &[&str]) {
    let done = Process::program("schedctl")
        .arg("migrate")
        .args(arguments)
        .args(["--database-url", url])
        .run(LIMIT)
        .await;
    assert!(done.status.success(), "{}", done.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn down_all_and_up_leave_the_same_schema_on_a_used_database() {
    let mut system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("echo used", &[every("pulse", 1), manual("by-hand")])).await;
    system.trigger("by-hand").await;
    system.wait_count("some history", "SELECT count(*) FROM job_execution_log", 3).await;
    for process in system.schedulers.iter_mut().chain(&mut system.workers).chain(&mut system.api) {
        process.stop_gracefully(LIMIT).await;
    }
    // These triggers belong to the tests.
    system.execute("DROP SCHEMA witness CASCADE").await;
    let url = system.database.url();
    let before = schema_dump(url);
    assert!(before.contains("CREATE TABLE public.job_dispatch"), "the dump holds the schema");
    let owner = &system.database.url_of(Login::Owner);
    migrate(owner, &["down", "--all", "--yes"]).await;
    assert!(!schema_dump(url).contains("CREATE TABLE public.job_dispatch"));
    migrate(owner, &["up"]).await;
    assert_eq!(schema_dump(url), before);
    migrate(owner, &["status"]).await;
}

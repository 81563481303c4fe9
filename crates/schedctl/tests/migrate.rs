//! `schedctl migrate` as a program, against real databases.

#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

use std::time::Duration;

use sched_runtime::exit;
use test_support::{Finished, Process, TestDatabase};

const LIMIT: Duration = Duration::from_secs(60);

async fn migrate(url: &str, arguments: &[&str]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let launch = Process::program("schedctl").current_dir(folder.path()).env("DATABASE_URL", url);
    launch.arg("migrate").args(arguments).run(LIMIT).await
}

fn ended(done: &Finished, code: u8) {
    assert_eq!(done.status.code(), Some(code.into()), "{}\n{}", done.stdout, done.stderr);
}

fn count(done: &Finished, state: &str) -> usize {
    done.stdout.lines().filter(|line| line.ends_with(state)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_goes_up_and_down_and_its_status_is_told_by_the_exit_code() {
    let database = TestDatabase::empty().await;
    let url = database.url();
    let status = migrate(url, &["status"]).await;
    ended(&status, exit::SCHEMA);
    let all = count(&status, "pending");
    assert!(all > 1 && count(&status, "applied") == 0, "{}", status.stdout);
    assert!(status.stderr.contains("schedctl migrate up"), "{}", status.stderr);

    let up = migrate(url, &["up"]).await;
    ended(&up, exit::OK);
    assert_eq!(count(&up, "applied"), all, "{}", up.stdout);
    ended(&migrate(url, &["status"]).await, exit::OK);
    let again = migrate(url, &["up"]).await;
    ended(&again, exit::OK);
    assert_eq!((again.stdout.as_str(), again.stderr.contains("up to date")), ("", true), "{}", again.stderr);

    let down = migrate(url, &["down", "--yes"]).await;
    ended(&down, exit::OK);
    assert_eq!(count(&down, "reverted"), 1, "{}", down.stdout);
    let status = migrate(url, &["status"]).await;
    ended(&status, exit::SCHEMA);
    assert_eq!((count(&status, "applied"), count(&status, "pending")), (all - 1, 1), "{}", status.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn going_down_without_a_terminal_says_what_it_drops_and_goes_on() {
    let database = TestDatabase::new().await;
    let down = migrate(database.url(), &["down", "--all"]).await;
    ended(&down, exit::OK);
    assert!(down.stderr.contains("drops the data") && down.stderr.contains("no terminal"), "{}", down.stderr);
    ended(&migrate(database.url(), &["status"]).await, exit::SCHEMA);
    ended(&migrate(database.url(), &["up"]).await, exit::OK);
    ended(&migrate(database.url(), &["status"]).await, exit::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_a_newer_release_is_left_alone() {
    let database = TestDatabase::new().await;
    let newer = "INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231235959')";
    database.client().await.batch_execute(newer).await.unwrap();
    for arguments in [&["up"][..], &["down", "--all", "--yes"], &["status"]] {
        let done = migrate(database.url(), arguments).await;
        ended(&done, exit::SCHEMA);
        assert!(done.stderr.contains("newer") && done.stderr.contains("99991231235959"), "{}", done.stderr);
    }
    ended(&migrate(database.url(), &["status"]).await, exit::SCHEMA);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_on_standard_output_is_nothing_but_json() {
    let database = TestDatabase::new().await;
    let status = migrate(database.url(), &["status", "-o", "json"]).await;
    ended(&status, exit::OK);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&status.stdout).unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["state"] == "applied"), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_none_and_one_that_is_not_given_are_wrong_usage() {
    for (url, part) in [("mysql://host/db", "database URL"), ("", "--database-url")] {
        let done = migrate(url, &["status", "--wait", "1s"]).await;
        ended(&done, exit::USAGE);
        assert!(done.stderr.contains(part), "{}", done.stderr);
    }
}

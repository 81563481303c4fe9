//! What becomes of processes whose worker is killed.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Bench, execution, shell, token, wait_for_alive};

/// Names the token for the worker below.
const TOKEN_VARIABLE: &str = "TOKEN_OF_THE_KILLED_WORKER";

/// Not a test: the next one runs it in a process of its own and kills that.
#[tokio::test]
#[ignore = "it is the worker that the next test kills"]
#[expect(clippy::disallowed_methods, reason = "a process started by a test is told its part by a variable")]
async fn a_worker_to_be_killed() {
    let token = std::env::var(TOKEN_VARIABLE).unwrap();
    let command = format!("setsid sleep {token} & sleep {token} & sleep {token}");
    let report = Bench::new().run(execution(shell(&command))).await;
    panic!("this process should have been killed; its attempt ended: {report:?}");
}

#[tokio::test]
async fn the_program_dies_with_its_worker_and_the_next_worker_kills_the_rest() {
    let token = token();
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_worker::a_worker_to_be_killed", "--ignored", "--nocapture"])
        .env(TOKEN_VARIABLE, &token)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The shell and three sleeps.
    wait_for_alive(&token, 4).await;
    worker.kill().unwrap();
    worker.wait().unwrap();
    let status = || "the program to die with its worker".to_owned();
    crate::support::wait_for(status, || {
        crate::support::alive_with("setsid sleep").iter().all(|pid| !mentions(*pid, &token))
    })
    .await;
    let _next_worker = tokio::time::timeout(Duration::from_secs(10), async { Bench::new() }).await.unwrap();
    wait_for_alive(&token, 0).await;
}

fn mentions(pid: u32, token: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(token))
}

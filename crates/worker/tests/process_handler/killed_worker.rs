use std::process::{Command, Stdio};

use crate::support::{Bench, execution, shell, token, wait_for_silence, wait_for_sleepers};

const COMMAND_VARIABLE: &str = "COMMAND_OF_THE_KILLED_WORKER";

/// Not a test: other tests run and kill it as a process.
#[tokio::test]
#[ignore = "it is the worker that other tests kill"]
#[expect(clippy::disallowed_methods, reason = "the test passes the command in a variable")]
async fn worker_to_be_killed() {
    let command = std::env::var(COMMAND_VARIABLE).unwrap();
    let report = Bench::new().run(execution(shell(&command))).await;
    panic!("this process should have been killed; its attempt ended: {report:?}");
}

async fn kill_worker_of(command: &str, token: &str, count: usize) {
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_worker::worker_to_be_killed", "--ignored", "--nocapture"])
        .env(COMMAND_VARIABLE, command)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_sleepers(token, count).await;
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[tokio::test]
async fn program_dies_with_its_worker() {
    let token = token();
    // Without marks, only the death of its worker ends the process.
    kill_worker_of(&format!("exec env -i sleep {token}"), &token, 1).await;
    wait_for_silence(&token).await;
}

#[tokio::test]
async fn next_worker_kills_orphans_of_a_killed_worker() {
    let token = token();
    kill_worker_of(&format!("setsid sleep {token} & sleep {token} & wait"), &token, 2).await;
    let next_worker = Bench::new();
    wait_for_silence(&token).await;
    drop(next_worker);
}

#[tokio::test]
async fn live_worker_kills_orphans_of_a_killed_worker() {
    let token = token();
    let neighbour = Bench::new();
    kill_worker_of(&format!("setsid sleep {token} & sleep {token} & wait"), &token, 2).await;
    neighbour.handler.clean_up_dead_workers().await;
    wait_for_silence(&token).await;
}

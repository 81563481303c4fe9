use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use super::*;
use crate::dev::daemon::Health;

fn spec(folder: &Path, name: &str, script: &str) -> Spec {
    let program = folder.join(name);
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let variables = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    Spec { name: name.to_owned(), colour: 0, program, variables, health: Health::Chosen }
}

fn daemons() -> Daemons {
    let backoff = Backoff { initial: Duration::from_millis(1), cap: Duration::from_millis(1) };
    Daemons { backoff, ..Daemons::new(Log::new()) }
}

async fn until<T>(mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("the condition came true in time")
}

fn polite(folder: &Path, name: &str) -> Spec {
    let notes = folder.join("notes");
    let script = format!(
        "trap 'echo {name} >> {notes}; exit 0' TERM\n: > {ready}\nwhile :; do sleep 0.02; done",
        notes = notes.display(),
        ready = ready(folder, name).display()
    );
    spec(folder, name, &script)
}

fn ready(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.ready"))
}

#[tokio::test]
async fn a_daemon_that_ends_is_noticed_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemons = daemons();
    daemons.start(spec(folder.path(), "fragile", "exit 7"), Stage::Api).unwrap();
    for round in 1..=3 {
        let ended = until(async || daemons.notice_ends().await.into_iter().next()).await;
        assert_eq!((ended.name.as_str(), ended.status.unwrap().code()), ("fragile", Some(7)));
        assert_eq!(daemons.all[0].failures, round);
        assert!(daemons.entries().is_empty());
        until(async || daemons.restart_due().then_some(())).await;
        assert_eq!(daemons.entries().len(), 1);
    }
    daemons.stop(&CancellationToken::new()).await;
}

#[tokio::test]
async fn daemons_stop_stage_by_stage_and_leave_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemons = daemons();
    let plan = [("api", Stage::Api), ("scheduler", Stage::Scheduler), ("worker", Stage::Workers)];
    for (name, stage) in plan {
        daemons.start(polite(folder.path(), name), stage).unwrap();
    }
    let pids: Vec<i32> = daemons.entries().iter().map(|entry| entry.pid).collect();
    until(async || plan.iter().all(|(name, _)| ready(folder.path(), name).exists()).then_some(())).await;
    daemons.stop(&CancellationToken::new()).await;
    let notes = std::fs::read_to_string(folder.path().join("notes")).unwrap();
    assert_eq!(notes, "worker\nscheduler\napi\n");
    for pid in pids {
        let asked = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None);
        assert_eq!(asked, Err(nix::errno::Errno::ESRCH), "process {pid} is left");
    }
    assert!(daemons.entries().is_empty());
}

#[tokio::test]
async fn a_daemon_that_does_not_obey_is_killed_with_its_group_at_the_second_signal() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemons = daemons();
    let ready = ready(folder.path(), "deaf");
    let script = format!("trap '' TERM\n: > {}\nwhile :; do sleep 0.02; done", ready.display());
    daemons.start(spec(folder.path(), "deaf", &script), Stage::Workers).unwrap();
    until(async || ready.exists().then_some(())).await;
    let hard = CancellationToken::new();
    hard.cancel();
    daemons.stop(&hard).await;
    assert!(daemons.all.is_empty());
}

#[tokio::test]
async fn a_daemon_gets_the_environment_it_was_given_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    let mut daemons = daemons();
    daemons.start(spec(folder.path(), "curious", &format!("env > {}", list.display())), Stage::Api).unwrap();
    until(async || daemons.notice_ends().await.into_iter().next()).await;
    let text = std::fs::read_to_string(list).unwrap();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    names.retain(|name| !matches!(*name, "PWD" | "_" | "SHLVL" | "OLDPWD"));
    assert_eq!(names, ["HEALTH_HOST", "HEALTH_PORT", "PATH", "SCHED_EXIT_WITH_PARENT"]);
    daemons.stop(&CancellationToken::new()).await;
}

#[test]
fn an_end_is_worded_for_people() {
    assert_eq!(describe_exit(ExitStatus::from_raw(5 << 8)), "exit code 5");
    assert_eq!(describe_exit(ExitStatus::from_raw(9)), "signal SIGKILL");
}

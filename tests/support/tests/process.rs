//! Child processes of tests have a clean environment and end with the test.

use std::{fs, path::Path, time::Duration};

use test_support::{Launch, Process, is_running, process_state, wait_for};

const LIMIT: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Launch {
    Process::at(Path::new("/bin/sh")).args(["-c", script])
}

async fn wait_until_gone(what: &str, pid: i32) {
    wait_for(what, LIMIT, async || if is_running(pid) { Err(format!("process {pid} runs")) } else { Ok(()) })
        .await;
}

/// A process that prints the id of its child.
async fn parent_and_child() -> (Process, i32) {
    let process = shell("sleep 300 & echo $!; wait").start();
    let child = wait_for("the child's id", LIMIT, async || {
        process.stdout().trim().parse::<i32>().map_err(|error| error.to_string())
    })
    .await;
    (process, child)
}

#[tokio::test]
async fn a_program_runs_with_the_given_environment_only() {
    let finished = shell("env; echo oops >&2; exit 3").env("GIVEN", "yes").run(LIMIT).await;
    assert_eq!(finished.status.code(), Some(3));
    assert_eq!(finished.stderr, "oops\n");
    let names: Vec<&str> = finished.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"GIVEN"));
    // The shell itself sets the remaining variables.
    assert!(
        names.iter().all(|name| ["GIVEN", "PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)),
        "{names:?}"
    );
}

#[tokio::test]
async fn dropping_the_handle_kills_the_whole_group() {
    let (process, child) = parent_and_child().await;
    let parent = process.id();
    drop(process);
    assert!(!is_running(parent));
    wait_until_gone("the child is killed too", child).await;
}

#[tokio::test]
async fn kill9_takes_the_process_alone() {
    let (mut process, child) = parent_and_child().await;
    process.kill9().await;
    assert!(is_running(child), "a crash of the parent leaves its children");
    drop(process);
    wait_until_gone("the child goes with the handle", child).await;
}

#[tokio::test]
async fn a_process_ends_in_its_own_way_when_asked() {
    let mut process = shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done").start();
    wait_for("the trap is set", LIMIT, async || {
        if process.stdout().contains("ready") { Ok(()) } else { Err(process.stdout()) }
    })
    .await;
    assert_eq!(process.stop_gracefully(LIMIT).await.code(), Some(7));
    assert_eq!(process.stdout(), "ready\nbye\n");
}

#[tokio::test]
async fn a_paused_process_does_nothing_until_it_is_resumed() {
    // A paused shell that starts a child waits for that child, and has another state. So only the
    // shell runs.
    let script = "n=0; while :; do n=$((n + 1)); [ $((n % 5000)) -eq 0 ] && echo tick; done";
    let process = shell(script).start();
    let more_than = async |count: usize| {
        wait_for("it ticks", LIMIT, async || {
            let seen = process.stdout().lines().count();
            if seen > count { Ok(seen) } else { Err(format!("{seen} ticks")) }
        })
        .await
    };
    more_than(0).await;
    process.pause();
    wait_for("the process is stopped", LIMIT, async || match process_state(process.id()) {
        Some('T') => Ok(()),
        other => Err(format!("state {other:?}")),
    })
    .await;
    let seen = process.stdout().lines().count();
    process.resume();
    more_than(seen).await;
}

#[tokio::test]
async fn an_address_is_read_from_a_json_log_line() {
    let script = r#"echo 'starting' >&2; echo '{"message":"x","health.address":"127.0.0.1:4711"}' >&2; exec sleep 300"#;
    let mut process = shell(script).start();
    assert_eq!(process.health_addr().await, "127.0.0.1:4711".parse().unwrap());
}

#[tokio::test]
#[should_panic(expected = "ended (exit status: 9) before it logged its health.address")]
async fn a_process_that_dies_early_is_not_waited_for() {
    shell("exit 9").start().health_addr().await;
}

#[tokio::test]
#[should_panic(expected = "last status: 3 of 4")]
async fn a_time_out_shows_the_last_status() {
    let mut seen = 0;
    wait_for("something", Duration::from_millis(500), async || {
        seen = 3.min(seen + 1);
        Err::<(), _>(format!("{seen} of 4"))
    })
    .await;
}

/// Not a test: the program that `nothing_outlives_a_killed_test_program` kills.
#[tokio::test]
async fn test_program() {
    #[expect(clippy::disallowed_methods, reason = "the parent test has no other way to tell its child")]
    let Some(file) = std::env::var_os("SUPPORT_TEST_FILE") else { return };
    let process = shell("exec sleep 300").start();
    fs::write(file, process.id().to_string()).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn nothing_outlives_a_killed_test_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let mut test = Process::at(&std::env::current_exe().unwrap())
        .args(["--exact", "test_program"])
        .env("SUPPORT_TEST_FILE", &file)
        .start();
    let child = wait_for("the test program has a child", LIMIT, async || {
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        text.parse::<i32>().map_err(|error| format!("{text:?}: {error}"))
    })
    .await;
    assert!(is_running(child));
    test.kill9().await;
    wait_until_gone("the child is killed by its guard", child).await;
}

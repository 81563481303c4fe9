use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use test_support::{URL_VARIABLE, wait_for};

const LIMIT: Duration = Duration::from_secs(30);

/// The folder in a URL such as `postgresql://postgres@%2Ftmp%2Fsched-pg-x%2Frun/postgres`.
fn socket(url: &str) -> PathBuf {
    let host = url.rsplit_once('/').and_then(|(server, _)| server.split_once('@')).map(|(_, host)| host);
    PathBuf::from(host.unwrap_or_default().replace("%2F", "/")).join(".s.PGSQL.5432")
}

#[tokio::test]
async fn the_server_of_a_run_ends_when_the_runner_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("env");
    // Replaces nextest: runs the setup script and then continues to the tests.
    let mut runner = Command::new("sh")
        .args(["-c", "\"$0\" && exec sleep 300", env!("CARGO_BIN_EXE_test-postgres")])
        .env("NEXTEST_ENV", &file)
        .env_remove(URL_VARIABLE)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let url = wait_for("the set-up gives a URL", LIMIT, async || {
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let url = text.strip_suffix('\n').and_then(|line| line.strip_prefix(&format!("{URL_VARIABLE}=")));
        url.map(str::to_owned).ok_or(text)
    })
    .await;
    let socket = socket(&url);
    assert!(socket.exists(), "{} serves {url}", socket.display());
    runner.kill().unwrap();
    runner.wait().unwrap();
    let cluster = socket.parent().and_then(|run| run.parent()).unwrap();
    wait_for("the server's folder is removed", LIMIT, async || {
        if cluster.exists() { Err(format!("{} is there", cluster.display())) } else { Ok(()) }
    })
    .await;
}

#[test]
fn without_nextest_the_set_up_says_who_runs_it() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_test-postgres")).env_remove("NEXTEST_ENV").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("NEXTEST_ENV is not set"), "{text}");
}

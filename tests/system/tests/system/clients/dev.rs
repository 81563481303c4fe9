//! `schedctl dev`: a whole installation in one folder, without remaining processes.

use std::path::Path;
use std::time::Duration;

use test_support::{Launch, Process, is_running, wait_for};

const LIMIT: Duration = Duration::from_secs(120);

fn dev(folder: &Path) -> Launch {
    Process::program("schedctl")
        .current_dir(folder)
        .args(["dev", "--api-port", "0", "--data-dir"])
        .arg(folder.join(".sched"))
}

fn jobs_file(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("jobs.yaml");
    let text = "
queues:
  - {name: apart, max_running: 1}
task_functions:
  - name: say
    queue: apart
    handler_type: process
    handler_config: {program: echo, args: [hello]}
  - name: fail-once
    handler_type: process
    handler_config: {shell: true, command: 'test \"$SCHED_ATTEMPT\" -gt 1'}
jobs:
  - {name: often, function: say, job_type: interval, schedule_config: {seconds: 1}}
  - {name: once, function: say, job_type: oneoff, schedule_config: {run_at: 2020-01-01T00:00:00Z}}
  - {name: flaky, function: fail-once, job_type: interval, schedule_config: {seconds: 2}, retry_policy: {max_attempts: 2, backoff_seconds: 0}}
";
    std::fs::write(&file, text).unwrap();
    file
}

/// Every process whose command line or working folder names the folder.
fn processes_of(folder: &Path) -> Vec<i32> {
    let needle = folder.to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let variables = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let names = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(needle);
        if is_running(pid) && (names(&arguments) || names(&variables)) {
            found.push(pid);
        }
    }
    found
}

async fn wait_until_gone(folder: &Path) {
    wait_for("every process of the installation ends", LIMIT, async || match processes_of(folder) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?} are left")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_once_runs_every_job_twice_on_the_same_data() {
    let folder = tempfile::tempdir().unwrap();
    let file = jobs_file(folder.path());
    for round in 0..2 {
        let done = dev(folder.path()).arg("--apply").arg(&file).arg("--once").run(LIMIT).await;
        assert!(done.status.success(), "round {round}: {}\n{}", done.stdout, done.stderr);
        for job in ["often", "once", "flaky"] {
            assert!(
                done.stdout.contains(job),
                "{job} is missing in the table of round {round}: {}",
                done.stdout
            );
        }
        wait_until_gone(folder.path()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_once_fails_at_once_after_the_last_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yaml");
    let text = "
task_functions:
  - {name: say, handler_type: process, handler_config: {program: echo}}
  - {name: fail, handler_type: process, handler_config: {program: \"false\"}}
jobs:
  - {name: good, function: say, job_type: manual}
  - {name: retried, function: fail, job_type: manual, retry_policy: {max_attempts: 2, backoff_seconds: 0}}
  - {name: never, function: say, job_type: oneoff, schedule_config: {run_at: 2199-01-01T00:00:00Z}}
";
    std::fs::write(&file, text).unwrap();
    let done = dev(folder.path()).arg("--apply").arg(&file).args(["--once", "--once-timeout", "1h"]);
    let done = done.run(LIMIT).await;
    assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
    for text in [
        "1 job of the files failed, and no retry follows:",
        "retried: dead_letter after 2 attempts: exit code 1",
        "never: has not run yet",
    ] {
        assert!(done.stderr.contains(text), "{text} is missing: {}", done.stderr);
    }
    assert!(done.stdout.contains("retried"), "{}", done.stdout);
    wait_until_gone(folder.path()).await;

    // Without a policy in the file, the effective one decides.
    std::fs::write(&file, text.replace(", retry_policy: {max_attempts: 2, backoff_seconds: 0}", "")).unwrap();
    let done = dev(folder.path()).arg("--apply").arg(&file).args(["--once", "--once-timeout", "1h"]);
    let done = done.run(LIMIT).await;
    assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("retried: "), "{}", done.stderr);
    assert!(done.stderr.contains("and no retry follows"), "{}", done.stderr);
    wait_until_gone(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_killed_with_9_leaves_no_process_and_starts_again_on_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let file = jobs_file(folder.path());
    let mut running = dev(folder.path()).arg("--apply").arg(&file).start();
    let executed = async || {
        let list = Process::program("schedctl")
            .current_dir(folder.path())
            .args(["attempts", "list", "--job", "once", "-o", "json"])
            .run(LIMIT)
            .await;
        list.stdout.matches("succeeded").count()
    };
    wait_for("the first run", LIMIT, async || match executed().await {
        0 => Err(running.stderr()),
        n => Ok(n),
    })
    .await;
    running.kill9().await;
    wait_until_gone(folder.path()).await;

    let mut running = dev(folder.path()).arg("--apply").arg(&file).start();
    wait_for("the data of the first run", LIMIT, async || match executed().await {
        1 => Ok(()),
        n => Err(format!("{n} runs: {}", running.stderr())),
    })
    .await;
    let first = running.stderr();
    let before_banner = first.split("\nsched is running.").next().unwrap_or_default();
    for line in before_banner.lines().filter(|line| !line.is_empty()) {
        assert!(line.contains("| "), "a line without its prefix: {line}");
    }
    wait_for("a line for each run, and none that only informs", LIMIT, async || match running.stderr() {
        told if told.contains(" INFO ") => panic!("{told}"),
        told if told.contains("| often: succeeded after ") && told.contains("| flaky: failed after ") => {
            Ok(())
        }
        told => Err(told),
    })
    .await;
    let status = running.stop_gracefully(LIMIT).await;
    assert!(status.success(), "{status}: {}", running.stderr());
    wait_until_gone(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_refuses_a_second_installation_in_the_same_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = dev(folder.path()).start();
    let toml = folder.path().join(".sched/dev.toml");
    wait_for(
        "the first installation",
        LIMIT,
        async || if toml.exists() { Ok(()) } else { Err(first.stderr()) },
    )
    .await;
    let second = dev(folder.path()).run(LIMIT).await;
    assert!(!second.status.success());
    assert!(second.stderr.contains("already"), "{}", second.stderr);
    assert!(first.stop_gracefully(LIMIT).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_made_meanwhile_is_served_without_a_new_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = dev(folder.path()).start();
    let schedctl = |words: &'static [&'static str]| {
        Process::program("schedctl").current_dir(folder.path()).args(words).run(LIMIT)
    };
    wait_for("the API of the installation", LIMIT, async || {
        let status = schedctl(&["status"]).await;
        if status.status.success() { Ok(()) } else { Err(status.stderr) }
    })
    .await;
    for words in [
        &["queues", "set", "late"][..],
        &["functions", "create", "say", "--queue", "late", "--config", r#"{"program": "echo"}"#],
        &["jobs", "create", "now-and-then", "--function", "say"],
    ] {
        let done = schedctl(words).await;
        assert!(done.status.success(), "{}", done.stderr);
        assert!(!done.stderr.contains("no live worker"), "{}", done.stderr);
    }
    let ran = schedctl(&["jobs", "trigger", "now-and-then", "--wait", "--wait-timeout", "90s"]).await;
    assert!(ran.status.success(), "{}\n{}", ran.stderr, running.stderr());
    assert!(
        running.stderr().contains("Started the worker worker+1 for new queues: late."),
        "{}",
        running.stderr()
    );
    assert!(running.stop_gracefully(LIMIT).await.success(), "{}", running.stderr());
    wait_until_gone(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_a_worker_with_its_own_functions_runs_its_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/native.yaml");
    let test = std::env::current_exe().unwrap();
    let worker = test.parent().and_then(Path::parent).unwrap().join("native-worker");
    let done = dev(folder.path()).arg("--worker-program").arg(worker).arg("--apply").arg(jobs).arg("--once");
    let done = done.run(LIMIT).await;
    assert!(done.status.success(), "{}", done.stderr);
    for job in ["send-invoices", "export-accounts", "count-lines"] {
        assert!(done.stdout.contains(job), "{job} is missing in the table: {}", done.stdout);
    }
    wait_until_gone(folder.path()).await;
}

/// A user that exists on every Linux system.
#[cfg(target_os = "linux")]
const NOBODY: u32 = 65_534;

/// The kernel gives the files of a process in `/proc` to root if its user must not read them.
#[cfg(target_os = "linux")]
fn owner_of_environment(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{pid}/environ")).ok().map(|metadata| metadata.uid())
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn all_processes_of_dev_hide_from_their_user() {
    use std::os::unix::process::CommandExt;

    let folder = tempfile::tempdir().unwrap();
    let own = owner_of_environment(std::process::id()).unwrap();
    let test = std::env::current_exe().unwrap();
    let schedctl = test.parent().and_then(Path::parent).unwrap().join("schedctl");
    let (user, launch) = if own == 0 {
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let ids = NOBODY.to_string();
        let as_nobody = ["--reuid", &ids, "--regid", &ids, "--clear-groups"];
        let reaches = Process::at(Path::new("/usr/bin/setpriv")).args(as_nobody).args(["test", "-x"]);
        if !reaches.arg(&schedctl).run(LIMIT).await.status.success() {
            eprintln!("skipped: another user cannot start {}", schedctl.display());
            return;
        }
        (NOBODY, Process::at(Path::new("/usr/bin/setpriv")).args(as_nobody).arg(&schedctl))
    } else {
        (own, Process::at(&schedctl))
    };
    let mut other = std::process::Command::new("sleep").arg("600").uid(user).spawn().unwrap();
    wait_for("an ordinary process shows its environment", LIMIT, async || {
        match owner_of_environment(other.id()) {
            Some(owner) if owner == user => Ok(()),
            owner => Err(format!("{owner:?}")),
        }
    })
    .await;
    other.kill().unwrap();
    other.wait().unwrap();

    let data = folder.path().join(".sched");
    let launch = launch.current_dir(folder.path()).args(["dev", "--api-port", "0", "--data-dir"]).arg(&data);
    let mut running = launch.start();
    wait_for("schedctl, API, scheduler and worker hide their environment", LIMIT, async || {
        let described = std::fs::read_to_string(data.join("dev.toml")).unwrap_or_default();
        let pids = described.lines().filter_map(|line| line.strip_prefix("pid = ")?.parse().ok());
        let owners: Vec<_> = pids.map(owner_of_environment).collect();
        if owners == [Some(0); 4] { Ok(()) } else { Err(format!("{owners:?}\n{}", running.stderr())) }
    })
    .await;
    assert!(running.stop_gracefully(LIMIT).await.success(), "{}", running.stderr());
    wait_until_gone(folder.path()).await;
}

fn curl_of_the_readme() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(file).unwrap();
    let blocks: Vec<&str> =
        text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let mut found = blocks.into_iter().filter(|block| block.contains("curl "));
    let block = found.next().unwrap().to_owned();
    assert!(found.next().is_none(), "more than one block with curl: run each");
    block
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requests_of_the_readme_run_a_job_and_show_what_became_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/jobs.yaml");
    let mut running = dev(folder.path()).arg("--apply").arg(jobs).start();
    let key = folder.path().join(".sched/api.key");
    let url = wait_for("the URL and the key of the API", LIMIT, async || {
        let toml = std::fs::read_to_string(folder.path().join(".sched/dev.toml")).unwrap_or_default();
        let told = toml.split('"').find(|part| part.starts_with("http://127.0.0.1:"));
        let url = told.filter(|_| key.exists()).ok_or_else(|| running.stderr())?;
        Ok::<_, String>(url.trim_end_matches('/').to_owned())
    })
    .await;
    let block = curl_of_the_readme();
    assert!(block.contains("http://127.0.0.1:8080/api/v1"), "{block}");
    let script = block.replace("http://127.0.0.1:8080", &url);
    // As a whole, so that the first lines set variables for the others. The execution may end after
    // the five seconds of the stream; repeated lines have no second effect.
    wait_for("the lines of the README to show a run that succeeded", LIMIT, async || {
        let done = tokio::process::Command::new("bash")
            .args(["-u", "-c", &script])
            .current_dir(folder.path())
            .env("no_proxy", "*")
            .output()
            .await
            .unwrap();
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        let last: Option<serde_json::Value> = told
            .rfind("{\"items\"")
            .and_then(|start| told.get(start..))
            .and_then(|page| serde_json::from_str(page.trim()).ok());
        let outcome = last.as_ref().map(|page| page["items"][0]["status"].clone());
        let is_told = told.contains("job_created") && told.contains("schedule_execution_completed");
        if outcome == Some("succeeded".into()) && is_told {
            return Ok(());
        }
        Err(format!("{told}\n{}\n{}", String::from_utf8_lossy(&done.stderr), running.stderr()))
    })
    .await;
    let status = running.stop_gracefully(LIMIT).await;
    assert!(status.success(), "{status}: {}", running.stderr());
    wait_until_gone(folder.path()).await;
}

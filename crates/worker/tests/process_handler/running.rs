use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sched_worker::handlers::{ErrorClass, Execution, Outcome, Report};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, entries, execution, run, run_shell, shell, token, wait_for_sleepers};

fn failure(report: &Report) -> (Outcome, Option<ErrorClass>, &str) {
    (report.outcome, report.error_class, report.error_message.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn success_is_reported_with_output_and_times() {
    let report = run_shell("echo out; echo err >&2").await;
    assert_eq!((report.outcome, report.exit_code), (Outcome::Succeeded, Some(0)));
    assert_eq!((report.error_message, report.error_class, report.result), (None, None, None));
    assert_eq!((report.stdout.head.as_str(), report.stderr.head.as_str()), ("out\n", "err\n"));
    assert_eq!((report.stdout.total_bytes, report.stdout.dropped_bytes), (4, 0));
    assert!(report.started_after.unwrap() < report.elapsed);
    assert_eq!(report.notes, Vec::<String>::new());
}

#[tokio::test]
async fn arguments_reach_the_program_on_stdin_and_in_a_file() {
    let report = run_shell(r#"cat; echo; cat "$SCHED_ARGS_FILE""#).await;
    assert_eq!(report.stdout.head, "{\"day\":\"monday\"}\n{\"day\":\"monday\"}");
}

#[tokio::test]
async fn large_arguments_do_not_block() {
    let mut execution = execution(json!({"program": "true"}));
    execution.args = json!("x".repeat(3_000_000));
    assert_eq!(Bench::new().run(execution.clone()).await.outcome, Outcome::Succeeded);
    execution.handler_config = json!({"program": "wc", "args": ["-c"]});
    assert_eq!(Bench::new().run(execution).await.stdout.head, "3000002\n");
}

#[tokio::test]
async fn stdin_can_be_empty() {
    let report = run(json!({"program": "cat", "stdin": "none"})).await;
    assert_eq!((report.outcome, report.stdout.total_bytes), (Outcome::Succeeded, 0));
}

#[tokio::test]
async fn no_shell_sees_the_arguments_of_a_program() {
    let report = run(json!({"program": "printf", "args": ["%s|", "$HOME; `id`", "*", ""]})).await;
    assert_eq!(report.stdout.head, "$HOME; `id`|*||");
}

#[tokio::test]
async fn shell_command_gets_arguments_as_parameters() {
    let report = run(json!({"shell": true, "command": "echo \"$#:$1:$2\"", "args": ["a b", "$c"]})).await;
    assert_eq!(report.stdout.head, "2:a b:$c\n");
}

#[tokio::test]
async fn result_file_is_kept_for_every_outcome() {
    let report = run_shell(r#"echo '{"rows": 3, "bad": "\u0000"}' > "$SCHED_RESULT_FILE"; exit 1"#).await;
    assert_eq!(report.outcome, Outcome::Failed);
    assert_eq!(report.result, Some(json!({"rows": 3, "bad": "\u{FFFD}"})));
}

#[tokio::test]
async fn metrics_of_the_result_are_kept_for_every_outcome() {
    let report =
        run_shell(r#"echo '{"metrics": {"rows": 3, "share": 0.5}}' > "$SCHED_RESULT_FILE"; exit 1"#).await;
    assert_eq!(report.metrics, Some(json!({"rows": 3, "share": 0.5})));
    assert_eq!(report.result, Some(json!({"metrics": {"rows": 3, "share": 0.5}})), "the result stays whole");
    assert_eq!(report.notes, Vec::<String>::new());
    let report = run_shell(r#"echo '{"metrics": {"rows": 3, "Rows": 4}}' > "$SCHED_RESULT_FILE""#).await;
    assert_eq!((report.outcome, report.metrics), (Outcome::Succeeded, Some(json!({"rows": 3}))));
    assert!(
        report.notes.len() == 1 && report.notes[0].contains("\"Rows\" is not a metric name"),
        "{:?}",
        report.notes
    );
}

#[tokio::test]
async fn invalid_result_file_is_ignored_with_a_note() {
    let too_large = r#"head -c 2000000 /dev/zero | tr '\0' 1 > "$SCHED_RESULT_FILE""#;
    let table = [
        (r#"echo '{"rows":' > "$SCHED_RESULT_FILE""#, "not JSON"),
        (r#"ln -s /etc/passwd "$SCHED_RESULT_FILE""#, "not a regular file"),
        (r#"mkfifo "$SCHED_RESULT_FILE""#, "not a regular file"),
        (too_large, "larger than 1048576 bytes"),
    ];
    for (command, expected) in table {
        let report = run_shell(command).await;
        assert_eq!((report.outcome, report.result), (Outcome::Succeeded, None), "{command}");
        assert!(report.notes.len() == 1 && report.notes[0].contains(expected), "{:?}", report.notes);
        assert_eq!(report.log.head, format!("{}\n", report.notes[0]), "the log of the attempt shows it too");
    }
}

#[tokio::test]
async fn unlisted_exit_code_is_a_failure() {
    let report = run_shell("exit 3").await;
    assert_eq!(failure(&report), (Outcome::Failed, Some(ErrorClass::ExitCode), "exit code 3"));
    assert_eq!(report.exit_code, Some(3));
    let listed = run(json!({"shell": true, "command": "exit 3", "success_exit_codes": [3]})).await;
    assert_eq!((listed.outcome, listed.exit_code), (Outcome::Succeeded, Some(3)));
}

#[tokio::test]
async fn signal_is_named_in_the_error() {
    let report = run_shell("ulimit -c 0; kill -SEGV $$").await;
    assert_eq!(
        failure(&report),
        (Outcome::Failed, Some(ErrorClass::Signal), "killed by signal 11 (SIGSEGV)")
    );
    assert_eq!(report.exit_code, None);
}

#[tokio::test]
async fn failed_start_reports_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let no_interpreter = file("script", "#!/nowhere/sh\n", 0o755);
    let not_executable = file("data", "#!/bin/sh\n", 0o644);
    let table = [
        (
            json!({"program": "no-such-program"}),
            ErrorClass::ProgramNotFound,
            "\"no-such-program\" was not found in PATH (/usr",
        ),
        (json!({"program": "/nowhere/x"}), ErrorClass::ProgramNotFound, "\"/nowhere/x\" does not exist"),
        (
            json!({"program": "true", "cwd": "/nowhere"}),
            ErrorClass::SpawnFailed,
            "working directory \"/nowhere\"",
        ),
        (json!({"program": no_interpreter}), ErrorClass::SpawnFailed, "interpreter"),
        (json!({"program": not_executable}), ErrorClass::SpawnFailed, "Permission denied"),
        (
            json!({"program": "x", "env": {"LD_PRELOAD": "y"}}),
            ErrorClass::InvalidConfig,
            "env.LD_PRELOAD: is refused",
        ),
        (json!({"prog": "x"}), ErrorClass::InvalidConfig, "unknown field `prog`"),
        (Value::Null, ErrorClass::InvalidConfig, "handler_config is not valid"),
    ];
    for (config, class, text) in table {
        let bench = Bench::new();
        let report = bench.run(execution(config)).await;
        let (outcome, found, message) = failure(&report);
        assert_eq!((outcome, found), (Outcome::Failed, Some(class)), "{message}");
        assert!(message.contains(text), "{message:?} does not say {text:?}");
        assert_eq!((report.started_after, entries(bench.root.path())), (None, 0));
    }
}

#[tokio::test]
async fn private_directory_is_private_and_removed() {
    let bench = Bench::new();
    let command = r#"stat -c %a "$(dirname "$SCHED_ARGS_FILE")"; pwd; touch "$TMPDIR/x" ./y; mkdir -p a/b"#;
    let report = bench.run(execution(shell(command))).await;
    let lines: Vec<&str> = report.stdout.head.lines().collect();
    assert_eq!((report.outcome, lines[0]), (Outcome::Succeeded, "700"));
    assert!(lines[1].starts_with(bench.root.path().to_str().unwrap()), "{}", lines[1]);
    assert_eq!((entries(bench.root.path()), report.notes.len()), (0, 0));
}

#[tokio::test]
async fn every_attempt_has_its_own_private_directory() {
    let (bench, token) = (Bench::new(), token());
    let cancel = CancellationToken::new();
    let other = bench.run_until(execution(shell(&format!("sleep {token}"))), cancel.clone());
    let short = async {
        wait_for_sleepers(&token, 1).await;
        let finds =
            r#"ls -A; ls -A "$TMPDIR"; stat -c %a . "$TMPDIR" "$SCHED_ARGS_FILE"; cat "$SCHED_ARGS_FILE""#;
        let mut places = BTreeSet::new();
        for (day, leaves) in
            [("monday", ""), ("tuesday", "touch \"$TMPDIR/x\" y"), ("wednesday", "rmdir ../work")]
        {
            let command = format!("{finds}; echo; pwd; {leaves}");
            let args = json!({"day": day});
            let report = bench.run(Execution { args: args.clone(), ..execution(shell(&command)) }).await;
            let (found, place) = report.stdout.head.trim_end().rsplit_once('\n').unwrap();
            assert_eq!(found, format!("args.json\nwork\n700\n700\n600\n{args}"), "{day}");
            assert_eq!(entries(bench.root.path()), 1, "{day}");
            places.insert(place.to_owned());
        }
        assert_eq!(places.len(), 3, "each attempt has a different name");
        // The result is read before its directory is removed.
        let report = bench.run(execution(shell("echo 7 > \"$SCHED_RESULT_FILE\""))).await;
        assert_eq!((report.result, entries(bench.root.path())), (Some(json!(7)), 1));
        cancel.cancel();
    };
    tokio::join!(other, short);
    assert_eq!(entries(bench.root.path()), 0);
}

#[tokio::test]
async fn working_directory_is_configurable() {
    assert_eq!(run(json!({"program": "pwd", "cwd": "/usr"})).await.stdout.head, "/usr\n");
}

#[tokio::test]
async fn missing_temp_root_is_a_worker_error() {
    let bench = Bench::new();
    fs::remove_dir(bench.root.path()).unwrap();
    let report = bench.run(execution(json!({"program": "true"}))).await;
    let (outcome, class, message) = failure(&report);
    assert_eq!((outcome, class), (Outcome::Failed, Some(ErrorClass::Worker)));
    assert!(message.contains("No such file or directory"), "{message}");
    fs::create_dir(bench.root.path()).unwrap();
}

#[tokio::test]
async fn attempt_without_temp_root_is_untried() {
    let bench = Bench::new();
    fs::remove_dir_all(bench.root.path()).unwrap();
    let report = bench.run(execution(json!({"program": "true"}))).await;
    assert!(report.untried && report.started_after.is_none(), "{report:?}");
    let (outcome, class, message) = failure(&report);
    assert_eq!((outcome, class), (Outcome::Failed, Some(ErrorClass::Worker)));
    assert!(message.contains("private directory"), "{message}");
    let waits = report.retry_after.unwrap().as_secs_f64();
    assert!((5.0..=30.0).contains(&waits), "{waits}");

    let absent = Bench::new().run(execution(json!({"program": "/no/such/program"}))).await;
    assert!(!absent.untried, "the function's own mistake counts");
}

/// Not a test: the test below runs it in a process with lower limits.
#[tokio::test]
#[ignore = "it lowers the limits of its process"]
async fn worker_without_file_descriptors() {
    let bench = Bench::new();
    assert_eq!(bench.run(execution(json!({"program": "true"}))).await.outcome, Outcome::Succeeded);
    let open = u64::try_from(entries("/proc/self/fd".as_ref())).unwrap();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let mut shortest = None;
    // From too few files to enough: the program is never the cause.
    for files in open.. {
        setrlimit(Resource::RLIMIT_NOFILE, files, hard).unwrap();
        let report = bench.run(execution(json!({"program": "true"}))).await;
        if report.outcome == Outcome::Succeeded {
            break;
        }
        assert!(report.untried && report.started_after.is_none(), "with {files} files: {report:?}");
        assert_eq!(failure(&report).1, Some(ErrorClass::Worker));
        let message = report.error_message.unwrap();
        assert!(message.contains("Too many open files"), "{message}");
        if message.contains("could not create a process for") {
            shortest.get_or_insert(files);
        }
    }
    println!("without room for a process from {shortest:?} files on, {open} were open");
    assert!(shortest.is_some(), "the creation of a process never failed");
    assert!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0 > open);
}

#[tokio::test]
async fn attempt_without_file_descriptors_is_untried() {
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "running::worker_without_file_descriptors", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{ended:?}");
    println!("{said}");
}

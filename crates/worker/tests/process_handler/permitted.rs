//! The operator's list of programs that functions may start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use sched_worker::handlers::{ErrorClass, Outcome, Report, RetryHint};
use serde_json::{Value, json};

use crate::support::{Bench, entries, execution, shell};

fn script(path: &Path) {
    fs::write(path, "#!/bin/sh\necho \"ran $0\"\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

async fn run(bench: &Bench, config: Value) -> Report {
    bench.run(execution(config)).await
}

#[track_caller]
fn assert_refused(report: &Report, setting: &str) {
    assert_eq!((report.outcome, report.error_class), (Outcome::Failed, Some(ErrorClass::ProgramRefused)));
    let message = report.error_message.as_deref().unwrap();
    assert!(message.contains("WORKER_PROGRAMS") && message.contains(setting), "{message}");
    assert_eq!(report.again, RetryHint::Never, "a retry would be rejected too");
    assert!(!report.untried && report.started_after.is_none() && report.stdout.head.is_empty(), "{report:?}");
}

#[tokio::test]
async fn listed_program_runs_and_others_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().canonicalize().unwrap().join(name);
    fs::create_dir(at("jobs")).unwrap();
    fs::create_dir(at("tenant")).unwrap();
    for name in ["jobs/report", "tenant/own"] {
        script(&at(name));
    }
    symlink("/bin/sh", at("jobs/sh")).unwrap();
    symlink("/bin/sh", at("tenant/report")).unwrap();
    symlink(at("jobs/report"), at("tenant/sh")).unwrap();
    let list = format!("{}/*", at("jobs").display());
    let bench = Bench::permitting(&[&list]);

    let named = |path: &str| json!({"program": at(path), "args": ["-c", "echo evaded"]});
    let ran = format!("ran {}\n", at("jobs/report").display());
    for path in ["jobs/report", "tenant/../jobs/./report", "tenant/sh"] {
        let report = run(&bench, named(path)).await;
        assert_eq!(
            (report.outcome, report.stdout.head.as_str()),
            (Outcome::Succeeded, ran.as_str()),
            "{path}"
        );
    }
    for path in ["tenant/own", "tenant/report", "jobs/sh", "jobs/../tenant/own", "jobs/../../../../../bin/sh"]
    {
        assert_refused(&run(&bench, named(path)).await, &list);
    }
    // The resolved file decides.
    for config in [
        json!({"program": "sh", "args": ["-c", "echo evaded"]}),
        json!({"program": "env", "args": [at("jobs/report")]}),
        json!({"program": "/proc/self/exe"}),
        json!({"program": "/bin/sh", "args": ["-c", "echo evaded"], "cwd": at("jobs")}),
        shell("echo evaded"),
    ] {
        assert_refused(&run(&bench, config).await, &list);
    }
    let absent = run(&bench, json!({"program": "no-such-program"})).await;
    assert_eq!(absent.error_class, Some(ErrorClass::ProgramNotFound));
    assert_eq!(entries(bench.root.path()), 0, "no program was started");
}

#[tokio::test]
async fn shell_command_needs_a_listed_shell() {
    let named = Bench::permitting(&["/bin/sh", "/opt/jobs/**"]);
    let report = run(&named, shell("echo \"$0\"")).await;
    assert_eq!((report.outcome, report.stdout.head.as_str()), (Outcome::Succeeded, "sh\n"));
    assert_refused(&run(&named, json!({"program": "true"})).await, "/bin/sh,/opt/jobs/**");
    let file = fs::canonicalize("/bin/sh").unwrap();
    let resolved = Bench::permitting(&[file.to_str().unwrap()]);
    assert_eq!(run(&resolved, shell("exit 0")).await.outcome, Outcome::Succeeded);
    let all = Bench::permitting(&["/**"]);
    assert_eq!(run(&all, shell("exit 0")).await.outcome, Outcome::Succeeded);
}

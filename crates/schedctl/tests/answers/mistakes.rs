//! Mistakes in files and in edited texts.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::Stdio;

use nix::pty::openpty;
use sched_runtime::exit;
use serde_json::{Value, json};

use crate::api::{Api, page, problem, text};
use crate::{AT, job};

const FAULTY: &str = "\
task_functions:
  - name: f
    handler_type: process
    handler_config: {program: tidy}
    default_timeout_seconds: 0
jobs:
  - name: shape
    function: f
    job_type: hourly
  - name: twice
    function: f
    job_type: manual
  - name: twice
    function: unknown
    job_type: manual
  - name: meaning
    function: f
    job_type: cron
    schedule_config: {expression: '61 * * * *'}
    timezone: Mars/Base
";

fn file(folder: &Path, text: &str) -> String {
    let path = folder.join("jobs.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn files_are_validated_without_an_api() {
    let api = Api::of(&[]);
    let folder = tempfile::tempdir().unwrap();
    let wrong = api.run(exit::USAGE, &format!("jobs validate -f {}", file(folder.path(), FAULTY)));
    let told = text(&wrong.stderr);
    for (line, mistake) in [
        (5, "task function \"f\", default_timeout_seconds: must be between"),
        (9, "job \"shape\", job_type: `hourly` is not allowed"),
        (13, "job \"twice\", name: the name is already used"),
        (19, "job \"meaning\", schedule_config.expression:"),
        (20, "job \"meaning\", timezone:"),
    ] {
        let found = told.lines().find(|told| told.contains(mistake));
        let found = found.unwrap_or_else(|| panic!("{mistake} is missing in {told}"));
        assert!(found.contains(&format!("jobs.yaml:{line}:")), "{found}");
    }
    assert_eq!(told.lines().count(), 6, "{told}");
    let sound = "jobs: [{name: a, function: f, job_type: manual, after: [{job: b}]}]\n";
    let valid = api.json(&format!("jobs validate -f {}", file(folder.path(), sound)));
    let expected = json!({
        "jobs": 1, "task_functions": 0, "calendars": 0, "undefined_task_functions": ["f"], "undefined_calendars": [],
        "undefined_jobs": ["b"],
    });
    assert_eq!(valid, expected);
    assert!(api.routes().is_empty(), "nothing was sent");
}

#[test]
fn faulty_files_get_the_mistakes_of_every_stage() {
    let mut refusal: Value = serde_json::from_str(&problem(422, "invalid", "2 mistakes")).unwrap();
    refusal["errors"] = json!([
        {"pointer": "/jobs/1/function", "message": "there is no task function named \"unknown\""},
        {"pointer": "/jobs/1/name", "message": "\"twice\" is already at /jobs/0"},
        {"pointer": "/jobs/2/after/0/job", "message": "there is no job named \"shape\""},
    ]);
    let api = Api::new(move |_| (422, refusal.to_string()));
    let folder = tempfile::tempdir().unwrap();
    let wrong = api.run(exit::USAGE, &format!("jobs apply -f {}", file(folder.path(), FAULTY)));
    let told = text(&wrong.stderr);
    assert_eq!(api.routes(), ["POST /apply?dry_run=true"]);
    let unknown = "jobs.yaml:14:5: job \"twice\", function: there is no task function named \"unknown\"";
    assert!(told.contains(unknown), "{told}");
    assert!(told.contains("`hourly` is not allowed") && told.contains("the name is already used"), "{told}");
    assert_eq!(told.lines().count(), 4, "{told}");
}

fn versions() -> Value {
    let settings = json!({"name": "nightly", "function": "f", "job_type": "manual", "priority": 5});
    let version = json!({
        "version": 7, "change": "created", "changed_at": AT, "changed_by": "x", "pause_reason": null,
        "paused_until": null, "changes": [], "settings": settings,
    });
    page(&[version], None)
}

/// Makes a mistake, then another one, then corrects the text or gives up.
const EDITOR: &str = "\
if ! grep -q '^#! ' \"$1\"; then sed 's/priority: 5/priority: many/' \"$1\" > \"$1.new\"
elif grep -q 'many$' \"$1\"; then cp \"$1\" \"$SEEN.1\"; sed 's/priority: many/priority: 101/' \"$1\" > \"$1.new\"
else cp \"$1\" \"$SEEN.2\"; sed \"s/priority: 101/priority: $LAST/\" \"$1\" > \"$1.new\"
fi
mv \"$1.new\" \"$1\"
";

fn edit(api: &Api, folder: &Path, last: &str, stdin: Stdio) -> std::process::Output {
    let script = folder.join("edit.sh");
    std::fs::write(&script, EDITOR).unwrap();
    let mut command = api.command("jobs edit nightly");
    let variables = [
        ("EDITOR", format!("sh {}", script.display())),
        ("TMPDIR", folder.display().to_string()),
        ("SEEN", folder.join("seen").display().to_string()),
        ("LAST", last.to_owned()),
    ];
    command.current_dir(folder).envs(variables).stdin(stdin).output().unwrap()
}

#[test]
fn editor_opens_again_with_the_error_on_top() {
    let mut refusal: Value = serde_json::from_str(&problem(422, "invalid", "a mistake")).unwrap();
    refusal["errors"] = json!([{"pointer": "/priority", "message": "must be between 0 and 100, not 101"}]);
    let api = || {
        let refusal = refusal.clone();
        let done = std::sync::atomic::AtomicBool::new(false);
        Api::new(move |asked| match asked {
            "GET /jobs/nightly/versions?limit=1" => (200, versions().to_string()),
            _ if done.swap(true, std::sync::atomic::Ordering::Relaxed) => (200, job("enabled").to_string()),
            _ => (422, refusal.to_string()),
        })
    };
    let terminal = || -> (OwnedFd, Stdio) {
        let pty = openpty(None, None).unwrap();
        let stdin = pty.slave.as_fd().try_clone_to_owned().unwrap();
        (pty.master, Stdio::from(stdin))
    };
    let folder = tempfile::tempdir().unwrap();
    let seen = |number: u32| std::fs::read_to_string(folder.path().join(format!("seen.{number}"))).unwrap();
    let (_master, stdin) = terminal();
    let done = edit(&api(), folder.path(), "7", stdin);
    assert_eq!(done.status.code(), Some(exit::OK.into()), "{}", text(&done.stderr));
    let first = seen(1);
    let line = first.lines().position(|line| line.starts_with("priority")).unwrap() + 1;
    assert!(first.starts_with("#! the text is not a valid job"), "{first}");
    assert!(first.contains(&format!(":{line}:")), "{first}");
    let second = seen(2);
    assert!(second.contains("must be between 0 and 100") && !second.contains("not a valid job"), "{second}");

    let (_master, stdin) = terminal();
    let given_up = edit(&api(), folder.path(), "101", stdin);
    assert_eq!(given_up.status.code(), Some(exit::REFUSED.into()), "{}", text(&given_up.stderr));
    assert!(text(&given_up.stderr).contains("the text is kept in"), "{}", text(&given_up.stderr));
    let once = edit(&api(), folder.path(), "7", Stdio::null());
    assert_eq!(once.status.code(), Some(exit::USAGE.into()), "{}", text(&once.stderr));
}

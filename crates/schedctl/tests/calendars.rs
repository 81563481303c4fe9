//! `schedctl calendars import --dry-run` as a program.

#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use sched_runtime::exit;
use serde_json::{Value, json};

const FILE: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//EN\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:Christmas\r\n\
    DTSTART;VALUE=DATE:20261225\r\nDTEND;VALUE=DATE:20261227\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

fn import(more: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedctl"));
    command.args(["calendars", "import", "-", "--name", "holidays", "--dry-run"]).args(more);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

#[test]
fn a_dry_run_prints_the_calendar_and_asks_no_api() {
    let output = import(&["-o", "json", "--api-url", "http://127.0.0.1:1"], FILE);
    assert_eq!(output.status.code(), Some(exit::OK.into()), "{}", text(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, json!({"name": "holidays", "dates": ["2026-12-25/2026-12-26"]}));

    let output = import(&["--description", "Days off."], FILE);
    let table = text(&output.stdout);
    for line in [
        "Name         holidays",
        "Description  Days off.",
        "Dates        2026-12-25/2026-12-26",
        "Weekly       -",
    ] {
        assert!(table.lines().any(|printed| printed == line), "{line:?} is not in\n{table}");
    }
}

#[test]
fn a_file_that_is_no_calendar_is_refused_and_nothing_printed() {
    for input in ["", "jobs: []\n", &FILE.replace("20261225", "20261325")] {
        let output = import(&[], input);
        assert_eq!(output.status.code(), Some(exit::USAGE.into()), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("standard input: "), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

//! `schedctl schedules preview` as a program, without API and database.

#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::thread;

use sched_runtime::exit;
use serde_json::{Value, json};

fn preview(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedctl"));
    command.args(["schedules", "preview"]).args(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

fn ended(output: &Output, code: u8) {
    assert_eq!(output.status.code(), Some(code.into()), "{}{}", text(&output.stdout), text(&output.stderr));
}

const WEEKDAYS: [&str; 8] = [
    "--cron",
    "0 0 * * 1-5",
    "--timezone",
    "Europe/Berlin",
    "--after",
    "2026-03-26T12:00:00Z",
    "--count",
    "4",
];

#[test]
fn fire_times_cross_a_change_of_the_clocks_on_the_right_days() {
    let output = preview(&[&WEEKDAYS[..], &["-o", "json"]].concat(), "");
    ended(&output, exit::OK);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fire = |utc, local| json!({"utc": utc, "local": local, "note": null});
    assert_eq!(
        answer.get("fire_times").unwrap(),
        &json!([
            fire("2026-03-26T23:00:00Z", "2026-03-27T00:00:00+01:00"),
            fire("2026-03-29T22:00:00Z", "2026-03-30T00:00:00+02:00"),
            fire("2026-03-30T22:00:00Z", "2026-03-31T00:00:00+02:00"),
            fire("2026-03-31T22:00:00Z", "2026-04-01T00:00:00+02:00"),
        ])
    );
    assert_eq!(answer.get("description").unwrap(), "At 00:00, Monday to Friday.");
    let warnings = answer.get("warnings").unwrap().as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(text(&output.stderr).is_empty(), "{}", text(&output.stderr));
}

#[test]
fn people_get_a_sentence_and_a_table_and_the_warnings_beside_it() {
    let output = preview(&WEEKDAYS, "");
    ended(&output, exit::OK);
    assert_eq!(
        text(&output.stdout).lines().take(4).collect::<Vec<_>>(),
        [
            "At 00:00, Monday to Friday.",
            "",
            "UTC                   LOCAL                      NOTE",
            "2026-03-26T23:00:00Z  2026-03-27T00:00:00+01:00  -",
        ]
    );
    assert!(text(&output.stderr).starts_with("warning: day_of_week: "), "{}", text(&output.stderr));
}

#[test]
fn yaml_says_the_same_as_json() {
    let json = preview(&[&WEEKDAYS[..], &["-o", "json"]].concat(), "");
    let yaml = preview(&[&WEEKDAYS[..], &["-o", "yaml"]].concat(), "");
    ended(&yaml, exit::OK);
    let from_yaml: Value = serde_saphyr::from_str(text(&yaml.stdout)).unwrap();
    assert_eq!(from_yaml, serde_json::from_slice::<Value>(&json.stdout).unwrap());
}

#[test]
fn a_bad_question_is_wrong_usage_and_names_the_field() {
    let long = "1,".repeat(5000);
    for (arguments, named) in [
        (&["--cron", "0 0 31 2 *"][..], "--cron (expression): `0 0 31 2 *` never fires"),
        (&["--cron", "60 * * * *"], "--cron (minute): `60`"),
        (&["--cron", "* * * *"], "--cron (expression): "),
        (&["--cron", "0 0 * * 8"], "--cron (day_of_week): `8`"),
        (&["--cron", "* * * * *", "--timezone", "Mars/Base"], "--timezone: `Mars/Base`"),
        (&["--cron", ""], "--cron (expression): is empty"),
        (&["--cron", &long], "--cron (expression): is 10000 bytes long"),
        (&["--cron", "* * * * *", "--after", "soon"], "--after"),
        (&[], "--cron"),
    ] {
        let output = preview(arguments, "");
        ended(&output, exit::USAGE);
        assert!(text(&output.stderr).contains(named), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }
}

#[test]
fn thousands_of_lines_are_answered_by_one_process_and_a_bad_one_stops_nothing() {
    let line = |number: i32| match number % 100 {
        99 => "{\"expr\":\"60 * * * *\"}\n".to_owned(),
        minute => format!("{{\"expr\":\"{} 2 * * *\",\"tz\":\"Europe/Berlin\",\"count\":3}}\n", minute % 60),
    };
    let input: String = (0..4000).map(line).collect();
    let output = preview(&["--stdin", "--after", "2026-03-28T12:00:00Z"], &input);
    ended(&output, exit::OK);
    let answers: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 4000);
    for (number, answer) in answers.iter().enumerate() {
        if number % 100 == 99 {
            assert_eq!(answer.pointer("/error/field").unwrap(), "expr.minute", "{answer}");
        } else {
            assert_eq!(answer.pointer("/fire_times/0/utc").unwrap(), "2026-03-29T01:00:00Z", "{answer}");
            assert_eq!(answer.pointer("/fire_times/0/note").unwrap(), "shifted", "{answer}");
        }
    }
}

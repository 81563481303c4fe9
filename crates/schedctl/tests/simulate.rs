//! `schedctl schedules simulate` as a program.

#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use sched_runtime::exit;
use serde_json::{Value, json};

const WINDOW: [&str; 4] = ["--from", "2026-03-01T00:00:00Z", "--to", "2026-03-02T00:00:00Z"];

fn simulate(input: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedctl"));
    // Nothing listens there: a request to the API would fail.
    command.env("SCHED_API_URL", "http://127.0.0.1:1").args(["schedules", "simulate"]).args(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    output
}

fn day(input: &str, more: &[&str]) -> Output {
    simulate(input, &[&["-f", "-"], &WINDOW[..], more].concat())
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

fn ended(output: &Output, code: u8) {
    assert_eq!(output.status.code(), Some(code.into()), "{}{}", text(&output.stdout), text(&output.stderr));
}

fn report(input: &str, more: &[&str]) -> Value {
    let output = day(input, &[&["-o", "json"], more].concat());
    ended(&output, exit::OK);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn at<'a>(report: &'a Value, pointer: &str) -> &'a Value {
    report.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is missing in {report:#}"))
}

fn job(name: &str, rest: &str) -> String {
    format!("  - {{name: {name}, function: f, {rest}}}\n")
}

fn cron(expression: &str) -> String {
    format!("job_type: cron, schedule_config: {{expression: '{expression}'}}")
}

fn sample() -> String {
    let mut text = "jobs:\n".to_owned();
    for number in 0..20 {
        text += &job(&format!("nightly-{number:02}"), &cron("0 2 * * *"));
    }
    text += &job("slow", &format!("{}, expected_duration_seconds: 5400", cron("0 * * * *")));
    text += &job("once", "job_type: oneoff, schedule_config: {run_at: '2026-03-01T12:00:30Z'}");
    text += &job("later", "job_type: oneoff, schedule_config: {run_at: '2026-03-02T00:00:00Z'}");
    text += &job("asked", "job_type: manual");
    text += &job("off", &format!("{}, is_enabled: false", cron("* * * * *")));
    text
}

#[test]
fn json_holds_the_whole_report() {
    let report = report(&sample(), &[]);
    for (pointer, value) in [
        ("/from", json!("2026-03-01T00:00:00Z")),
        ("/to", json!("2026-03-02T00:00:00Z")),
        ("/jobs", json!(23)),
        ("/manual_jobs", json!(1)),
        ("/disabled_jobs", json!(1)),
        ("/starts", json!(20 + 24 + 1)),
        ("/starts_per_minute/0", json!({"at": "2026-03-01T00:00:00Z", "starts": 1})),
        ("/starts_per_minute/2", json!({"at": "2026-03-01T02:00:00Z", "starts": 21})),
        ("/starts_per_minute/13", json!({"at": "2026-03-01T13:00:00Z", "starts": 1})),
        ("/hours/2/starts", json!(21)),
        ("/hours/12/busiest_minute", json!({"at": "2026-03-01T12:00:00Z", "starts": 2})),
        ("/peaks/0/minute", json!("2026-03-01T02:00:00Z")),
        ("/peaks/0/starts", json!(21)),
        ("/peaks/0/most_in_a_second", json!(21)),
        ("/peaks/0/jobs/0", json!({"name": "nightly-00", "starts": 1})),
        ("/peaks/0/jobs/20", json!({"name": "slow", "starts": 1})),
        ("/peaks/1/most_in_a_second", json!(1)),
        ("/busiest_second", json!({"at": "2026-03-01T02:00:00Z", "starts": 21})),
        // Every other start of `slow` is skipped; each of its twelve runs takes 90 minutes.
        (
            "/starts_per_job/0",
            json!({
                "name": "slow", "starts": 24, "expected_duration_seconds": 5400, "busy_seconds": 12 * 5400,
                "most_running": 1, "overlapping": 12, "skipped": 12, "queued": 0, "cancelled": 0,
            }),
        ),
        ("/starts_per_job/22/name", json!("later")),
        ("/starts_per_job/22/starts", json!(0)),
        ("/overlaps/most_running", json!(1)),
        ("/overlaps/since", json!("2026-03-01T00:00:00Z")),
        ("/overlaps/mean_running", json!(0.75)),
        ("/overlaps/starts_of_unknown_duration", json!(21)),
        ("/peak", json!({"at": "2026-03-01T02:00:00Z", "starts": 21})),
        ("/suggestions/0/field", json!("schedule_config.expression")),
        ("/suggestions/0/value", json!("H 2 * * *")),
        ("/suggestions/0/company_before", json!(21.0)),
    ] {
        assert_eq!(at(&report, pointer), &value, "{pointer}");
    }
    assert!(at(&report, "/predicted_peak/starts").as_u64().unwrap() <= 7, "{report:#}");
    assert_eq!(at(&report, "/overlaps/jobs_of_unknown_duration").as_array().unwrap().len(), 22);
    assert_eq!(at(&report, "/hours").as_array().unwrap().len(), 24);
    assert_eq!(at(&report, "/peaks").as_array().unwrap().len(), 10);
}

#[test]
fn yaml_says_the_same_as_json() {
    let yaml = day(&sample(), &["-o", "yaml"]);
    ended(&yaml, exit::OK);
    let from_yaml: Value = serde_saphyr::from_str(text(&yaml.stdout)).unwrap();
    assert_eq!(from_yaml, report(&sample(), &[]));
}

#[test]
fn people_get_totals_a_chart_and_what_matters_most() {
    let window =
        ["-f", "-", "--from", "2026-03-01T00:00:00Z", "--to", "2026-03-01T04:00:00Z", "--peaks", "2"];
    let output = simulate(&sample(), &window);
    ended(&output, exit::OK);
    let shown: Vec<&str> = text(&output.stdout).split("\n\n").collect();
    let [totals, chart, peaks, jobs, overlaps, advice] = shown.try_into().unwrap();
    assert_eq!(
        totals,
        "23 jobs from 2026-03-01T00:00:00Z to 2026-03-01T04:00:00Z: 24 starts; left out: 1 manual, 1 disabled"
    );
    insta::assert_snapshot!(chart, @r"
    FROM                  STARTS  BUSIEST MINUTE  RUNNING
    2026-03-01T00:00:00Z  1       00:00 (1)       1        ##
    2026-03-01T01:00:00Z  1       01:00 (1)       1        ##
    2026-03-01T02:00:00Z  21      02:00 (21)      1        ########################################
    2026-03-01T03:00:00Z  1       03:00 (1)       1        ##
    ");
    insta::assert_snapshot!(peaks, @r"
    Peaks: the busiest second is 2026-03-01T02:00:00Z with 21 starts
    MINUTE                STARTS  IN ONE SECOND  JOBS  NAMES
    2026-03-01T02:00:00Z  21      21             21    nightly-00, nightly-01, nightly-02, nightly-03, and 17 more
    2026-03-01T00:00:00Z  1       1              1     slow
    ");
    insta::assert_snapshot!(jobs.lines().take(4).collect::<Vec<_>>().join("\n"), @r"
    Busiest jobs
    NAME        STARTS  EACH TAKES  ALL TAKE  AT ONCE
    slow        4       1h30m       3h00m     1
    nightly-00  1       -           -         -
    ");
    insta::assert_snapshot!(overlaps, @r"
    Overlaps: at most 1 run at once, first at 2026-03-01T00:00:00Z; workers need as many slots; 0.75 on average
    NAME  STARTS  OVERLAPPING  SKIPPED  QUEUED  CANCELLED
    slow  4       2            2        0       0
    ");
    insta::assert_snapshot!(advice.lines().take(3).collect::<Vec<_>>().join("\n"), @r#"
    Suggested spread, unless these times are meant: the busiest minute would have 3 starts instead of 21
    JOB         CHANGE                                   MEETS  WOULD MEET
    nightly-00  schedule_config.expression: "H 2 * * *"  21.0   1.0
    "#);
    let told = text(&output.stderr);
    assert!(told.contains("10 of 23 jobs are shown"), "{told}");
    assert!(told.contains("22 jobs with 20 starts declare no expected_duration_seconds"), "{told}");
}

#[test]
fn a_long_window_has_a_line_for_each_day_and_no_list_of_minutes() {
    let input = format!("jobs:\n{}", job("minutely", &cron("* * * * *")));
    let window = ["-f", "-", "--from", "2026-03-01T12:00:00Z", "--to", "2026-03-16T00:00:00Z"];
    let output = simulate(&input, &window);
    ended(&output, exit::OK);
    let shown = text(&output.stdout);
    assert!(shown.contains("2026-03-01T12:00:00Z  720     12:00 (1)"), "{shown}");
    assert!(shown.contains("2026-03-15T00:00:00Z  1440    00:00 (1)"), "{shown}");
    let output = simulate(&input, &[&window[..], &["-o", "json"]].concat());
    ended(&output, exit::OK);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(at(&report, "/starts_per_minute"), &Value::Null);
    assert_eq!(at(&report, "/hours").as_array().unwrap().len(), 14 * 24 + 12);
    assert!(text(&output.stderr).contains("starts_per_minute is left out"), "{}", text(&output.stderr));
}

#[test]
fn several_files_are_one_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    std::fs::write(&file, r#"{"jobs": [{"name": "a", "function": "f", "job_type": "interval", "schedule_config": {"hours": 1}}]}"#).unwrap();
    let input = format!("jobs:\n{}", job("b", &cron("30 * * * *")));
    let report = report(&input, &["-f", file.to_str().unwrap()]);
    assert_eq!((at(&report, "/jobs"), at(&report, "/starts")), (&json!(2), &json!(48)));
    // Counts from the start of the window.
    assert_eq!(at(&report, "/starts_per_minute/0/at"), "2026-03-01T00:00:00Z");
}

#[test]
fn the_zone_is_for_jobs_that_name_none() {
    let own = format!("{}, timezone: Asia/Tokyo", cron("0 9 * * *"));
    let input = format!("jobs:\n{}{}", job("here", &cron("0 9 * * *")), job("there", &own));
    let report = report(&input, &["--timezone", "America/New_York"]);
    assert_eq!(
        at(&report, "/starts_per_minute"),
        &json!([
            {"at": "2026-03-01T00:00:00Z", "starts": 1},
            {"at": "2026-03-01T14:00:00Z", "starts": 1},
        ])
    );
}

#[test]
fn nicknames_and_the_field_form_are_moved_as_expressions() {
    let mut input = "jobs:\n".to_owned();
    for number in 0..6 {
        input += &job(&format!("nick-{number}"), &cron("@daily"));
        input += &job(&format!("form-{number}"), "job_type: cron, schedule_config: {minute: 0, hour: 0}");
        input += &job(&format!("often-{number}"), &cron("*/20 * * * *"));
    }
    let report = report(&input, &[]);
    let suggestions = at(&report, "/suggestions").as_array().unwrap();
    for (start, value) in [("nick", "H 0 * * *"), ("form", "H 0 * * *"), ("often", "H/20 * * * *")] {
        let of = |advice: &&Value| advice["job"].as_str().unwrap().starts_with(start);
        let advice = suggestions.iter().find(of).unwrap_or_else(|| panic!("none of {start}: {report:#}"));
        assert_eq!(advice["value"], value);
    }
}

#[test]
fn spread_keeps_the_days_of_two_day_fields() {
    let config = |config: &str| format!("job_type: cron, schedule_config: {config}");
    let mut input = "jobs:\n".to_owned();
    for number in 0..6 {
        // The first of March 2026 is a Sunday, not a Monday.
        let sunday = "{expression: '0 4 1 * SUN', day_match: both}";
        input += &job(&format!("both-{number}"), &config(sunday));
        input += &job(&format!("star-{number}"), &cron("0 4 */2 * SUN"));
        input += &job(&format!("never-{number}"), &config("{expression: '0 4 1 * MON', day_match: both}"));
        input += &job(&format!("form-{number}"), &config("{day: 1, day_of_week: sun, hour: 4}"));
        input += &job(&format!("second-{number}"), &config("{second: 30, minute: 0, hour: 4}"));
    }
    let report = report(&input, &[]);
    assert_eq!(at(&report, "/starts"), 24);
    let suggestions = at(&report, "/suggestions").as_array().unwrap();
    let of = |start: &str| -> Vec<(&Value, &Value)> {
        let advice = suggestions.iter().filter(|advice| advice["job"].as_str().unwrap().starts_with(start));
        advice.map(|advice| (&advice["field"], &advice["value"])).collect()
    };
    let expression = &json!("schedule_config.expression");
    assert_eq!(of("both").first(), Some(&(expression, &json!("H 4 1 * SUN"))), "{report:#}");
    assert_eq!(of("star").first(), Some(&(expression, &json!("H 4 */2 * SUN"))), "{report:#}");
    // An expression alone would mean other days, or lack its second.
    assert!([of("form"), of("second")].concat().iter().all(|(field, _)| *field != expression), "{report:#}");
}

#[test]
fn mistakes_in_the_files_have_their_places() {
    let input = "jobs:\n  - name: a\n    function: f\n    job_type: cron\n    schedule_config:\n      expression: '61 * * * *'\n    max_instances: 0\n";
    let output = day(input, &[]);
    ended(&output, exit::USAGE);
    let told = text(&output.stderr);
    assert!(told.starts_with("error: the jobs cannot be simulated:\n"), "{told}");
    assert!(
        told.contains("standard input:6:7: job \"a\", schedule_config.expression: minute `61`"),
        "{told}"
    );
    assert!(told.contains("standard input:7:5: job \"a\", max_instances: "), "{told}");
    let unknown = day("jobs: [{name: a, function: f, job_type: hourly}]", &[]);
    ended(&unknown, exit::USAGE);
    assert!(
        text(&unknown.stderr).contains("standard input:1:41: job \"a\", job_type"),
        "{}",
        text(&unknown.stderr)
    );
}

#[test]
fn wrong_usage_names_the_flag() {
    let input = format!("jobs:\n{}", job("a", &cron("0 2 * * *")));
    let from = ["-f", "-", "--from", "2026-03-01T00:00:00Z"];
    for (arguments, named) in [
        (&["--to", "2026-03-01T00:00:00Z"][..], "--to: the window is empty"),
        (&["--to", "2027-03-02T00:00:01Z"], "--to: the window is longer than 366 days"),
        (&["--timezone", "Mars/Base"], "--timezone: `Mars/Base` is not a time zone"),
        (&["--peaks", "0"], "--peaks"),
    ] {
        let output = simulate(&input, &[&from[..], arguments].concat());
        ended(&output, exit::USAGE);
        assert!(text(&output.stderr).contains(named), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }
}

#[test]
fn the_examples_simulate() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples"));
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let output = simulate("", &[&["-f", path.to_str().unwrap(), "-o", "json"], &WINDOW[..]].concat());
        ended(&output, exit::OK);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(at(&report, "/starts").as_u64().unwrap() > 0, "{}", path.display());
        seen += 1;
    }
    assert!(seen > 0, "there are examples");
}

#[test]
fn no_jobs_are_no_starts() {
    let output = day("jobs: []", &[]);
    ended(&output, exit::OK);
    assert_eq!(
        text(&output.stdout),
        "0 jobs from 2026-03-01T00:00:00Z to 2026-03-02T00:00:00Z: 0 starts; left out: 0 manual, 0 disabled\n"
    );
}

use insta::assert_snapshot;
use sched_wire::ProblemError;

use super::*;

fn files(texts: &[(&str, &str)]) -> Result<Files, FilesError> {
    Files::from_texts(
        texts.iter().map(|(path, text)| (PathBuf::from(path), Ok((*text).to_owned()))).collect(),
    )
}

fn wrong(text: &str) -> String {
    let error = files(&[("jobs.yaml", text)]).unwrap_err();
    assert_eq!(error.exit_code(), exit::USAGE);
    error.to_string()
}

const GOOD: &str = "\
task_functions:
  - name: hello
    handler_type: process
    handler_config: {program: echo, args: [hello]}
jobs:
  - name: greet
    function: hello
    job_type: interval
    schedule_config: {seconds: 5}
";

#[test]
fn files_are_merged_in_their_order() {
    let second = "jobs: [{name: later, function: hello, job_type: manual}]";
    let files = files(&[("a.yaml", GOOD), ("b.json", r#"{"jobs": []}"#), ("c.yaml", second)]).unwrap();
    let manifest = files.manifest();
    let names: Vec<&str> = manifest.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["greet", "later"]);
    assert_eq!(manifest.task_functions.len(), 1);
}

#[test]
fn url_of_the_api_replaces_its_placeholder() {
    let text = "\
task_functions:
  - {name: here, handler_type: http, handler_config: {method: GET, url: '${SCHED_API_URL}/health'}}
  - {name: there, handler_type: http, handler_config: {method: GET, url: 'http://x/${SCHED_API_URL}'}}
";
    let manifest =
        files(&[("a.yaml", text)]).unwrap().manifest_for(&"http://127.0.0.1:18180".parse().unwrap());
    let urls: Vec<&Value> =
        manifest.task_functions.iter().map(|function| &function.handler_config["url"]).collect();
    assert_eq!(urls, ["http://127.0.0.1:18180/health", "http://x/${SCHED_API_URL}"]);
}

#[test]
fn number_with_a_leading_zero_is_refused() {
    let with = |args: &str| GOOD.replace("    job_type:", &format!("    task_args: {args}\n    job_type:"));
    let many = "{ok: [0, 0.5, 10, -1, 0x1f, 0o14, \"012\", 1e3], t: '08'}";
    files(&[("jobs.yaml", &with(many))]).unwrap();
    files(&[("jobs.yaml", &with("\n      script: |\n        mode: 0755\n        a: 012"))]).unwrap();
    for (args, field) in [
        ("{c: 012}", "task_args.c"),
        ("\n      list: [1, 08]", "task_args.list.1"),
        ("{c: -01}", "task_args.c"),
    ] {
        let told = wrong(&with(args));
        assert!(told.contains(&format!("job \"greet\", {field}: a number with a leading zero")), "{told}");
    }
}

#[test]
fn word_that_is_no_boolean_keeps_its_text_in_errors() {
    let told = wrong("jobs:\n  - {name: no, function: f, job_typ: manual}\n");
    assert!(told.contains("job \"no\", job_typ"), "{told}");
}

#[test]
fn an_unknown_field_is_told_with_its_line_and_the_known_ones() {
    let text = GOOD.replace("    job_type: interval", "    job_typ: interval");
    assert_snapshot!(wrong(&text), @r#"
    the jobs cannot be applied, and nothing was sent:
      jobs.yaml:8:5: job "greet", job_typ: unknown field `job_typ`, did you mean `job_type`?; known are name, description, scope, project, function, task_args, job_type, schedule_config, timezone, dst_gap, dst_overlap, start_at, end_at, max_runs, jitter_seconds, calendars, calendar_roll, expected_duration_seconds, after, after_mode, misfire_policy, misfire_grace_seconds, misfire_cap, max_instances, overlap_policy, queue, priority, timeout_seconds, start_within_seconds, retry_policy, is_enabled
    "#);
}

#[test]
fn mistakes_of_several_items_are_told_at_once() {
    let text = "\
calendars:
  - name: free
    days: [SAT]
task_functions:
  - name: f
    handler_type: process
    handler_config: {program: sh, args: [-c, 'true && false & wait', 'https://example.com/?a=1&b=2'], arg: x}
jobs:
  - name: first
    function: f
    job_typ: manual

# Not of the first.
  - name: sound
    function: f
    job_type: manual
  -   name: second
      function: f
      job_type: hourly
      task_args:
        text: |
          - name: none of ours
           of: a kind
  - {name: third, function: f, job_type: manual, priority: often}
notification_rules:
  - name: last
    channel: nowhere
";
    let told = wrong(text);
    let lines: Vec<_> = told.lines().skip(1).map(|line| line.split(": ").next().unwrap().trim()).collect();
    assert_eq!(
        lines,
        ["jobs.yaml:3:5", "jobs.yaml:11:5", "jobs.yaml:19:17", "jobs.yaml:24:60", "jobs.yaml:26:5"],
        "{told}"
    );
    for part in [
        "calendar \"free\"",
        "job \"first\"",
        "job \"second\"",
        "job \"third\"",
        "notification rule \"last\"",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn what_follows_from_reading_without_an_item_is_no_mistake() {
    // Only item of its list; shared line; referenced item; duplicate list.
    for text in [
        "jobs:\n  - name: a\n    function: f\n    job_type: manual\n  - name: b\n    function: f\n    job_type: manual\njobs:\n  - name: c\n",
        "jobs:\n  - name: a\n    job_typ: manual\n",
        "jobs: [{name: a, job_typ: manual}, {name: b, job_typ: manual}]\n",
        "jobs:\n  - name: a\n    task_args: &args {n: 1}\n    job_typ: manual\n  - name: b\n    task_args: *args\n    job_typ: x\n",
    ] {
        let told = wrong(text);
        assert_eq!(told.lines().count(), 2, "{text}{told}");
    }
}

#[test]
fn a_calendar_is_written_as_people_write_dates() {
    let text = "calendars:\n  - name: holidays\n    dates: [2026-12-24, 2026-12-27/2026-12-30]\n    yearly: [12-25, 01-01]\n    weekly: [SAT, {days: [MON], from: 02:00, until: 04:30}]\n";
    let files = files(&[("a.yaml", text), ("b.yaml", "calendars: [{name: other}]")]).unwrap();
    let calendars = files.manifest().calendars;
    assert_eq!(
        calendars.iter().map(|calendar| calendar.name.as_str()).collect::<Vec<_>>(),
        ["holidays", "other"]
    );
    assert_eq!(
        serde_json::Value::Object(calendars[0].clone().into_definition()),
        serde_json::json!({
            "dates": ["2026-12-24", "2026-12-27/2026-12-30"],
            "yearly": ["12-25", "01-01"],
            "weekly": ["SAT", {"days": ["MON"], "from": "02:00", "until": "04:30"}],
        })
    );
}

#[test]
fn an_unknown_field_of_a_calendar_is_told_with_its_line_and_the_known_ones() {
    assert_snapshot!(wrong("calendars:\n  - name: holidays\n    days: [SAT]\n"), @r#"
    the jobs cannot be applied, and nothing was sent:
      jobs.yaml:3:5: calendar "holidays", days: unknown field `days`; known are name, description, timezone, dates, yearly, weekly, windows, rules, except
    "#);
}

#[test]
fn queues_have_places_and_names_like_jobs() {
    let text = "queues:\n  - name: io\n    max_running: 3\n    rate: {count: 10, period_seconds: 60}\n";
    let files = files(&[("a.yaml", GOOD), ("b.yaml", text)]).unwrap();
    assert_eq!(files.manifest().queues[0].max_running, Some(3));
    let mut problem = Problem::new(422, "Unprocessable Content", "invalid", "a mistake; nothing was changed");
    problem.errors = vec![ProblemError { pointer: "/queues/0/max_running".into(), message: "is odd".into() }];
    let told = files.explain(&problem).to_string();
    assert!(told.contains("b.yaml:3:5: queue \"io\", max_running: is odd"), "{told}");
    let told = wrong("queues:\n  - name: io\n    is_paused: true\n");
    assert!(told.contains("jobs.yaml:3:5: queue \"io\", is_paused: unknown field"), "{told}");
}

#[test]
fn calendars_have_places_like_jobs() {
    let text = "calendars:\n  - name: holidays\n    weekly:\n      - SAT\n      - days: [MON]\n        from: 2 pm\n        until: 04:00\n";
    let files = files(&[("a.yaml", GOOD), ("b.yaml", text)]).unwrap();
    let mut problem =
        Problem::new(422, "Unprocessable Content", "invalid", "2 mistakes; nothing was changed");
    problem.errors = ["/calendars/0/weekly/1/from", "/jobs/0/calendars/0"]
        .map(|pointer| ProblemError { pointer: pointer.into(), message: "is odd".into() })
        .into();
    assert_snapshot!(files.explain(&problem), @r#"
    nothing was applied: 2 mistakes; nothing was changed (status 422, invalid):
      b.yaml:6:9: calendar "holidays", weekly.1.from: is odd
      a.yaml:6:5: job "greet", calendars.0: is odd
    "#);
    let twice = Files::from_texts(vec![
        ("a.yaml".into(), Ok(text.to_owned())),
        ("b.yaml".into(), Ok(text.to_owned())),
    ]);
    assert_snapshot!(twice.unwrap_err(), @r#"
    the jobs cannot be applied, and nothing was sent:
      b.yaml:2:5: calendar "holidays", name: the name is already used in a.yaml:2:5
    "#);
}

#[test]
fn an_unknown_word_is_told_with_the_known_ones() {
    let text = GOOD.replace("interval", "hourly");
    assert_snapshot!(wrong(&text), @r#"
    the jobs cannot be applied, and nothing was sent:
      jobs.yaml:8:15: job "greet", job_type: `hourly` is not allowed; use one of cron, interval, oneoff, manual
    "#);
}

#[test]
fn a_wrong_type_is_told_with_its_field() {
    let text = format!("{GOOD}    max_instances: many\n");
    assert_snapshot!(wrong(&text), @r#"
    the jobs cannot be applied, and nothing was sent:
      jobs.yaml:10:20: job "greet", max_instances: must be a whole number in range
    "#);
}

#[test]
fn a_missing_field_is_told_with_its_item() {
    let text = GOOD.replace("    function: hello\n", "");
    assert_snapshot!(wrong(&text), @r#"
    the jobs cannot be applied, and nothing was sent:
      jobs.yaml:6:5: job "greet": the field `function` is missing
    "#);
}

#[test]
fn a_field_missing_deeper_is_told_with_what_lacks_it() {
    let text = format!("{GOOD}    retry_policy:\n      backoff_seconds: 3\n    timezone: UTC\n");
    assert_snapshot!(wrong(&text), @r#"
    the jobs cannot be applied, and nothing was sent:
      jobs.yaml:10:5: job "greet", retry_policy: the field `max_attempts` is missing
    "#);
}

#[test]
fn an_answer_of_the_api_is_no_jobs_file_and_the_way_to_one_is_told() {
    for text in ["id: 7\nname: a\nstatus: enabled\ncreated_at: x\n", "items: []\nnext_cursor: null\n"] {
        let told = wrong(text);
        assert!(
            told.contains("jobs.yaml: this is an answer of the API") && told.contains("`schedctl export`"),
            "{told}"
        );
        assert_eq!(told.lines().count(), 2, "{told}");
    }
}

#[test]
fn broken_yaml_is_told_with_its_line() {
    assert_snapshot!(wrong("jobs:\n  - name: 'open\n"), @r"
    the jobs cannot be applied, and nothing was sent:
      jobs.yaml:3:1: invalid indentation in multiline quoted scalar
    ");
}

#[test]
fn a_bare_asterisk_is_explained() {
    let text = GOOD.replace("{seconds: 5}", "{expression: */5 * * * *}");
    assert_snapshot!(wrong(&text), @r"
    the jobs cannot be applied, and nothing was sent:
      jobs.yaml:9:35: unknown alias; quote a value that begins with an asterisk, such as a cron expression
    ");
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    let text = format!("{GOOD}    function: other\n");
    assert_snapshot!(wrong(&text), @r#"
    the jobs cannot be applied, and nothing was sent:
      jobs.yaml:10:5: job "greet": duplicate key `function`
    "#);
}

#[test]
fn yes_is_no_truth_value() {
    let text = format!("{GOOD}    is_enabled: yes\n");
    assert!(wrong(&text).contains("is_enabled"), "{}", wrong(&text));
}

#[test]
fn json_mistakes_have_places_too() {
    let text = "{\"jobs\": [\n  {\"name\": \"x\", \"function\": \"f\",\n   \"job_type\": \"hourly\"}\n]}";
    let error = files(&[("jobs.json", text)]).unwrap_err();
    assert_snapshot!(error, @r#"
    the jobs cannot be applied, and nothing was sent:
      jobs.json:3:23: job "x", job_type: must be one of cron, interval, oneoff, manual; not "hourly"
    "#);
}

#[test]
fn a_field_missing_in_json_is_told_with_its_item() {
    let error = files(&[("jobs.json", "{\"jobs\": [\n  {\"name\": \"x\", \"job_type\": \"manual\"}\n]}")])
        .unwrap_err();
    assert_snapshot!(error, @r#"
    the jobs cannot be applied, and nothing was sent:
      jobs.json:2:3: job "x": the field `function` is missing
    "#);
}

#[test]
fn mistakes_of_all_files_are_told_together() {
    let error = files(&[("a.yaml", "jobs: 7"), ("b.yaml", "job: []")]).unwrap_err().to_string();
    assert!(error.contains("a.yaml:1:7") && error.contains("b.yaml:1:1"), "{error}");
}

#[test]
fn a_missing_file_is_told_with_its_name() {
    let error = Files::read(&[PathBuf::from("no/such/jobs.yaml")]).unwrap_err();
    assert!(error.to_string().contains("no/such/jobs.yaml: could not be read"), "{error}");
}

#[test]
fn a_name_that_stands_twice_is_told_with_both_places() {
    let error = files(&[("a.yaml", GOOD), ("b.yaml", GOOD)]).unwrap_err();
    assert_snapshot!(error, @r#"
    the jobs cannot be applied, and nothing was sent:
      b.yaml:2:5: task function "hello", name: the name is already used in a.yaml:2:5
      b.yaml:6:5: job "greet", name: the name is already used in a.yaml:6:5
    "#);
}

#[test]
fn objections_of_the_api_come_back_to_their_lines() {
    let second = "# jobs only\njobs:\n  - name: later\n    function: hello\n    job_type: cron\n    schedule_config:\n      expression: '61 * * * *'\n";
    let files = files(&[("a.yaml", GOOD), ("b.yaml", second)]).unwrap();
    let mut problem = Problem::new(422, "Unprocessable Content", "invalid", "the manifest has mistakes");
    let error =
        |pointer: &str, message: &str| ProblemError { pointer: pointer.into(), message: message.into() };
    problem.errors = vec![
        error("/jobs/1/schedule_config/expression", "minute must be 0 to 59"),
        error("/task_functions/0/handler_config/args/0", "is odd"),
        error("/jobs/0/timezone", "is unknown"),
        error("/jobs/9/name", "is nowhere"),
        error("", "is odd as a whole"),
    ];
    let explained = files.explain(&problem);
    assert_eq!(explained.exit_code(), exit::REFUSED);
    assert_snapshot!(explained, @r#"
    nothing was applied: the manifest has mistakes (status 422, invalid):
      b.yaml:7:7: job "later", schedule_config.expression: minute must be 0 to 59
      a.yaml:4:44: task function "hello", handler_config.args.0: is odd
      a.yaml:6:5: job "greet", timezone: is unknown
      /jobs/9/name: is nowhere
      is odd as a whole
    "#);
}

//! Creation from flags and files, changes in an editor.

use std::path::Path;

use sched_runtime::exit;
use serde_json::{Value, json};

use crate::api::{Api, effective, line, page, problem, text};
use crate::{AT, OTHER, job};

fn sent(api: &Api) -> Vec<Value> {
    api.bodies().iter().map(|body| serde_json::from_str(body).unwrap()).collect()
}

fn function(config: Value) -> Value {
    json!({
        "id": OTHER, "name": "tidy", "display_name": "Tidy", "description": "", "handler_type": "process", "handler_config": config,
        "queue": "default", "default_timeout_seconds": 300, "retry_policy": null, "args_schema": null, "is_active": true,
        "effective": effective(), "is_paused": false, "pause_reason": null, "is_system": false, "created_at": AT, "updated_at": AT,
    })
}

#[test]
fn a_job_is_made_from_flags_a_file_or_both() {
    let api = Api::of(&[("POST /jobs", job("enabled"))]);
    let printed = api.printed("jobs create nightly --function report");
    assert!(printed.contains("nightly") && printed.contains("enabled"), "{printed}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.yaml");
    let described = "name: hourly\nfunction: report\njob_type: interval\nschedule_config: {hours: 1}\ntask_args: {region: north}\n\
                     retry_policy: {max_attempts: 2, backoff_seconds: 7}\n";
    std::fs::write(&file, described).unwrap();
    api.run(exit::OK, &format!("jobs create -f {}", file.display()));
    api.run(
        exit::OK,
        &format!(
            "jobs create daily -f {} --cron @daily --timezone Europe/Berlin --args {{\"a\":1}} --queue io --priority 7 --timeout 5min \
             --max-attempts 4 --project p --disabled",
            file.display()
        ),
    );
    api.run(exit::OK, "jobs create once --function f --at 2030-01-31T10:00:00+01:00");
    api.run(exit::OK, "jobs create often --function f --config {\"minutes\":5}");
    let sent = sent(&api);
    let some = |body: &Value, fields: &[&str]| -> Value {
        fields.iter().map(|field| ((*field).to_owned(), body[*field].clone())).collect()
    };
    let common = ["name", "function", "job_type", "schedule_config", "is_enabled"];
    let first = json!({"name": "nightly", "function": "report", "job_type": "manual", "schedule_config": {}, "is_enabled": true});
    assert_eq!(some(&sent[0], &common), first);
    assert_eq!(
        some(&sent[1], &common[..4]),
        json!({"name": "hourly", "function": "report", "job_type": "interval", "schedule_config": {"hours": 1}})
    );
    let more = ["timezone", "task_args", "queue", "priority", "timeout_seconds", "project"];
    assert_eq!(
        some(&sent[2], &more),
        json!({"timezone": "Europe/Berlin", "task_args": {"a": 1}, "queue": "io", "priority": 7, "timeout_seconds": 300, "project": "p"})
    );
    assert_eq!(
        some(&sent[2], &common),
        json!({"name": "daily", "function": "report", "job_type": "cron", "schedule_config": {"expression": "@daily"}, "is_enabled": false})
    );
    assert_eq!(
        some(&sent[2]["retry_policy"], &["max_attempts", "backoff_seconds"]),
        json!({"max_attempts": 4, "backoff_seconds": 7})
    );
    assert_eq!(
        some(&sent[3], &["job_type", "schedule_config"]),
        json!({"job_type": "oneoff", "schedule_config": {"run_at": "2030-01-31T09:00:00Z"}})
    );
    assert_eq!(
        some(&sent[4], &["job_type", "schedule_config"]),
        json!({"job_type": "interval", "schedule_config": {"minutes": 5}})
    );
}

#[test]
fn what_exists_already_is_refused_and_what_cannot_be_made_is_not_sent() {
    let taken = "a job named \"nightly\" exists already";
    let api = Api::new(move |_| (409, problem(409, "already_exists", taken)));
    let refused = api.run(exit::REFUSED, "jobs create nightly --function report");
    assert!(text(&refused.stderr).contains(taken), "{}", text(&refused.stderr));
    api.run(exit::REFUSED, "functions create tidy -- /bin/true");
    assert_eq!(api.conditions(), ["PUT if-none-match: *"]);
    let asked = api.routes().len();
    let folder = tempfile::tempdir().unwrap();
    for (name, content, said) in [
        ("list.yaml", "jobs: []\n", "as for `schedctl jobs apply`"),
        (
            "field.yaml",
            "name: a\nfunction: f\ncolour: red\n",
            "field.yaml:3:1: colour: unknown field `colour`",
        ),
        (
            "size.yaml",
            "name: a\nfunction: f\npriority: 40000\n",
            "size.yaml:3:1: priority: must be a smaller whole number",
        ),
        ("answer.yaml", "id: 7\nname: a\ncreated_at: x\n", "`schedctl export` prints a jobs file"),
        ("twice.yaml", "name: a\nname: b\n", "twice.yaml:2:1: duplicate key `name`"),
        ("broken.json", "{\"name\": ", "broken.json:1:"),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        let refused = api.run(exit::USAGE, &format!("jobs create -f {}", file.display()));
        assert!(text(&refused.stderr).contains(said), "{}", text(&refused.stderr));
    }
    api.run(exit::USAGE, "jobs create -f missing.yaml");
    let untold = api.run(exit::USAGE, "functions create tidy --config {}");
    assert!(
        text(&untold.stderr).contains("set --handler to process, http or native"),
        "{}",
        text(&untold.stderr)
    );
    assert_eq!(api.routes().len(), asked, "nothing was sent");
}

#[test]
fn a_function_is_made_of_a_program_an_address_or_what_a_file_says() {
    let made = function(json!({"program": "/bin/tidy"}));
    let api = Api::of(&[
        ("GET /functions/tidy", made.clone()),
        ("PUT /functions/tidy", made.clone()),
        ("PUT /functions/hook", made),
    ]);
    let printed =
        api.printed("functions create tidy --queue io --timeout 1h --max-attempts 1 -- /bin/tidy --all -v");
    assert_eq!(line(&printed, "Handler"), "process");
    assert_eq!(line(&api.printed("functions get tidy"), "Runs"), "/bin/tidy");
    api.run(exit::OK, "functions create hook --url https://example.com/ --description calls");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("function.yaml");
    std::fs::write(
        &file,
        "name: hook\nhandler_type: http\nhandler_config: {url: https://a.example/, method: PUT}\n",
    )
    .unwrap();
    api.run(exit::OK, &format!("functions create tidy -f {} --url https://b.example/", file.display()));
    api.run(exit::OK, "functions create tidy --config {\"handler\":\"tidy\"}");
    let sent = sent(&api);
    let handling =
        |index: usize| (&sent[index]["name"], &sent[index]["handler_type"], &sent[index]["handler_config"]);
    assert_eq!(
        handling(0),
        (&json!("tidy"), &json!("process"), &json!({"program": "/bin/tidy", "args": ["--all", "-v"]}))
    );
    assert_eq!(
        (&sent[0]["queue"], &sent[0]["default_timeout_seconds"], &sent[0]["retry_policy"]["max_attempts"]),
        (&json!("io"), &json!(3600), &json!(1))
    );
    assert_eq!(handling(1), (&json!("hook"), &json!("http"), &json!({"url": "https://example.com/"})));
    assert_eq!(
        handling(2),
        (&json!("tidy"), &json!("http"), &json!({"url": "https://b.example/", "method": "PUT"}))
    );
    assert_eq!(handling(3), (&json!("tidy"), &json!("native"), &json!({"handler": "tidy"})));
    assert!(api.conditions().iter().all(|condition| condition == "PUT if-none-match: *"));
}

fn editor(folder: &Path, from: &str, to: &str) -> String {
    let script = folder.join("edit.sh");
    std::fs::write(&script, format!("sed 's|{from}|{to}|' \"$1\" > \"$1.new\" && mv \"$1.new\" \"$1\"\n"))
        .unwrap();
    format!("sh {}", script.display())
}

#[test]
fn a_function_is_edited_over_what_was_read_and_what_is_not_shown_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let edit = |api: &Api, code: u8, from: &str, to: &str| {
        let variables = [
            ("VISUAL", String::new()),
            ("EDITOR", editor(folder.path(), from, to)),
            ("TMPDIR", folder.path().display().to_string()),
        ];
        api.run_with(code, "functions edit tidy", &variables)
    };
    let kept = || {
        let names = std::fs::read_dir(folder.path()).unwrap();
        names
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("schedctl-"))
            .count()
    };
    let shown = function(json!({"program": "/bin/tidy", "env": {"A": "(hidden)"}}));
    let api = Api::of(&[("GET /functions/tidy", shown.clone()), ("PUT /functions/tidy", shown.clone())]);
    let same = edit(&api, exit::OK, "nowhere", "x");
    assert!(text(&same.stderr).contains("nothing was changed") && api.bodies().is_empty());
    let edited = edit(&api, exit::OK, "(hidden)", "shown");
    assert!(
        text(&edited.stderr).contains("are hidden: keep \"(hidden)\" to leave a value unchanged"),
        "{}",
        text(&edited.stderr)
    );
    assert_eq!(api.conditions(), ["PUT if-match: \"7\""]);
    let written = json!({
        "name": "tidy", "display_name": "Tidy", "handler_type": "process", "handler_config": {"program": "/bin/tidy", "env": {"A": "shown"}},
        "queue": "default", "default_timeout_seconds": 300,
    });
    assert_eq!(sent(&api), [written]);
    assert_eq!(kept(), 0);
    let api = Api::new(move |asked| match asked {
        "GET /functions/tidy" => (200, shown.to_string()),
        _ => (412, problem(412, "version_mismatch", "it is at \"8\" by now")),
    });
    let refused = edit(&api, exit::REFUSED, "(hidden)", "shown");
    let told = text(&refused.stderr);
    assert!(
        told.contains("another client has changed the task function in the meantime")
            && told.contains("the text is kept in "),
        "{told}"
    );
    assert_eq!(kept(), 1);
    let wrong = edit(&api, exit::USAGE, "handler_type", "handler");
    assert!(text(&wrong.stderr).contains("the text is not a valid task function"), "{}", text(&wrong.stderr));
    assert_eq!(kept(), 2);
}

#[test]
fn an_editor_that_fails_leaves_nothing_but_what_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let shown = function(json!({"program": "/bin/tidy"}));
    let api = Api::of(&[("GET /functions/tidy", shown)]);
    let edit = |editor: &str| {
        let variables = [("EDITOR", editor.to_owned()), ("TMPDIR", folder.path().display().to_string())];
        text(&api.run_with(exit::FAILURE, "functions edit tidy", &variables).stderr).to_owned()
    };
    let kept = || std::fs::read_dir(folder.path()).unwrap().count();
    let told = edit("false");
    assert!(told.contains("ended with") && !told.contains("is kept"), "{told}");
    assert_eq!(kept(), 0);
    let told = edit("echo more >> \"$1\"; false");
    assert!(told.contains("the text is kept in "), "{told}");
    assert_eq!(kept(), 1);
}

#[test]
fn edit_without_terminal_and_editor_is_refused() {
    let api = Api::of(&[("GET /functions/tidy", function(json!({"program": "/bin/tidy"})))]);
    let refused = api.run(exit::USAGE, "functions edit tidy");
    assert!(text(&refused.stderr).contains("set VISUAL or EDITOR"), "{}", text(&refused.stderr));
}

#[test]
fn an_instant_is_given_as_a_distance_or_on_a_clock_and_one_in_the_past_is_told_of() {
    let mut past = job("enabled");
    past["job_type"] = json!("oneoff");
    past["schedule_config"] = json!({"run_at": "2026-11-22T10:00:00Z"});
    let mut skipped = past.clone();
    skipped["misfire_policy"] = json!("skip");
    let status = json!({
        "now": AT, "jobs_active": 0, "jobs_inactive": 0, "jobs_quarantined": 0, "quarantined": [], "next_run_at": null,
        "runs_waiting": 0, "runs_running": 0, "workers_online": 0, "schedulers": 0, "has_leader": true,
        "leader_state": "live", "queues": [],
    });
    let applied = json!({
        "results": [{"kind": "job", "name": "late", "id": OTHER, "change": "created", "version": 1}], "dry_run": false,
    });
    let answers = |made: Value| {
        Api::of(&[("GET /status", status.clone()), ("POST /jobs", made), ("POST /apply", applied.clone())])
    };
    let api = answers(past);
    let told = api.run(exit::OK, "jobs create a --function f --at +2h30m");
    assert!(
        text(&told.stderr).contains("note: 2026-11-22T10:00:00Z is in the past; the job fires at once"),
        "{}",
        text(&told.stderr)
    );
    api.run(exit::OK, "jobs create a --function f --at 2030-01-31T10:00 --timezone Europe/Berlin");
    let at: Vec<Value> = sent(&api).iter().map(|body| body["schedule_config"]["run_at"].clone()).collect();
    assert_eq!(at, ["2026-11-22T14:30:00Z", "2030-01-31T09:00:00Z"]);
    let nowhere = api.run(exit::USAGE, "jobs create a --function f --at 2030-01-31T10:00");
    assert!(text(&nowhere.stderr).contains("--timezone"), "{}", text(&nowhere.stderr));
    let told = answers(skipped).run(exit::OK, "jobs create a --function f --at 2026-11-22T10:00:00Z");
    assert!(text(&told.stderr).contains("is skipped and recorded"), "{}", text(&told.stderr));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yaml");
    let described = "jobs: [{name: late, function: f, job_type: oneoff, schedule_config: {run_at: 2026-11-22T10:00:00Z}}]\n";
    std::fs::write(&file, described).unwrap();
    let told = api.run(exit::OK, &format!("jobs apply -f {}", file.display()));
    assert!(
        text(&told.stderr).contains("note: job late: 2026-11-22T10:00:00Z is in the past"),
        "{}",
        text(&told.stderr)
    );
}

#[test]
fn a_name_that_nothing_has_is_told_with_the_one_that_may_be_meant() {
    let api = Api::new(|asked| match asked.split(['?', ' ']).nth(1) {
        Some("/jobs/nightyl") => (404, problem(404, "not_found", "there is no job \"nightyl\"")),
        Some("/jobs") if asked.starts_with("GET") => {
            (200, page(&[json!({"name": "other"}), json!({"name": "nightly"})], None).to_string())
        }
        Some("/jobs") => {
            let mut refused: Value = serde_json::from_str(&problem(
                422,
                "invalid",
                "/function: there is no task function named \"reprot\"",
            ))
            .unwrap();
            refused["errors"] =
                json!([{"pointer": "/function", "message": "there is no task function named \"reprot\""}]);
            (422, refused.to_string())
        }
        _ => (200, page(&[json!({"name": "report"})], None).to_string()),
    });
    let told = api.run(exit::REFUSED, "jobs get nightyl");
    assert!(
        text(&told.stderr).contains("there is no job \"nightyl\", did you mean \"nightly\"?"),
        "{}",
        text(&told.stderr)
    );
    let told = api.run(exit::REFUSED, "jobs create a --function reprot");
    let told = text(&told.stderr);
    assert!(
        told.contains("function: there is no task function named \"reprot\", did you mean \"report\"?"),
        "{told}"
    );
    assert_eq!(told.matches("did you mean").count(), 1, "{told}");
}

#[test]
fn deleting_wants_agreement_where_nobody_can_be_asked() {
    let gone = json!({"job_id": OTHER, "name": "nightly", "version": 2, "cancelled": 0});
    let api = Api::of(&[("DELETE /jobs/nightly", gone), ("GET /jobs/nightly", job("enabled"))]);
    let refused = api.run(exit::USAGE, "jobs delete nightly");
    assert!(text(&refused.stderr).contains("--yes"), "{}", text(&refused.stderr));
    assert_eq!(api.routes(), ["GET /jobs/nightly"]);
    api.run(exit::OK, "jobs delete nightly --yes");
    for missing in ["jobs delete none", "projects delete none --with-jobs"] {
        let refused = api.run(exit::REFUSED, missing);
        assert!(!text(&refused.stderr).contains("--yes"), "{}", text(&refused.stderr));
    }
}

#[test]
fn the_type_of_a_schedule_fits_what_describes_it() {
    let api = Api::of(&[("POST /jobs", job("enabled"))]);
    for schedule in ["--type manual", "--type cron --cron @daily", "--type interval --config {}"] {
        api.run(exit::OK, &format!("jobs create a --function f {schedule}"));
    }
    let of = |body: &Value| (body["job_type"].clone(), body["schedule_config"].clone());
    let sent: Vec<_> = sent(&api).iter().map(of).collect();
    let cron = json!({"expression": "@daily"});
    assert_eq!(sent, [(json!("manual"), json!({})), (json!("cron"), cron), (json!("interval"), json!({}))]);
    for (schedule, said) in [
        ("--type cron", "--type cron: set the schedule with"),
        ("--type interval --cron @daily", "a schedule of the type cron; remove --type"),
        ("--type manual --interval 5m", "a schedule of the type interval; remove --type"),
        ("--interval -5s", "for '--interval <DURATION>'"),
    ] {
        let refused = api.run(exit::USAGE, &format!("jobs create a --function f {schedule}"));
        assert!(text(&refused.stderr).contains(said), "{schedule}: {}", text(&refused.stderr));
    }
    assert_eq!(api.bodies().len(), 3, "nothing more was sent");
}

#[test]
fn files_that_describe_nothing_are_no_success() {
    let api = Api::of(&[]);
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [("empty.yaml", ""), ("none.yaml", "jobs: []\n")] {
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        let refused = api.run(exit::USAGE, &format!("jobs apply -f {}", file.display()));
        assert!(text(&refused.stderr).contains("the files are empty"), "{}", text(&refused.stderr));
    }
    assert!(api.routes().is_empty(), "nothing was sent");
}

#[test]
fn nothing_is_done_whose_end_could_not_be_waited_for() {
    let missing = "this needs the permission runs:read";
    let api = Api::new(move |_| (403, problem(403, "forbidden", missing)));
    for command in
        ["jobs trigger nightly".into(), format!("runs retry {OTHER}"), format!("runs cancel {OTHER}")]
    {
        let refused = api.run(exit::REFUSED, &format!("{command} --wait"));
        let said = text(&refused.stderr);
        assert!(said.contains(missing) && said.contains("nothing was done"), "{said}");
    }
    let asked = api.routes();
    assert!(asked.len() == 3 && asked.iter().all(|asked| asked.starts_with("GET /runs")), "{asked:?}");
}

//! Output of `schedctl` for answers of an API.

#![recursion_limit = "256"]
#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

mod api;
mod events;
mod evidence;
mod following;
mod mistakes;
mod queues;
mod stuck;
mod watching;
mod writing;

use sched_runtime::exit;
use serde_json::{Value, json};

use crate::api::{Api, effective, line, page, problem, text};

const ID: &str = "01936f0a-5a3c-7c11-9d0e-4b6f1f0e8a55";
const OTHER: &str = "01936f0b-0000-7000-8000-000000000002";
const AT: &str = "2026-11-22T12:00:00Z";
/// The same instant as the API answers it where it is stored.
const STORED: &str = "2026-11-22T12:00:00.000000Z";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn event(number: u32, data: Value) -> Value {
    json!({
        "id": format!("5a0c11e2.3f1.0.{number}"), "type": "schedule_execution_completed", "at": STORED, "project_id": null,
        "job_id": OTHER, "run_id": ID, "is_installation": false, "data": data,
    })
}

fn job(status: &str) -> Value {
    json!({
        "id": OTHER, "name": "nightly", "description": "", "scope": "project", "project": null, "function": "report",
        "task_args": {}, "job_type": "manual", "schedule_config": {}, "timezone": "UTC", "dst_gap": null, "dst_overlap": null,
        "start_at": null, "end_at": null, "max_runs": null, "jitter_seconds": 0, "calendars": [], "calendar_roll": "skip",
        "expected_duration_seconds": null, "after": [], "after_mode": "all", "followed_by": [], "misfire_policy": "fire_once",
        "misfire_grace_seconds": null, "misfire_cap": 1, "max_instances": 1, "overlap_policy": "skip", "queue": null,
        "priority": null, "timeout_seconds": null, "start_within_seconds": null, "retry_policy": null, "status": status,
        "effective": effective(), "is_enabled": true, "disabled_reason": null, "is_paused": false, "pause_reason": null, "paused_until": null, "next_run_at": null, "last_run_at": null, "last_status": null, "last_dispatched_at": null, "total_run_count": 0, "active_runs": 0, "tzdata_version": null, "version": 1, "created_at": STORED, "created_by": "x", "updated_at": STORED,
        "updated_by": "x", "deleted_at": null, "made_from": null,
    })
}

fn dispatch() -> Value {
    json!({
        "id": ID, "job_id": OTHER, "job": "nightly", "status": "dead_letter", "scheduled_for": STORED, "created_at": STORED,
        "available_at": STORED, "claimed_at": STORED, "completed_at": STORED, "queue": "mail", "priority": 50, "attempt": 6, "retry_count": 2,
        "lost_count": 0, "worker_id": OTHER, "error_message": "exit code 7", "triggered_by": "api", "triggered_by_user": "ada@example.com",
        "caused_by": null, "retry_of": null, "task_args": {"region": "north"}, "is_catch_up": false, "expires_at": null, "progress": null,
        "trace_id": TRACE,
    })
}

fn dead_letter(handed_back: u32) -> Value {
    json!({
        "run_id": ID, "job_id": OTHER, "job": "nightly", "queue": "mail", "scheduled_for": STORED, "died_at": STORED, "attempts": 6,
        "lost_count": 0, "handed_back": handed_back, "error_class": "exit_code", "error_message": "exit code 7",
        "task_args": {"region": "north"}, "state": "open", "settled_at": null, "settled_by": null, "settled_reason": null,
        "retried_as": null,
    })
}

#[test]
fn programs_get_a_list_as_the_api_answers_it_with_the_cursor_behind_its_last_item() {
    let events: Vec<Value> = (1..=3).map(|number| event(number, json!({}))).collect();
    let api = Api::of(&[
        ("GET /events?limit=3", page(&events[..2], Some("two"))),
        ("GET /events?limit=1&cursor=two", page(&events[2..], Some("three"))),
        ("GET /events?limit=50", page(&events[..1], None)),
        ("GET /events?limit=7", page(&[], None)),
    ]);
    assert_eq!(api.json("events list --limit 3"), page(&events, Some("three")));
    assert_eq!(api.json("events list"), page(&events[..1], None));
    assert_eq!(api.json("events list --limit 7"), page(&[], None));
    let told = api.run(exit::OK, "events list --limit 3 -o yaml");
    assert!(text(&told.stdout).contains("next_cursor: three"), "{}", text(&told.stdout));
    assert!(text(&told.stderr).contains("more than 3"), "{}", text(&told.stderr));
}

#[test]
fn programs_get_the_thing_that_was_changed_and_all_that_was_applied() {
    let applied = json!({
        "results": [{"kind": "job", "name": "nightly", "id": OTHER, "change": "created", "version": 1}], "dry_run": false,
    });
    let api = Api::of(&[
        ("POST /jobs/nightly/pause", job("paused")),
        ("POST /apply", applied.clone()),
        ("GET /workers?limit=200", page(&[], None)),
        ("GET /runs?limit=1", page(&[], None)),
        ("GET /runs/01936f0a-5a3c-7c11-9d0e-4b6f1f0e8a55", dispatch()),
        (
            "POST /runs/01936f0a-5a3c-7c11-9d0e-4b6f1f0e8a55/cancel",
            json!({"run_id": ID, "state": "requested", "status": "running"}),
        ),
    ]);
    assert_eq!(api.json("jobs pause nightly"), job("paused"));
    assert_eq!(api.json("workers list"), page(&[], None));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yaml");
    std::fs::write(&file, "jobs: [{name: nightly, function: report, job_type: manual}]\n").unwrap();
    assert_eq!(api.json(&format!("jobs apply -f {}", file.display())), applied);
    let cancelled = api.run(exit::FAILURE, &format!("runs cancel {ID} --wait -o json"));
    assert_eq!(serde_json::from_slice::<Value>(&cancelled.stdout).unwrap(), dispatch());
}

#[test]
fn a_state_has_one_word_in_lists_filters_and_the_status() {
    let queue = |name: &str, oldest: &str| json!({"name": name, "waiting": 1, "oldest_claimable_at": oldest, "has_live_worker": true, "is_paused": false});
    let (due, later) = ("2026-11-22T11:00:00Z", "2026-11-22T13:00:00Z");
    let status = json!({
        "now": AT, "jobs_active": 4, "jobs_inactive": 3, "jobs_quarantined": 1, "quarantined": [], "next_run_at": null,
        "runs_waiting": 2, "runs_running": 0, "workers_online": 1, "schedulers": 1, "has_leader": true,
        "leader_state": "live", "queues": [queue("due", due), queue("later", later)],
    });
    let mut own = page(&[job("enabled")], Some("x"));
    own["total"] = json!(2);
    let mut enabled = own.clone();
    enabled["total"] = json!(1);
    let api = Api::of(&[
        ("GET /jobs?status=enabled&limit=200", page(&[job("enabled")], None)),
        ("GET /jobs/nightly", job("quarantined")),
        ("GET /status", status.clone()),
        ("GET /jobs?total=true&limit=1", own),
        ("GET /jobs?status=enabled&total=true&limit=1", enabled),
    ]);
    let listed = api.printed("jobs list --status enabled");
    assert!(listed.lines().nth(1).unwrap().contains(" enabled "), "{listed}");
    assert_eq!(line(&api.printed("jobs get nightly"), "Status"), "quarantined");
    let told = api.run(exit::OK, "status");
    let table = text(&told.stdout);
    assert_eq!(
        line(table, "Jobs"),
        "1 enabled, 1 paused or disabled; built in: 3 enabled, 2 paused or disabled; 1 quarantined"
    );
    let columns = |name: &str| line(table, name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(columns("due")[1..3], [due, "-"], "{table}");
    assert_eq!(columns("later")[1..3], ["-", later], "{table}");
    assert!(text(&told.stderr).contains("has quarantined 1 more job;"), "{}", text(&told.stderr));
    assert_eq!(columns("due")[3..5], ["yes", "no"], "{table}");
    assert_eq!(api.json("status")["jobs_active"], status["jobs_active"]);
}

#[test]
fn the_reason_of_a_pause_is_not_told_as_that_of_another_status() {
    let state = |status: &str, disabled: Option<&str>, is_paused: bool| {
        let mut job = job(status);
        job["disabled_reason"] = json!(disabled);
        job["is_paused"] = json!(is_paused);
        job["pause_reason"] = json!(is_paused.then_some("stocktaking"));
        job
    };
    let pause = "until a user resumes it: stocktaking";
    for (job, status, pause) in [
        (state("paused", None, true), "paused", pause),
        (state("disabled", None, true), "disabled", pause),
        (state("quarantined", Some("it has no zone"), true), "quarantined: it has no zone", pause),
        (state("quarantined", Some("it has no zone"), false), "quarantined: it has no zone", "-"),
        (state("enabled", None, false), "enabled", "-"),
    ] {
        let shown = Api::of(&[("GET /jobs/nightly", job)]).printed("jobs get nightly");
        assert_eq!((line(&shown, "Status"), line(&shown, "Paused")), (status, pause), "{shown}");
    }
}

#[test]
fn a_dispatch_and_a_dead_letter_are_shown_with_all_that_is_known_of_them() {
    let path = format!("GET /runs/{ID}");
    let letter = format!("GET /dead-letters/{ID}");
    let api = Api::of(&[
        (&path, dispatch()),
        (&letter, dead_letter(3)),
        ("GET /dead-letters?state=open&limit=50", page(&[dead_letter(3), dead_letter(0)], None)),
    ]);
    for verb in ["get", "show"] {
        let shown = api.printed(&format!("runs {verb} {ID}"));
        for (title, value) in [
            ("Status", "dead_letter"),
            ("Error", "exit code 7"),
            ("Arguments", r#"{"region":"north"}"#),
            ("Attempts", "6 started, 2 followed by a retry, 0 lost"),
            ("Triggered by", "api: ada@example.com"),
            ("Queue", "mail"),
            ("Trace id", TRACE),
        ] {
            assert_eq!(line(&shown, title), value, "{shown}");
        }
        let shown = api.printed(&format!("dead-letters {verb} {ID}"));
        for (title, value) in [
            ("State", "open"),
            ("Error", "exit code 7"),
            ("Error class", "exit_code"),
            ("Arguments", r#"{"region":"north"}"#),
            ("Attempts", "3 (+3 released)"),
            ("Queue", "mail"),
            ("Trace id", TRACE),
        ] {
            assert_eq!(line(&shown, title), value, "{shown}");
        }
    }
    assert_eq!(api.json(&format!("dead-letters get {ID}")), dead_letter(3));
    let listed = api.printed("dead-letters list");
    assert!(listed.contains("  3 (+3 released)  ") && listed.contains("  6  "), "{listed}");
    // The run may be gone.
    let alone = Api::of(&[(&letter, dead_letter(0))]);
    let shown = alone.printed(&format!("dead-letters get {ID}"));
    assert_eq!((line(&shown, "Attempts"), line(&shown, "Trace id")), ("6", "-"));
}

#[test]
fn an_execution_a_queue_and_a_user_are_got_by_their_routes() {
    let execution = json!({
        "id": ID, "job_id": OTHER, "job": "nightly", "run_id": OTHER, "attempt": 1, "status": "failed", "scheduled_for": AT,
        "started_at": AT, "completed_at": AT, "duration_ms": 7, "exit_code": 7, "result": null, "error_class": "exit_code",
        "error_message": "exit code 7", "output_bytes": 3, "worker_id": null, "triggered_by": "api", "trace_id": TRACE, "span_id": null,
    });
    let queue = json!({
        "name": "mail", "description": "what is sent", "is_paused": false, "pause_reason": null, "max_running": 2, "rate": null,
        "default_priority": 50, "running": 1, "claimed_in_period": null, "created_at": AT, "updated_at": AT,
    });
    let user = json!({
        "id": OTHER, "email": "bob@example.com", "display_name": "Bob", "is_active": true, "is_system_operator": false,
        "last_login_at": null, "created_at": AT,
    });
    let path = format!("GET /attempts/{ID}");
    let api = Api::of(&[
        (&path, execution.clone()),
        ("GET /attempts?limit=50", page(&[execution], None)),
        ("GET /queues/mail", queue),
        ("GET /users/bob@example.com", user),
    ]);
    let listed = api.printed("attempts list -o wide");
    let columns: Vec<&str> = listed.lines().next().unwrap().split("  ").map(str::trim).collect();
    assert!(columns.contains(&"WORKER") && columns.contains(&"TRIGGERED BY"), "{listed}");
    assert!(listed.contains("  api  "), "{listed}");
    for verb in ["get", "show"] {
        let shown = api.printed(&format!("attempts {verb} {ID}"));
        assert_eq!((line(&shown, "Error"), line(&shown, "Trace id")), ("exit code 7", TRACE));
        let shown = api.printed(&format!("queues {verb} mail"));
        assert_eq!((line(&shown, "Running"), line(&shown, "Description")), ("1/2", "what is sent"));
        let shown = api.printed(&format!("users {verb} bob@example.com"));
        assert_eq!((line(&shown, "Name"), line(&shown, "Id")), ("Bob", OTHER));
    }
}

#[test]
fn a_user_is_given_another_name_and_nothing_else() {
    let user = json!({
        "id": OTHER, "email": "bob@example.com", "display_name": "Bobby", "is_active": true, "is_system_operator": false,
        "last_login_at": null, "created_at": AT,
    });
    let api = Api::of(&[("PATCH /users/bob@example.com", user)]);
    assert_eq!(line(&api.printed("users set bob@example.com --name Bobby"), "Name"), "Bobby");
    assert_eq!(api.bodies(), [r#"{"display_name":"Bobby"}"#]);
    api.run(exit::USAGE, "users set bob@example.com --name \t");
    api.run(exit::USAGE, "users set bob@example.com");
    assert_eq!(api.routes().len(), 1);
}

#[test]
fn events_tell_their_job_and_where_to_go_on() {
    let named = event(1, json!({"job_name": "nightly", "attempt": 1}));
    let unnamed = event(2, json!({"attempt": 2}));
    let message = |event: &Value| {
        let mut message = event.clone();
        message["message"] = json!("event");
        format!(
            "id: {}\nevent: {}\ndata: {message}\n\n",
            event["id"].as_str().unwrap(),
            event["type"].as_str().unwrap()
        )
    };
    let stream = message(&named) + &message(&unnamed);
    let both = page(&[unnamed, named], None).to_string();
    let api = Api::new(move |asked| match asked {
        "GET /events?limit=50" => (200, both.clone()),
        "GET /events/stream" => (200, stream.clone()),
        _ => (401, problem(401, "unauthorized", "the key is good no more")),
    });
    let rows = |printed: &str| -> Vec<Vec<String>> {
        printed
            .lines()
            .map(|line| {
                line.split("  ").filter(|cell| !cell.is_empty()).map(|cell| cell.trim().to_owned()).collect()
            })
            .collect()
    };
    let kind = "schedule_execution_completed";
    let narrow = [
        vec!["AT", "TYPE", "JOB", "DATA"],
        vec![AT, kind, "nightly", "attempt=1"],
        vec![AT, kind, OTHER, "attempt=2"],
    ];
    let wide = [
        vec!["AT", "TYPE", "JOB", "JOB ID", "RUN", "ID", "DATA"],
        vec![AT, kind, "nightly", OTHER, ID, "5a0c11e2.3f1.0.1", "attempt=1"],
        vec![AT, kind, OTHER, OTHER, ID, "5a0c11e2.3f1.0.2", "attempt=2"],
    ];
    // The stream ends and cannot be reopened.
    assert_eq!(rows(text(&api.run(exit::REFUSED, "events tail").stdout)), narrow);
    assert_eq!(rows(text(&api.run(exit::REFUSED, "events tail -o wide").stdout)), wide);
    let asked = api.routes();
    assert_eq!(asked[..2], ["GET /events/stream", "GET /events/stream?after=5a0c11e2.3f1.0.2"]);
    for (arguments, [title, first, second]) in [("events list", narrow), ("events list -o wide", wide)] {
        assert_eq!(rows(&api.printed(arguments)), [title, second, first]);
    }
}

#[test]
fn the_quotas_of_a_tenant_are_seen_where_they_are_set() {
    let tenant = json!({
        "id": OTHER, "slug": "acme", "name": "Acme", "is_paused": false, "pause_reason": null,
        "quotas": {"jobs": 5, "runs_per_minute": null, "concurrent_runs": 1, "log_bytes": null},
        "created_at": AT, "updated_at": AT,
    });
    let api = Api::of(&[
        ("PATCH /tenants/acme", tenant.clone()),
        ("GET /tenants/acme", tenant.clone()),
        ("GET /tenants?limit=200", page(&[tenant], None)),
    ]);
    for arguments in ["tenants set acme --quota concurrent_runs=1", "tenants get acme", "tenants show acme"] {
        assert_eq!(line(&api.printed(arguments), "Quotas"), "jobs=5 concurrent_runs=1");
    }
    assert!(api.printed("tenants list -o wide").contains("  jobs=5 concurrent_runs=1  "));
    assert!(!api.printed("tenants list").contains("jobs=5"));
}

#[test]
fn a_project_is_set_over_what_was_read_of_it_and_keeps_what_is_not_named() {
    let project = json!({
        "id": ID, "name": "billing", "display_name": "Billing", "description": "money", "is_paused": false,
        "pause_reason": null, "created_at": AT, "updated_at": AT,
    });
    let api = Api::of(&[
        ("GET /projects/billing", project.clone()),
        ("PUT /projects/billing", project.clone()),
        ("PUT /projects/new", project),
    ]);
    api.run(exit::OK, "projects set billing --display-name Bills");
    api.run(exit::OK, "projects set billing --description all");
    api.run(exit::OK, "projects set new");
    let over = "PUT if-match: \"7\"";
    assert_eq!(api.conditions(), [over, over, "PUT if-none-match: *"]);
    let written: Vec<Value> = api.bodies().iter().map(|body| serde_json::from_str(body).unwrap()).collect();
    assert_eq!(
        written,
        [
            json!({"display_name": "Bills", "description": "money"}),
            json!({"display_name": "Billing", "description": "all"}),
            json!({"description": ""}),
        ]
    );
}

#[test]
fn a_preview_of_a_job_is_shown_like_that_of_a_schedule() {
    let fire = json!({"utc": "2026-11-22T08:00:00Z", "local": "2026-11-22T09:00:00+01:00", "note": null});
    let moved = json!({
        "utc": "2026-11-23T08:00:00Z", "local": "2026-11-23T09:00:00+01:00", "note": null, "moved_from": AT,
    });
    let preview =
        json!({"fire_times": [fire, moved], "description": "At 09:00.", "warnings": ["timezone: changes"]});
    let api = Api::of(&[
        ("GET /jobs/report/preview?count=10", preview.clone()),
        ("GET /jobs/report/preview?after=2026-11-22T12%3A00%3A00Z&count=2", preview.clone()),
    ]);
    let printed = api.printed("jobs preview report");
    assert!(printed.starts_with("At 09:00.\n\n"), "{printed}");
    assert!(printed.contains("2026-11-22T08:00:00Z  2026-11-22T09:00:00+01:00"), "{printed}");
    assert_eq!(api.json(&format!("jobs preview report --after {AT} --count 2")), preview);
}

#[test]
fn lists_of_workers_and_functions_pass_on_which_are_wanted() {
    let none = page(&[], None);
    let api = Api::of(&[
        ("GET /workers?status=draining&queue=mail&limit=150", none.clone()),
        ("GET /functions?name_prefix=re&queue=mail&handler_type=http&is_active=false&limit=200", none),
    ]);
    api.run(exit::OK, "workers list --status draining --queue mail --limit 150");
    api.run(exit::OK, "functions list --prefix re --queue mail --handler http --inactive");
    api.run(exit::USAGE, "workers list --status asleep");
}

#[test]
fn a_scheduler_is_shown_by_its_id() {
    let scheduler = json!({
        "id": ID, "hostname": "h", "pid": 7, "version": "0.1.0", "status": "online", "is_leader": true, "term": 3, "leader_since": AT,
        "lease_expired_seconds": null, "started_at": AT, "last_heartbeat": AT, "clock_offset_seconds": 0.001,
        "step_down_requested_at": null,
    });
    let path = format!("GET /schedulers/{ID}");
    let api = Api::of(&[(&path, scheduler)]);
    let shown = api.printed(&format!("schedulers get {ID}"));
    assert_eq!((line(&shown, "Status"), line(&shown, "Role")), ("online", "leader"));
}

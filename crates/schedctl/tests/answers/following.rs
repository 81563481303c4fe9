//! Commands that wait for a result, and their exit codes.

use sched_runtime::exit;
use serde_json::{Value, json};

use crate::api::{Api, line, page, text};
use crate::{AT, ID, OTHER, dispatch, job};

fn run(status: &str) -> Value {
    let mut run = dispatch();
    run.as_object_mut().unwrap().insert("status".to_owned(), json!(status));
    run
}

#[test]
fn retried_dead_letters_are_shown_with_their_new_runs() {
    let answer = |refused: Value| {
        json!({
            "dry_run": false, "count": 1, "refused": refused, "sample": [], "next_cursor": null,
            "retried": [{"run_id": OTHER, "retried_as": ID}],
        })
    };
    let runs = format!("GET /runs/{ID}");
    let api = |status: &str| {
        Api::of(&[
            ("POST /dead-letters/retry", answer(json!([]))),
            ("GET /runs?limit=1", page(&[], None)),
            (&runs, run(status)),
        ])
    };
    let printed = api("succeeded").printed("dead-letters retry --all");
    assert!(printed.contains(&format!("{OTHER}  {ID}")), "{printed}");
    assert_eq!(api("waiting").json("dead-letters retry --all")["retried"][0]["retried_as"], ID);
    api("succeeded").run(exit::OK, "dead-letters retry --all --wait");
    let failed = api("failed").run(exit::FAILURE, "dead-letters retry --all --wait");
    let told = text(&failed.stderr);
    assert!(told.contains(&format!("run {ID} of job nightly ended as failed")), "{told}");
    let late = api("waiting").run(exit::TOO_LATE, "dead-letters retry --all --wait --wait-timeout 50ms");
    assert!(text(&late.stderr).contains("has not ended within"), "{}", text(&late.stderr));
    let single = format!("POST /dead-letters/{OTHER}/retry");
    let api = Api::of(&[
        (&single, json!({"run_id": ID, "duplicate": false})),
        ("GET /runs?limit=1", page(&[], None)),
        (&runs, run("failed")),
    ]);
    assert!(api.printed(&format!("dead-letters retry {OTHER}")).contains(ID));
    api.run(exit::FAILURE, &format!("dead-letters retry {OTHER} --wait"));
}

#[test]
fn test_message_is_followed_to_its_delivery() {
    let delivery = |status: &str| {
        json!({
            "id": ID, "channel": "ops", "rule": null, "kind": "test", "job_id": null, "run_id": null, "body": {},
            "held_back": 0, "status": status, "attempts": 1, "error_class": null, "error": null,
            "created_at": AT, "updated_at": AT,
        })
    };
    let path = format!("GET /notification-deliveries/{ID}");
    for (status, code) in [("sent", exit::OK), ("failed", exit::FAILURE), ("waiting", exit::TOO_LATE)] {
        let api = Api::of(&[
            ("POST /notification-channels/ops/test", delivery("waiting")),
            (&path, delivery(status)),
        ]);
        let done = api.run(code, "notifications test ops --wait --wait-timeout 300ms");
        assert!(code == exit::TOO_LATE || text(&done.stdout).contains(status), "{}", text(&done.stdout));
        assert!(api.printed("notifications test ops").contains("waiting"));
    }
}

#[test]
fn followed_output_ends_with_the_exit_code_of_the_run() {
    let logs = format!("GET /runs/{ID}/logs?follow=true");
    let latest = format!("GET /attempts?run={ID}&limit=1");
    let attempt = |exit_code: Value| {
        json!({
            "id": OTHER, "job_id": OTHER, "job": "nightly", "run_id": ID, "attempt": 1, "status": "failed", "scheduled_for": AT,
            "started_at": AT, "completed_at": AT, "duration_ms": 1, "exit_code": exit_code, "result": null, "error_class": null,
            "error_message": null, "output_bytes": 0, "worker_id": null, "triggered_by": "api",
        })
    };
    for (status, exit_code, code) in [
        ("succeeded", json!(0), 0),
        ("failed", json!(7), 7),
        ("timed_out", json!(null), 1),
        ("cancelled", json!(0), 1),
    ] {
        let (end, attempt) = (json!({"event": "end", "status": status}), attempt(exit_code));
        let (logs, latest) = (logs.clone(), latest.clone());
        let api = Api::new(move |asked| match asked {
            asked if asked == logs => (200, format!("event: end\ndata: {end}\n\n")),
            asked if asked == latest => (200, page(std::slice::from_ref(&attempt), None).to_string()),
            asked => panic!("{asked}"),
        });
        api.run(code, &format!("runs logs {ID} --follow --exit-status"));
        api.run(exit::OK, &format!("runs logs {ID} --follow"));
    }
}

#[test]
fn missing_value_of_a_secret_is_reported_before_a_request() {
    let api = Api::of(&[]);
    let refused = api.run(exit::USAGE, "secrets set token");
    assert!(text(&refused.stderr).contains("no value on standard input"), "{}", text(&refused.stderr));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty");
    std::fs::write(&file, "").unwrap();
    let refused = api.run(exit::USAGE, &format!("secrets set token --from-file {}", file.display()));
    assert!(text(&refused.stderr).contains("is empty"), "{}", text(&refused.stderr));
    assert!(api.routes().is_empty());
}

#[test]
fn simulation_takes_measured_durations() {
    let attempt = |milliseconds: u32| {
        json!({
            "id": OTHER, "job_id": OTHER, "job": "j", "run_id": ID, "attempt": 1, "status": "succeeded", "scheduled_for": AT,
            "started_at": AT, "completed_at": AT, "duration_ms": milliseconds, "exit_code": 0, "result": null, "error_class": null,
            "error_message": null, "output_bytes": 0, "worker_id": null, "triggered_by": "api",
        })
    };
    let measured = page(&[attempt(500), attempt(59_500), attempt(300_000)], None);
    let api = Api::of(&[("GET /attempts?job=known&status=succeeded&limit=20", measured)]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yaml");
    let job = |name: &str, more: &str| {
        format!(
            "  - {{name: {name}, function: f, job_type: interval, schedule_config: {{hours: 1}}{more}}}\n"
        )
    };
    let jobs = [job("known", ""), job("new", ""), job("declared", ", expected_duration_seconds: 5")];
    std::fs::write(&file, format!("jobs:\n{}", jobs.concat())).unwrap();
    let report = api.json(&format!("schedules simulate -f {} --measured", file.display()));
    let duration = |name: &str| {
        let jobs = report["starts_per_job"].as_array().unwrap();
        jobs.iter().find(|job| job["name"] == name).unwrap()["expected_duration_seconds"].clone()
    };
    assert_eq!(["known", "new", "declared"].map(duration), [json!(60), json!(null), json!(5)]);
}

#[test]
fn status_fails_without_a_leader() {
    for (state, code) in [("live", exit::OK), ("expired", exit::FAILURE), ("none", exit::FAILURE)] {
        let status = json!({
            "now": AT, "jobs_active": 0, "jobs_inactive": 0, "jobs_quarantined": 0, "quarantined": [], "next_run_at": null,
            "runs_waiting": 0, "runs_running": 0, "workers_online": 1, "schedulers": 1, "has_leader": true,
            "leader_state": state, "queues": [],
        });
        let api = Api::of(&[("GET /status", status)]);
        api.run(code, "status -o json");
    }
}

#[test]
fn job_shows_the_values_that_apply_with_their_origin() {
    let shown = Api::of(&[("GET /jobs/nightly", job("enabled"))]).printed("jobs get nightly");
    for (title, value) in
        [("Attempts", "1 (installation)"), ("Timeout", "300s (function)"), ("Queue", "default (function)")]
    {
        assert_eq!(line(&shown, title), value);
    }
}

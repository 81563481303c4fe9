//! Queues, waiting runs, and messages about refused requests.

use sched_runtime::exit;
use serde_json::{Value, json};

use crate::api::{Api, line, page, problem, text};
use crate::{AT, ID, OTHER, dispatch, job};

#[test]
fn a_dispatch_is_created_as_a_job_is_triggered() {
    let api = Api::of(&[("POST /jobs/report/trigger", json!({"run_id": ID, "duplicate": false}))]);
    for words in ["jobs trigger", "runs create"] {
        assert_eq!(line(&api.printed(&format!("{words} report --args {{\"a\":1}}")), "Run"), ID);
    }
    assert_eq!(api.bodies(), [r#"{"task_args":{"a":1}}"#; 2]);
}

fn queue() -> Value {
    json!({
        "name": "mail", "description": "", "is_paused": false, "pause_reason": null, "max_running": null,
        "rate": null, "default_priority": 50, "running": null, "claimed_in_period": null, "waiting": 0,
        "waiting_is_at_least": false, "oldest_claimable_at": null, "workers": 0, "created_at": AT, "updated_at": AT,
    })
}

#[test]
fn a_queue_without_a_worker_is_told_of_where_something_is_put_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yaml");
    std::fs::write(&file, "queues: [{name: mail}, {name: unseen}]").unwrap();
    let applied = json!({"dry_run": false, "results": []});
    let mut in_mail = job("enabled");
    in_mail["queue"] = json!("mail");
    let answers = |workers: Option<u32>| {
        let queue = match workers {
            Some(workers) => json!({"workers": workers}),
            None => json!({}),
        };
        let mut whole = self::queue();
        whole.as_object_mut().unwrap().remove("workers");
        whole.as_object_mut().unwrap().extend(queue.as_object().unwrap().clone());
        Api::of(&[
            ("GET /queues/mail", whole.clone()),
            ("PUT /queues/mail", whole),
            ("POST /apply?dry_run=false", applied.clone()),
            ("POST /apply", applied.clone()),
            ("POST /jobs", in_mail.clone()),
        ])
    };
    let apply = format!("jobs apply -f {}", file.display());
    for command in
        ["queues set mail --max-running 3", &apply, "jobs create nightly --function report --queue mail"]
    {
        // An API of an earlier version does not report it.
        for (workers, is_told) in [(Some(0), true), (Some(1), false), (None, false)] {
            let done = answers(workers).run(exit::OK, command);
            let told = text(&done.stderr).contains("no live worker serves queue mail");
            assert_eq!(told, is_told, "{command}: {}", text(&done.stderr));
        }
    }
}

#[test]
fn who_waits_is_told_why_nothing_begins() {
    let mut pending = dispatch();
    pending["status"] = json!("waiting");
    let explained = json!({
        "job_id": OTHER, "job": "nightly", "now": AT,
        "run": {
            "id": ID, "status": "waiting", "text": "it waits", "scheduled_for": AT, "created_at": AT, "lateness_ms": 0,
            "available_at": AT, "queue": "mail", "is_queued": false, "is_catch_up": false, "triggered_by": "api",
            "waits_for": [{"what": "no_worker", "text": "no live worker serves queue mail", "until": null}],
            "attempts": [],
        },
    });
    let explain = format!("GET /runs/{ID}/explain");
    let get = format!("GET /runs/{ID}");
    let api = Api::of(&[
        ("GET /runs?limit=1", page(&[], None)),
        ("POST /jobs/nightly/trigger", json!({"run_id": ID, "duplicate": false})),
        (&get, pending),
        (&explain, explained),
    ]);
    let waited = api.run(exit::TOO_LATE, "jobs trigger nightly --wait --wait-timeout 10s");
    let told = text(&waited.stderr);
    assert_eq!(told.matches("it waits: no live worker serves queue mail").count(), 1, "{told}");
}

#[test]
fn a_queue_is_set_over_what_was_read_of_it_and_over_nothing_else() {
    let queue = queue();
    let api = Api::of(&[
        ("GET /queues/mail", queue.clone()),
        ("PUT /queues/mail", queue.clone()),
        ("PUT /queues/new", queue.clone()),
    ]);
    api.run(exit::OK, "queues set mail --max-running 3");
    api.run(exit::OK, "queues set new --max-running 3");
    assert_eq!(api.conditions(), ["PUT if-match: \"7\"", "PUT if-none-match: *"]);
    let refusal = "the queue is at \"8\" by now";
    let api = Api::new(move |asked| match asked {
        "GET /queues/mail" => (200, queue.to_string()),
        _ => (412, problem(412, "version_mismatch", refusal)),
    });
    let refused = api.run(exit::REFUSED, "queues set mail --max-running 3");
    assert!(text(&refused.stderr).contains(refusal), "{}", text(&refused.stderr));
}

#[test]
fn refusals_speak_of_commands_and_flags() {
    let api = Api::new(|asked| match asked {
        "DELETE /secrets/token?force=false" => (
            409,
            problem(
                409,
                "in_use",
                "functions name it; take it from them first, or delete it with force=true",
            ),
        ),
        _ => (
            403,
            problem(
                403,
                "forbidden",
                "this needs the permission keys:read, which is not yours; `GET /api/v1/me` lists those that are",
            ),
        ),
    });
    let held = api.run(exit::REFUSED, "secrets delete token");
    assert!(text(&held.stderr).contains("or delete it with --force"), "{}", text(&held.stderr));
    let refused = api.run(exit::REFUSED, "api-keys list");
    assert!(
        text(&refused.stderr).contains("`schedctl whoami` lists those that are"),
        "{}",
        text(&refused.stderr)
    );
}

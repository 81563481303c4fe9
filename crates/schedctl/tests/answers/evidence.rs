//! The evidence of failures: incomplete output, the last lines, and the runs of a worker.

use sched_runtime::exit;
use serde_json::{Value, json};

use crate::api::{Api, line, text};
use crate::{AT, ID, OTHER, dead_letter};

#[test]
fn output_of_a_lost_attempt_is_marked() {
    let attempt = json!({
        "id": ID, "job_id": OTHER, "job": "nightly", "run_id": OTHER, "attempt": 1, "status": "lost", "scheduled_for": AT,
        "started_at": AT, "completed_at": AT, "duration_ms": 7, "exit_code": null, "result": null, "error_class": "worker_lost",
        "error_message": "lost", "output_bytes": 5, "is_output_incomplete": true, "worker_id": OTHER, "triggered_by": "api",
    });
    let output = json!({
        "attempt_id": ID, "is_incomplete": true,
        "chunks": [{"stream": "stdout", "chunk": 0, "content": "load\n", "dropped_bytes": 0}],
    });
    let (attempt_path, output_path) = (format!("GET /attempts/{ID}"), format!("GET /attempts/{ID}/output"));
    let api = Api::of(&[(&attempt_path, attempt), (&output_path, output)]);
    assert_eq!(line(&api.printed(&format!("attempts get {ID}")), "Output"), "5B (incomplete)");
    let shown = api.run(exit::OK, &format!("attempts output {ID}"));
    assert_eq!(text(&shown.stdout), "load\n");
    assert!(text(&shown.stderr).contains("the output is incomplete"), "{}", text(&shown.stderr));
}

#[test]
fn dead_letter_shows_its_last_output() {
    let mut letter = dead_letter(0);
    letter["output_tail"] = json!("FATAL: no database");
    letter["url"] = json!("https://sched.example.com/api/v1/runs/7");
    let path = format!("GET /dead-letters/{ID}");
    let shown = Api::of(&[(&path, letter)]).printed(&format!("dead-letters get {ID}"));
    assert_eq!(line(&shown, "Last output"), "FATAL: no database");
    assert_eq!(line(&shown, "URL"), "https://sched.example.com/api/v1/runs/7");
}

#[test]
fn worker_is_shown_with_its_current_runs() {
    let worker = |runs: Value| {
        json!({
            "id": ID, "hostname": "app1", "platform": "linux", "process_id": 7, "version": "1", "queues": ["mail"],
            "concurrency": 2, "status": "busy", "running": 1, "jobs_processed": 3, "started_at": AT, "last_heartbeat": AT,
            "offline_since": null, "drain_requested_at": null, "runs": runs,
        })
    };
    let run = json!({
        "run_id": OTHER, "attempt_id": ID, "attempt": 2, "job": "nightly", "job_id": OTHER, "queue": "mail",
        "scheduled_for": AT, "claimed_at": AT,
    });
    let path = format!("GET /workers/{ID}");
    let get = format!("workers get {ID}");
    let busy = Api::of(&[(&path, worker(json!([run])))]);
    let shown = busy.printed(&get);
    assert!(shown.contains(OTHER) && shown.contains("nightly"), "{shown}");
    assert_eq!(busy.json(&get)["runs"][0]["job"], "nightly");
    let idle = Api::of(&[(&path, worker(json!([])))]);
    let told = idle.run(exit::OK, &get);
    assert!(text(&told.stderr).contains("no run of this tenant"), "{}", text(&told.stderr));
}

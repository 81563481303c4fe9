//! Events and logs: formats of streams, and the wait for the end of a run.

use sched_runtime::exit;
use serde_json::{Value, json};

use crate::api::{Api, page, problem, text};
use crate::{AT, ID, OTHER, dispatch, event};

fn message(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

#[test]
fn stream_in_yaml_is_a_document_per_item() {
    let mut event = event(1, json!({"job_name": "nightly"}));
    event["message"] = json!("event");
    let events = message("schedule_execution_completed", &event);
    let api = Api::new(move |asked| match asked {
        "GET /events/stream" => (200, events.clone()),
        _ => (401, problem(401, "unauthorized", "the key is not valid any more")),
    });
    let printed = api.run(exit::REFUSED, "events tail -o yaml");
    let printed = text(&printed.stdout);
    assert!(
        printed.starts_with("---\nid: ") && printed.contains("\ntype: schedule_execution_completed\n"),
        "{printed}"
    );
}

#[test]
fn usage_line_has_no_flag_of_a_variable() {
    let api = Api::of(&[]);
    for arguments in ["attempts output", "attempts output x"] {
        let refused = api.run_with(exit::USAGE, arguments, &[("SCHED_DATA_DIR", "/nowhere".to_owned())]);
        let told = text(&refused.stderr);
        assert!(!told.contains("--data-dir") && !told.contains("--api-url"), "{told}");
    }
}

#[test]
fn gap_of_output_is_marked_where_it_is() {
    let output = |content: &str, dropped: u32| {
        json!({
            "event": "output", "attempt_id": OTHER, "stream": "stdout", "text": content, "dropped_bytes": dropped,
        })
    };
    let end = json!({"event": "end", "status": "succeeded"});
    let stream = message("output", &output("head without end", 0))
        + &message("output", &output("tail\n", 7))
        + &message("end", &end);
    let api = Api::new(move |asked| match asked.starts_with(&format!("GET /runs/{ID}/logs")) {
        true => (200, stream.clone()),
        false => (404, problem(404, "not_found", "nothing")),
    });
    let done = api.run(exit::OK, &format!("runs logs {ID}"));
    let expected = "head without end\n--- 7 bytes of stdout were not stored ---\ntail\n";
    assert_eq!(text(&done.stdout), expected, "{}", text(&done.stderr));
    let yaml = api.printed(&format!("runs logs {ID} -o yaml"));
    assert_eq!(yaml.matches("---\n").count(), 3, "{yaml}");
}

#[test]
fn wait_for_an_unknown_run_is_refused_at_once() {
    let attempt = json!({
        "id": ID, "job_id": OTHER, "job": "nightly", "run_id": OTHER, "attempt": 1, "status": "failed", "scheduled_for": AT,
        "started_at": AT, "completed_at": AT, "duration_ms": 7, "exit_code": 7, "result": null, "error_class": null,
        "error_message": null, "output_bytes": 3, "worker_id": null, "triggered_by": "api",
    });
    let refused = Api::of(&[]).run(exit::REFUSED, &format!("events wait --run {ID} --timeout 1h"));
    assert!(text(&refused.stderr).contains("not_found"), "{}", text(&refused.stderr));
    let path = format!("GET /attempts/{ID}");
    let refused = Api::of(&[(&path, attempt)]).run(exit::REFUSED, &format!("events wait --run {ID}"));
    let hint = format!("the id of an attempt of run {OTHER}");
    assert!(text(&refused.stderr).contains(&hint), "{}", text(&refused.stderr));
}

#[test]
fn wait_for_an_ended_run_returns_at_once() {
    let (run, list) = (format!("GET /runs/{ID}"), format!("GET /events?run={ID}"));
    let end = event(1, json!({"run_status": "dead_letter"}));
    for (events, shown) in [(page(&[end], None), true), (page(&[], None), false)] {
        let (run, list) = (run.clone(), list.clone());
        let api = Api::new(move |asked| match asked {
            asked if asked == run => (200, dispatch().to_string()),
            asked if asked.starts_with(&list) => (200, events.to_string()),
            asked => (404, problem(404, "not_found", asked)),
        });
        let done = api.run(exit::OK, &format!("events wait --run {ID} --status dead_letter"));
        assert_eq!(!done.stdout.is_empty(), shown, "{}", text(&done.stderr));
        api.run(exit::ENDED_OTHERWISE, &format!("events wait --run {ID}"));
    }
}

//! Manifests with mistakes of several kinds.

use serde_json::json;

use crate::support::{TestApp, function, manual, pointers};

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_all_stages_are_reported_at_once() {
    let app = TestApp::start().await;
    let mut lost = function("g");
    lost["queue"] = json!("none");
    let manifest = json!({
        "task_functions": [function("f"), lost],
        "jobs": [
            manual("twice"),
            {
                "name": "twice", "function": "unknown", "job_type": "cron", "timezone": "Mars/Base",
                "schedule_config": {"expression": "61 * * * *"}, "queue": "none", "project": "gone",
                "calendars": ["no-days"], "after": [{"job": "absent"}], "priorty": 3, "max_runs": "many",
            },
            {"name": "kind", "function": "unknown", "job_type": "hourly", "task_args": [1]},
            {"name": "sound", "function": "unknown", "job_type": "manual", "queue": "none"},
        ],
    });
    let answer = app.post("/api/v1/apply?dry_run=true", &manifest).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    let mut found = pointers(&answer.json());
    found.sort();
    let mut expected = [
        "/task_functions/1/queue",
        "/jobs/1/name",
        "/jobs/1/priorty",
        "/jobs/1/max_runs",
        "/jobs/1/timezone",
        "/jobs/1/schedule_config/expression",
        "/jobs/1/function",
        "/jobs/1/queue",
        "/jobs/1/project",
        "/jobs/1/calendars/0",
        "/jobs/1/after/0/job",
        "/jobs/2/job_type",
        "/jobs/2/task_args",
        "/jobs/2/function",
        "/jobs/3/function",
        "/jobs/3/queue",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
}

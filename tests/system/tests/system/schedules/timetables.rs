//! Bounds, calendars and jitter, from a manifest to the dispatches.

use serde_json::{Value, json};
use system_tests::{Installation, every, shell_jobs};

fn with(job: Value, fields: Value) -> Value {
    let (Value::Object(mut job), Value::Object(fields)) = (job, fields) else { panic!("objects") };
    job.extend(fields);
    Value::Object(job)
}

/// A local time of UTC, some seconds after the present second of the database.
async fn second(system: &Installation, after: i64) -> chrono::DateTime<chrono::Utc> {
    let now = system.count("SELECT extract(epoch FROM clock_timestamp())::bigint").await;
    chrono::DateTime::from_timestamp(now + after, 0).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_fire_within_their_bounds_and_outside_their_calendars() {
    let system = Installation::with(1, 1).await;
    let (from, until) = (second(&system, 10).await, second(&system, 14).await);
    let local = |at: chrono::DateTime<chrono::Utc>| at.format("%Y-%m-%dT%H:%M:%S").to_string();
    let all = json!({"misfire_policy": "fire_all", "overlap_policy": "allow"});
    let each = |name: &str, fields: Value| with(with(every(name, 1), all.clone()), fields);
    let mut manifest = shell_jobs(
        "true",
        &[
            each("bounded", json!({"start_at": from, "end_at": until})),
            each("thrice", json!({"max_runs": 3})),
            each("frozen", json!({"calendars": ["freeze"]})),
            each("spread", json!({"jitter_seconds": 2})),
            with(
                json!({"name": "often", "job_type": "cron", "schedule_config": {"expression": "*/2 * * * * *", "seconds": true}}),
                all.clone(),
            ),
        ],
    );
    manifest["calendars"] = json!([{"name": "freeze", "timezone": "UTC", "windows": [{"from": local(from), "until": local(until)}]}]);
    system.apply(&manifest).await;

    let of = |job: &str| {
        format!("FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id WHERE j.name = '{job}'")
    };
    let after = format!(
        "SELECT count(*) {} AND d.status = 'COMPLETED' AND d.scheduled_for >= '{until}'",
        of("frozen")
    );
    system.wait_count("two fires after the freeze", &after, 2).await;

    let bounded = format!(
        "SELECT count(*) {} AND d.scheduled_for >= '{from}' AND d.scheduled_for < '{until}'",
        of("bounded")
    );
    assert_eq!(system.count(&bounded).await, 4);
    assert_eq!(system.count(&format!("SELECT count(*) {}", of("bounded"))).await, 4);
    assert_eq!(system.count(&format!("SELECT count(*) {}", of("thrice"))).await, 3);
    let frozen = format!(
        "SELECT count(*) {} AND d.scheduled_for >= '{from}' AND d.scheduled_for < '{until}'",
        of("frozen")
    );
    assert_eq!(system.count(&frozen).await, 0);
    let recorded =
        "SELECT sum(fire_count)::bigint FROM skipped_fires s JOIN scheduled_jobs j ON j.id = s.job_id
                    WHERE j.name = 'frozen' AND s.reason = 'calendar'";
    assert_eq!(system.count(recorded).await, 4);
    let spread = format!("SELECT count(*) {} AND d.available_at > d.scheduled_for", of("spread"));
    assert!(system.count(&spread).await > 3, "hardly anything was spread");
    let early = "SELECT count(*) FROM job_execution_log l JOIN job_dispatch d ON d.id = l.dispatch_id WHERE l.started_at < d.available_at";
    assert_eq!(system.count(early).await, 0, "something started before it was available");
    let odd =
        format!("SELECT count(*) {} AND extract(second FROM d.scheduled_for)::integer % 2 <> 0", of("often"));
    assert_eq!(system.count(&odd).await, 0);
    assert!(system.count(&format!("SELECT count(*) {}", of("often"))).await >= 3);
    system.check_invariants().await;
}

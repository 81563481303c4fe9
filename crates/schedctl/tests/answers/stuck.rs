//! Stuck attempts.

use sched_runtime::exit;
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::{AT, ID, OTHER, STORED};

#[test]
fn what_is_stuck_is_told_of_by_a_dry_run_and_otherwise_the_leader_is_asked() {
    let attempt = json!({
        "run_id": ID, "tenant": "default", "job": "nightly", "attempt": 2, "claimed_at": STORED, "worker_id": OTHER, "hostname": null,
        "reason": "worker_lost", "becomes": "waiting",
    });
    let mut dead = attempt.clone();
    (dead["job"], dead["hostname"], dead["becomes"]) = (Value::Null, json!("h7"), json!("dead_letter"));
    let found = json!({"dry_run": true, "count": 2, "count_is_at_least": false, "has_leader": true, "attempts": [attempt, dead]});
    let api = Api::of(&[("POST /maintenance/reset-stuck", found.clone())]);
    for words in ["runs reset-stuck", "maintenance reset-stuck"] {
        let told = api.run(exit::OK, &format!("{words} --dry-run"));
        let rows: Vec<Vec<&str>> =
            text(&told.stdout).lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], [ID, "nightly", "2", AT, OTHER, "worker_lost", "waiting"]);
        assert_eq!(rows[2][1..], ["-", "2", AT, "h7", "worker_lost", "dead_letter"]);
        let said = "2 attempts are stuck; 1 of their runs would be retried; nothing was changed\n";
        assert_eq!(text(&told.stderr), said);
        assert_eq!(api.json(&format!("{words} --dry-run")), found);
    }
    assert_eq!(api.bodies(), [r#"{"dry_run":true}"#; 4]);
    let mut alone = found;
    alone["has_leader"] = json!(false);
    let api = Api::of(&[("POST /maintenance/reset-stuck", alone)]);
    let told = api.run(exit::OK, "runs reset-stuck --dry-run");
    assert!(
        text(&told.stderr).contains("no scheduler leads, so they are not ended"),
        "{}",
        text(&told.stderr)
    );
    let leader = json!({
        "id": ID, "hostname": "h", "pid": 7, "version": "0.1.0", "status": "online", "is_leader": true, "term": 3, "leader_since": AT,
        "lease_expired_seconds": null, "started_at": AT, "last_heartbeat": AT, "clock_offset_seconds": null,
        "step_down_requested_at": null,
    });
    let api = Api::of(&[("POST /maintenance/reset-stuck", leader)]);
    let asked = api.run(exit::OK, "runs reset-stuck");
    assert!(text(&asked.stderr).contains("requested a search for lost attempts of the leader h (process 7)"));
    assert_eq!(api.bodies(), ["{}"]);
}

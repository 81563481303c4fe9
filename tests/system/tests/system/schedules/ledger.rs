//! The occurrence ledger after every kind of event of a fire time, and after the loss of a record.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use system_tests::{Installation, shell_jobs};
use test_support::identity::OWNER;
use test_support::{Finished, Process, http};

const LIMIT: Duration = Duration::from_secs(60);

/// A job that fires every second, runs for longer, and neither waits nor catches up.
fn tried() -> Value {
    json!({
        "name": "tried", "job_type": "interval", "schedule_config": {"seconds": 1},
        "misfire_policy": "fire_once", "misfire_grace_seconds": 1, "max_instances": 1, "overlap_policy": "skip",
    })
}

async fn switch(system: &Installation, action: &str, body: &Value) -> Value {
    let path = format!("/api/v1/jobs/tried/{action}");
    let answer = http::post(system.api_addr(), &path, body).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()
}

fn skipped(reason: &str) -> String {
    format!("SELECT coalesce(max(fire_count), 0) FROM skipped_fires WHERE reason = '{reason}'")
}

async fn wait_for_a_fire(system: &Installation, what: &str) {
    let now = system.count("SELECT extract(epoch FROM clock_timestamp())::bigint + 1").await;
    let fires = format!("SELECT count(*) FROM job_dispatch WHERE extract(epoch FROM scheduled_for) >= {now}");
    system.wait_count(what, &fires, 1).await;
}

/// Leaves a job that fired, overlapped, was paused twice, and was missed without a scheduler;
/// returns it, disabled.
async fn go_through_everything(system: &mut Installation) -> Value {
    system.apply(&shell_jobs("sleep 1.3", &[tried()])).await;
    wait_for_a_fire(system, "a fire").await;
    system.wait_count("an overlap", &skipped("overlap"), 1).await;

    switch(system, "pause", &json!({"reason": "the disk is full"})).await;
    system.wait_count("fires while it is paused", &skipped("paused_job"), 3).await;
    let rows = "SELECT count(*) FROM skipped_fires WHERE reason = 'paused_job'";
    assert_eq!(system.count(rows).await, 1, "a continued pause is one row");
    switch(system, "resume", &json!({})).await;
    wait_for_a_fire(system, "a fire after the pause").await;

    for scheduler in &mut system.schedulers {
        scheduler.kill9().await;
    }
    let silence = "SELECT extract(epoch FROM clock_timestamp() - settled_until)::bigint FROM scheduled_jobs";
    system.wait_count("seconds without a scheduler", silence, 6).await;
    system.start_scheduler(&[]).await;
    system.wait_count("missed fires", &skipped("misfire"), 2).await;
    wait_for_a_fire(system, "a fire after the outage").await;

    let paused = switch(system, "pause", &json!({"until": "+3s"})).await;
    let end: DateTime<Utc> = paused.get("paused_until").and_then(Value::as_str).unwrap().parse().unwrap();
    let after = format!("SELECT count(*) FROM job_dispatch WHERE scheduled_for >= '{end}'");
    system.wait_count("a fire after the end of a pause", &after, 1).await;
    let held = format!(
        "SELECT count(*) FROM job_dispatch WHERE scheduled_for >= '{end}'::timestamptz - interval '2 seconds' AND scheduled_for < '{end}'"
    );
    assert_eq!(system.count(&held).await, 0, "a fire was dispatched before the pause ended");
    let late =
        format!("SELECT count(*) FROM skipped_fires WHERE reason = 'paused_job' AND last_fire_at >= '{end}'");
    assert_eq!(system.count(&late).await, 0, "a fire after its end was held by the pause");
    switch(system, "disable", &json!({})).await
}

/// The output and status of `schedctl jobs explain` for a window.
async fn schedctl(system: &Installation, from: &str, to: &str) -> Finished {
    Process::program("schedctl")
        .args(["jobs", "explain", "tried", "--from", from, "--to", to])
        .env("SCHED_API_URL", format!("http://{}", system.api_addr()))
        .env("SCHED_API_KEY", test_support::identity::api_key())
        .run(LIMIT)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_accounts_for_every_fire_time_and_misses_every_record_that_is_lost() {
    let mut system = Installation::with(1, 1).await;
    let job = go_through_everything(&mut system).await;
    let (from, to) = (job["created_at"].as_str().unwrap(), job["updated_at"].as_str().unwrap());
    let explain = format!("/api/v1/jobs/tried/explain?from={from}&to={to}");
    let told = system.get(&explain).await;
    let summary = &told["summary"];
    for key in ["unaccounted", "two_fates", "undecided", "to_come", "pruned", "unclear"] {
        assert_eq!(summary[key], 0, "{key}: {told:#}");
    }
    assert!(summary["dispatched"].as_u64() >= Some(4), "{told:#}");
    for reason in ["overlap", "paused_job", "misfire"] {
        assert!(summary["skipped"][reason].as_u64() >= Some(1), "{reason}: {told:#}");
    }

    // The fire times of the schedule, each in exactly one line.
    let preview = system.get(&format!("/api/v1/jobs/tried/preview?after={from}&count=1000")).await;
    let instant = |value: &Value| value.as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    let all = preview["fire_times"].as_array().unwrap().iter().map(|fire| instant(&fire["utc"]));
    let fire_times: Vec<_> = all.filter(|at| *at < instant(&told["to"])).collect();
    let lines = told["fires"].as_array().unwrap();
    for at in &fire_times {
        let holds =
            |line: &&Value| instant(&line["first_fire_at"]) <= *at && *at <= instant(&line["last_fire_at"]);
        assert_eq!(lines.iter().filter(holds).count(), 1, "{at}: {told:#}");
    }
    assert_eq!(summary["fire_times"].as_u64(), u64::try_from(fire_times.len()).ok(), "{told:#}");
    assert_eq!(system.count("SELECT count(*) FROM ledger_gaps").await, 0);
    system.check_invariants().await;
    let pause = lines.iter().find_map(|line| line["skip"].get("pause")).unwrap();
    assert_eq!((&pause["by"], &pause["reason"]), (&json!(OWNER), &json!("the disk is full")));
    let says = |what: &str| lines.iter().any(|line| line["text"].as_str().unwrap().contains(what));
    let named = |line: &&Value| line["skip"]["in_the_way"][0]["id"].is_string();
    assert!(lines.iter().any(|line| named(&line)) && says("runs of the job were open: run "), "{told:#}");
    assert!(lines.iter().any(|line| line["skip"]["former_term_end"] == "expired"), "{told:#}");
    assert!(says("its lease expired at") || says("no scheduler led from"), "{told:#}");
    let printed = schedctl(&system, from, to).await;
    assert!(printed.status.success(), "{} {}", printed.stdout, printed.stderr);
    assert!(
        printed.stdout.contains("0 unaccounted") && printed.stdout.contains("the disk is full"),
        "{}",
        printed.stdout
    );

    for (lost, fires) in [
        ("DELETE FROM job_dispatch WHERE id = (SELECT id FROM job_dispatch ORDER BY scheduled_for LIMIT 1)", 1),
        ("DELETE FROM skipped_fires WHERE id = (SELECT id FROM skipped_fires WHERE reason = 'misfire' AND fire_count > 1
          ORDER BY first_fire_at DESC LIMIT 1)", 2),
    ] {
        let before = system.get(&explain).await["summary"]["unaccounted"].as_u64().unwrap();
        let gaps = system.count("SELECT count(*) FROM ledger_gaps WHERE kind LIKE 'lost%'").await;
        system.execute(lost).await;
        let told = system.get(&explain).await;
        assert!(told["summary"]["unaccounted"].as_u64() >= Some(before + fires), "{lost}: {told:#}");
        let more = system.count("SELECT count(*) FROM ledger_gaps WHERE kind LIKE 'lost%'").await;
        assert_eq!(more, gaps + 1, "{lost}");
        let printed = schedctl(&system, from, to).await;
        assert_eq!(printed.status.code(), Some(1), "{}", printed.stdout);
        assert!(printed.stdout.contains("UNACCOUNTED") && printed.stderr.contains("unaccounted"), "{}", printed.stdout);
    }
}

//! The scenarios of REQUIREMENTS §12 for this release.

use futures_util::future::join_all;
use serde_json::json;
use system_tests::{Installation, PATIENCE, every, manual, shell_jobs};
use test_support::wait_for;

/// Scenario 1.
#[tokio::test(flavor = "multi_thread")]
async fn one_manual_job_is_dispatched_claimed_executed_logged_and_seen() {
    let system = Installation::with(1, 1).await;
    system
        .apply(&shell_jobs(
            "echo \"hello from $SCHED_JOB_NAME\"; echo '{\"answer\": 42}' > $SCHED_RESULT_FILE",
            &[manual("one")],
        ))
        .await;
    let dispatch = system.trigger("one").await;

    let execution = wait_for("the execution", PATIENCE, async || {
        let page = system.get(&format!("/api/v1/attempts?run={dispatch}")).await;
        page["items"].get(0).cloned().ok_or_else(|| page.to_string())
    })
    .await;
    assert_eq!(execution["status"], "succeeded");
    assert_eq!(execution["job"], "one");
    assert_eq!(execution["attempt"], 1);
    assert_eq!(execution["exit_code"], 0);
    assert_eq!(execution["result"], json!({"answer": 42}));

    let id = execution["id"].as_str().unwrap();
    let output = system.get(&format!("/api/v1/attempts/{id}/output")).await;
    assert_eq!(output["chunks"][0]["content"], "hello from one\n");
    let seen = system.get(&format!("/api/v1/runs/{dispatch}")).await;
    assert_eq!(seen["status"], "succeeded");
    // The counters of the job follow the end within a second.
    system
        .wait_count(
            "the end to be counted",
            "SELECT count(*) FROM scheduled_jobs WHERE active_dispatches = 0",
            1,
        )
        .await;
    let job = system.get("/api/v1/jobs/one").await;
    assert_eq!(
        (&job["last_status"], &job["total_run_count"], &job["active_runs"]),
        (&json!("succeeded"), &json!(1), &json!(0))
    );
    system.check_invariants().await;
}

/// Scenario 2.
#[tokio::test(flavor = "multi_thread")]
async fn ten_manual_jobs_at_once_run_once_each() {
    let system = Installation::with(1, 2).await;
    let names: Vec<String> = (0..10).map(|n| format!("job-{n}")).collect();
    let jobs: Vec<_> = names.iter().map(|name| manual(name)).collect();
    system.apply(&shell_jobs("true", &jobs)).await;
    join_all(names.iter().map(|name| system.trigger(name))).await;
    system
        .wait_count(
            "ten completed dispatches",
            "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'",
            10,
        )
        .await;
    for name in &names {
        let runs = format!(
            "SELECT count(*) FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id WHERE j.name = '{name}'"
        );
        assert_eq!(system.count(&runs).await, 1, "{name}");
    }
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interval_jobs_fire_on_time_and_in_order() {
    let system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[every("each-second", 1)])).await;
    system
        .wait_count("five fires", "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'", 5)
        .await;
    let late = "SELECT count(*) FROM job_dispatch WHERE created_at < scheduled_for";
    assert_eq!(system.count(late).await, 0, "a fire was dispatched before its time");
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_job_is_retried_and_then_a_dead_letter_with_every_attempt_in_the_history() {
    let mut system = Installation::with(1, 0).await;
    // The poll interval is long: the worker must know by itself when a retry is due.
    system.start_worker(&[("WORKER_POLL_INTERVAL", "10min"), ("WORKER_MAX_POLL_INTERVAL", "10min")]).await;
    let policy =
        json!({"max_attempts": 3, "backoff_seconds": 1, "backoff_type": "fixed", "jitter_percent": 0});
    let job = json!({"name": "fails", "job_type": "manual", "retry_policy": policy});
    system.apply(&shell_jobs("echo no >&2; exit 3", &[job])).await;
    system.trigger("fails").await;
    system
        .wait_count("the dead letter", "SELECT count(*) FROM job_dispatch WHERE status = 'DEAD_LETTER'", 1)
        .await;
    let attempts = "SELECT count(*) FROM job_execution_log WHERE status = 'FAILED' AND exit_code = 3 AND error_class = 'exit_code'";
    assert_eq!(system.count(attempts).await, 3);
    let early = "SELECT count(*) FROM job_execution_log a JOIN job_execution_log b ON b.dispatch_id = a.dispatch_id AND b.attempt = a.attempt + 1
                 WHERE b.started_at < a.completed_at + interval '1 second'";
    assert_eq!(system.count(early).await, 0, "a retry came before the end of its backoff");
    system.check_invariants().await;
}

/// Scenario 7, in its first form: the dispatch waits and is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_dispatch_waits_for_a_worker_and_runs_when_one_appears() {
    let mut system = Installation::with(1, 0).await;
    system.apply(&shell_jobs("true", &[manual("waits")])).await;
    system.trigger("waits").await;
    let status = system.get("/api/v1/status").await;
    let waiting = &status["queues"][0];
    assert_eq!(
        (&waiting["name"], &waiting["has_live_worker"]),
        (&json!("default"), &json!(false)),
        "{status}"
    );
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    system.start_worker(&[("WORKER_TEMP_DIR", place)]).await;
    let files = system.files_of_workers();
    system
        .wait_count("the run", "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'", 1)
        .await;
    system.check_machine_below(folder.path(), files).await;
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_that_overlaps_is_skipped_with_a_record() {
    let system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("sleep 3", &[every("slow", 1)])).await;
    system.wait_count("a skip", "SELECT count(*) FROM skipped_fires WHERE reason = 'overlap'", 1).await;
    system
        .wait_count("two runs", "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'", 2)
        .await;
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_of_a_backup_job_lies_outside_the_main_schema() {
    let system = Installation::with(1, 1).await;
    let backup = json!({"name": "backup", "job_type": "manual", "scope": "backup_infrastructure"});
    system.apply(&shell_jobs("echo dumped", &[backup])).await;
    system.trigger("backup").await;
    system
        .wait_count(
            "its history",
            "SELECT count(*) FROM maintenance.job_execution_log WHERE status = 'COMPLETED'",
            1,
        )
        .await;
    assert_eq!(system.count("SELECT count(*) FROM maintenance.job_execution_output").await, 1);
    assert_eq!(system.count("SELECT count(*) FROM job_execution_log").await, 0);
    let page = system.get("/api/v1/attempts?job=backup").await;
    assert_eq!(page["items"][0]["status"], "succeeded", "{page}");
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_scheduled_is_disabled_with_its_reason_and_the_others_go_on() {
    let system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[every("broken", 1), every("sound", 1)])).await;
    system
        .execute(
            "UPDATE scheduled_jobs SET schedule_config = '{\"seconds\": \"soon\"}' WHERE name = 'broken'",
        )
        .await;
    system.wait_count("the job to be disabled", "SELECT count(*) FROM scheduled_jobs WHERE name = 'broken' AND NOT is_enabled AND disabled_reason LIKE 'schedule_config%'", 1).await;
    assert_eq!(system.count("SELECT count(*) FROM events WHERE event_type = 'job_disabled'").await, 1);
    let before = system.count("SELECT total_run_count FROM scheduled_jobs WHERE name = 'sound'").await;
    system
        .wait_count(
            "the other to go on",
            "SELECT total_run_count FROM scheduled_jobs WHERE name = 'sound'",
            before + 2,
        )
        .await;
}

/// Neither the API nor `schedctl` is involved.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_written_with_plain_sql_fire() {
    let system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[manual("model")])).await;
    let insert = "INSERT INTO scheduled_jobs (tenant_id, project_id, name, task_function_id, job_type, schedule_config)
                  SELECT tenant_id, project_id, 'inserted', task_function_id, 'interval', '{\"hours\": 1}'
                  FROM scheduled_jobs WHERE name = 'model'";
    system.execute(insert).await;
    let cursor = "SELECT count(*) FROM scheduled_jobs WHERE name = 'inserted' AND next_run_at = created_at + interval '1 hour'";
    system.wait_count("the cursor of an inserted job", cursor, 1).await;
    system
        .execute("UPDATE scheduled_jobs SET schedule_config = '{\"seconds\": 1}' WHERE name = 'inserted'")
        .await;
    let runs = "SELECT count(*) FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id WHERE j.name = 'inserted'";
    system.wait_count("runs of the new schedule", runs, 2).await;
    system.check_invariants().await;
}

/// One job that cannot be written must not keep the others from firing.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_the_database_refuses_is_disabled_and_the_others_go_on() {
    let system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[every("refused", 1), every("sound", 1)])).await;
    let refuse = "ALTER TABLE job_dispatch ADD CONSTRAINT refuses_one CHECK (job_id <> '{id}') NOT VALID";
    let id = system.get("/api/v1/jobs/refused").await["id"].as_str().unwrap().to_owned();
    system.execute(&refuse.replace("{id}", &id)).await;
    let disabled =
        "SELECT count(*) FROM scheduled_jobs WHERE name = 'refused' AND disabled_reason LIKE '%refuses_one%'";
    system.wait_count("the job to be disabled", disabled, 1).await;
    let before = system.count("SELECT total_run_count FROM scheduled_jobs WHERE name = 'sound'").await;
    system
        .wait_count(
            "the other to go on",
            "SELECT total_run_count FROM scheduled_jobs WHERE name = 'sound'",
            before + 2,
        )
        .await;
}

/// Kill switches also hold triggered work, and release it later.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_paused_project_or_tenant_is_claimed() {
    let system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[manual("held"), every("fires", 1)])).await;
    for table in ["projects", "tenants"] {
        system.execute(&format!("UPDATE {table} SET is_paused = true")).await;
        let before = system
            .count("SELECT coalesce(sum(fire_count), 0) FROM skipped_fires WHERE reason LIKE 'paused%'")
            .await;
        let done = system.count("SELECT count(*) FROM job_execution_log").await;
        let dispatch = system.trigger("held").await;
        system
            .wait_count(
                "skips",
                "SELECT coalesce(sum(fire_count), 0) FROM skipped_fires WHERE reason LIKE 'paused%'",
                before + 2,
            )
            .await;
        let status = system.get(&format!("/api/v1/runs/{dispatch}")).await["status"].clone();
        assert_eq!(status, "waiting", "{table}");
        system.execute(&format!("UPDATE {table} SET is_paused = false")).await;
        system.wait_count("runs after the pause", "SELECT count(*) FROM job_execution_log", done + 2).await;
    }
    system.check_invariants().await;
}

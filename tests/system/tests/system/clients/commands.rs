//! Commands on existing work: cancelling it, and retrying dead letters.

use std::path::Path;

use serde_json::{Value, json};
use system_tests::{Installation, PATIENCE, manual, shell_jobs};
use test_support::wait_for;

#[track_caller]
fn printed(finished: &test_support::Finished) -> Value {
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_process_is_cancelled_from_the_command_line_with_all_its_children() {
    // Neither the lease nor the poll interval may end it.
    let mut system = Installation::with(1, 0).await;
    system.start_worker(&[("WORKER_OFFLINE_THRESHOLD", "600s"), ("WORKER_HEARTBEAT_INTERVAL", "60s")]).await;
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    // It ignores SIGTERM, so only the end of the grace ends it and its child.
    let command = format!(
        "trap '' TERM; sleep 600 & echo $$ $! > {0}.new; mv {0}.new {0}; wait; sleep 600",
        pids.display()
    );
    let mut jobs = shell_jobs(&command, &[manual("stubborn")]);
    jobs["task_functions"][0]["handler_config"]["grace_seconds"] = json!(1);
    system.apply(&jobs).await;
    let dispatch = system.trigger("stubborn").await;
    let pids = wait_for("the work to run", PATIENCE, async || {
        std::fs::read_to_string(&pids).map_err(|error| error.to_string())
    })
    .await;
    let alive = || pids.split_whitespace().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).count();
    assert_eq!(alive(), 2);
    let cancel = ["runs", "cancel", &dispatch, "--reason", "wrong data", "--wait", "-o", "json"];
    let shown = printed(&system.schedctl(&cancel).await);
    assert_eq!(
        (&shown["status"], &shown["error_message"]),
        (
            &json!("cancelled"),
            &json!(format!("cancelled by {}: wrong data", test_support::identity::actor()))
        )
    );
    wait_for("no process of it", PATIENCE, async || match alive() {
        0 => Ok(()),
        left => Err(format!("{left} of {pids}")),
    })
    .await;
    let again = printed(&system.schedctl(&["runs", "cancel", &dispatch, "-o", "json"]).await);
    assert_eq!(again, json!({"run_id": dispatch, "state": "cancelled", "status": "cancelled"}));
    let attempts = "SELECT count(*) FROM job_execution_log WHERE status = 'CANCELLED'";
    assert_eq!(system.count(attempts).await, 1);
    let events = "SELECT string_agg(event_type, ' ' ORDER BY transaction_id, id) FROM event_stream WHERE dispatch_id IS NOT NULL";
    assert_eq!(
        system.text(events).await,
        "schedule_execution_started dispatch_cancel_requested schedule_execution_completed"
    );
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_a_job_has_waiting_and_running_is_cancelled() {
    let system = Installation::with(1, 1).await;
    let queue = json!({"overlap_policy": "queue"});
    let (Value::Object(mut job), Value::Object(queue)) = (manual("endless"), queue) else {
        panic!("objects")
    };
    job.extend(queue);
    system.apply(&shell_jobs("sleep 600", &[Value::Object(job)])).await;
    for _ in 0..5 {
        system.trigger("endless").await;
    }
    system
        .wait_count("one running", "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'", 1)
        .await;
    let done = printed(&system.schedctl(&["jobs", "cancel", "endless", "-o", "json"]).await);
    assert_eq!(done, json!({"cancelled": 4, "requested": 1}));
    system
        .wait_count("all cancelled", "SELECT count(*) FROM job_dispatch WHERE status = 'CANCELLED'", 5)
        .await;
    assert_eq!(system.count("SELECT count(*) FROM job_execution_log").await, 1, "nothing else has run");
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_retried_by_filter_once_what_killed_them_is_mended() {
    let system = Installation::with(1, 1).await;
    let folder = tempfile::tempdir().unwrap();
    let mended = folder.path().join("mended");
    let policy = json!({"max_attempts": 2, "backoff_seconds": 0, "jitter_percent": 0});
    let mut jobs = shell_jobs(&format!("test -e {}", mended.display()), &[manual("a"), manual("b")]);
    jobs["task_functions"][0]["retry_policy"] = policy;
    system.apply(&jobs).await;
    for job in ["a", "a", "a", "b"] {
        system.trigger(job).await;
    }
    let dead = "SELECT count(*) FROM dead_letters WHERE settled_at IS NULL";
    system.wait_count("dead letters", dead, 4).await;
    let listed = printed(&system.schedctl(&["dead-letters", "list", "--job", "a", "-o", "json"]).await);
    let listed = &listed["items"];
    assert_eq!(listed.as_array().unwrap().len(), 3, "{listed}");
    assert_eq!(listed[0]["attempts"], json!(2));
    let class = listed[0]["error_class"].as_str().unwrap();
    std::fs::write(&mended, "").unwrap();
    let meant = system.schedctl(&["dead-letters", "retry", "--job", "a", "--dry-run"]).await;
    assert!(meant.status.success() && meant.stderr.contains("3 are selected"), "{meant:?}");
    let retry =
        ["dead-letters", "retry", "--job", "a", "--error-class", class, "--since", "-1h", "-o", "json"];
    let retried = printed(&system.schedctl(&[&retry[..], &["--wait"]].concat()).await);
    assert_eq!((&retried["count"], &retried["refused"]), (&json!(3), &json!([])));
    let new = retried["retried"].as_array().unwrap();
    assert!(new.len() == 3 && new.iter().all(|one| one["run_id"] != one["retried_as"]), "{retried}");
    let done = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED' AND triggered_by = 'retry'";
    assert_eq!(system.count(done).await, 3);
    assert_eq!(printed(&system.schedctl(&retry).await), json!({"count": 0, "refused": []}));
    assert_eq!(system.count(dead).await, 1, "the other job's is open still");
    let unnamed = system.schedctl(&["dead-letters", "discard"]).await;
    assert_eq!(unnamed.status.code(), Some(2), "{unnamed:?}");
    let unagreed = system.schedctl(&["dead-letters", "discard", "--all"]).await;
    assert_eq!(unagreed.status.code(), Some(2), "{unagreed:?}");
    let discard = ["dead-letters", "discard", "--all", "--yes", "--reason", "known", "-o", "json"];
    assert_eq!(printed(&system.schedctl(&discard).await), json!({"count": 1, "refused": []}));
    let discarded =
        printed(&system.schedctl(&["dead-letters", "list", "--state", "discarded", "-o", "json"]).await);
    let id = discarded["items"][0]["run_id"].as_str().unwrap();
    let retried = system.schedctl(&["runs", "retry", id, "--wait"]).await;
    assert_eq!(retried.status.code(), Some(0), "{retried:?}");
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_and_a_job_are_made_from_the_command_line_once_and_run() {
    let system = Installation::with(1, 1).await;
    let function = ["functions", "create", "greet", "--timeout", "1min", "--", "/bin/echo", "hello", "-n"];
    assert_eq!(system.schedctl(&function).await.status.code(), Some(0));
    let job = ["jobs", "create", "greet", "--function", "greet", "--cron", "0 9 * * MON-FRI", "-o", "json"];
    let made = printed(&system.schedctl(&job).await);
    assert_eq!(
        (&made["job_type"], &made["schedule_config"]["expression"], &made["version"]),
        (&json!("cron"), &json!("0 9 * * MON-FRI"), &json!(1))
    );
    for (again, said) in [
        (&function[..], "task function named \"greet\" exists"),
        (&job[..], "job named \"greet\" already exists"),
    ] {
        let refused = system.schedctl(again).await;
        assert_eq!(refused.status.code(), Some(7), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    let ran = system.schedctl(&["runs", "create", "greet", "--wait"]).await;
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let slow = ["functions", "create", "slow", "--", "/bin/sleep", "1.3"];
    assert_eq!(system.schedctl(&slow).await.status.code(), Some(0));
    let job = ["jobs", "create", "slow", "--function", "slow"];
    assert_eq!(system.schedctl(&job).await.status.code(), Some(0));
    for name in ["greet", "slow"] {
        let ran = printed(&system.schedctl(&["jobs", "trigger", name, "--wait", "-o", "json"]).await);
        assert_eq!(ran["status"], "succeeded");
    }
    let stuck = printed(&system.schedctl(&["runs", "reset-stuck", "--dry-run", "-o", "json"]).await);
    assert_eq!(
        stuck,
        json!({"dry_run": true, "count": 0, "count_is_at_least": false, "has_leader": true, "attempts": []})
    );
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_rehearsed_applied_exported_and_pruned_from_the_command_line() {
    let system = Installation::with(0, 0).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let head = "task_functions:\n  - {name: f, handler_type: process, handler_config: {program: /bin/true}}\njobs:\n";
    let keep = "  - {name: keep, function: f, job_type: interval, schedule_config: {seconds: 60}}\n";
    let early = "  - {name: early, function: f, job_type: manual}\n";
    let late = "  - {name: late, function: f, job_type: manual, after: [{job: early}]}\n";
    let all = file("all.yaml", &format!("{head}{keep}{early}{late}"));
    let jobs = "SELECT count(*) FROM scheduled_jobs WHERE scope = 'project' AND deleted_at IS NULL";

    let dry = system.schedctl(&["jobs", "apply", "-f", &all, "--dry-run"]).await;
    assert_eq!(dry.status.code(), Some(0), "{dry:?}");
    assert!(dry.stderr.contains("dry run: nothing was written"), "{}", dry.stderr);
    assert_eq!((dry.stdout.matches("created").count(), system.count(jobs).await), (4, 0), "{}", dry.stdout);
    let applied = printed(&system.schedctl(&["jobs", "apply", "-f", &all, "-o", "json"]).await);
    assert_eq!((applied["results"].as_array().unwrap().len(), system.count(jobs).await), (4, 3));

    let exported = system.schedctl(&["export"]).await;
    assert_eq!(exported.status.code(), Some(0), "{exported:?}");
    let again = file("again.yaml", &exported.stdout);
    let again = system.schedctl(&["jobs", "apply", "-f", &again]).await;
    assert_eq!(again.stdout.matches("unchanged").count(), 4, "{} {}", exported.stdout, again.stdout);

    let held = file("held.yaml", &format!("{head}{keep}{late}"));
    let held = system.schedctl(&["jobs", "apply", "-f", &held, "--prune", "default", "--yes"]).await;
    assert_eq!((held.status.code(), system.count(jobs).await), (Some(2), 3), "{held:?}");
    assert!(
        held.stderr.contains("the job early is not in the files, and late runs after it"),
        "{}",
        held.stderr
    );
    let fewer = file("fewer.yaml", &format!("{head}{}", keep.replace("60", "90")));
    let prune = ["jobs", "apply", "-f", &fewer, "--prune", "default"];
    let dry = system.schedctl(&[&prune[..], &["--dry-run"]].concat()).await;
    assert!(dry.stdout.contains("/schedule_config/seconds: 60 -> 90"), "{}", dry.stdout);
    assert_eq!(dry.stdout.matches("deleted").count(), 2, "{}", dry.stdout);
    let unasked = system.schedctl(&prune).await;
    assert_eq!(unasked.status.code(), Some(2), "{unasked:?}");
    assert!(
        unasked.stderr.contains("2 jobs of the project default") && unasked.stderr.contains("--yes"),
        "{}",
        unasked.stderr
    );
    let unchanged = "SELECT count(*) FROM scheduled_jobs WHERE schedule_config->>'seconds' = '60'";
    assert_eq!((system.count(jobs).await, system.count(unchanged).await), (3, 1));
    // The first by name cannot be removed before the other, which runs after it.
    let pruned = printed(&system.schedctl(&[&prune[..], &["--yes", "-o", "json"]].concat()).await);
    let names: Vec<_> = pruned["deleted"].as_array().unwrap().iter().map(|job| &job["name"]).collect();
    assert_eq!(names, ["late", "early"]);
    assert_eq!((system.count(jobs).await, system.count(unchanged).await), (1, 0));

    let none = file("none.yaml", "calendars: [{name: free, weekly: [SAT]}]");
    let refused = system.schedctl(&["jobs", "apply", "-f", &none, "--prune", "default", "--yes"]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("the files describe no job of the project default"),
        "{}",
        refused.stderr
    );
    let unknown = system.schedctl(&["jobs", "apply", "-f", &fewer, "--prune", "defualt", "--yes"]).await;
    assert_eq!(unknown.status.code(), Some(7), "{unknown:?}");
    assert_eq!(system.count(jobs).await, 1);

    let schema: Value = printed(&system.schedctl(&["jobs", "schema"]).await);
    assert_eq!(schema["properties"]["jobs"]["type"], "array");
}

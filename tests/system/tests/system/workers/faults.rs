//! Workers that freeze, die, stop, or run jobs with much output. After each fault the test checks
//! effects, history and machine: see `check_what_is_left`.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use system_tests::{Effects, Frozen, Installation, PATIENCE, manual, processes, retried, shell_jobs};
use test_support::wait_for;

const COMPLETED: &str = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'";
const LOST: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'LOST'";

/// Additional open files of a worker: new connections of its pool.
const SPARE_FILES: usize = 8;

/// Runs `job` on the only worker, so that everything made at first use exists; returns the number
/// of its open files.
async fn warmed_up(system: &Installation, job: &str) -> usize {
    let done = system.count(COMPLETED).await;
    system.trigger(job).await;
    system.wait_count("the first run", COMPLETED, done + 1).await;
    processes::open_files(system.workers[0].id()) + SPARE_FILES
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_frozen_past_its_lease_leaves_one_result_and_no_process_of_the_first_attempt() {
    let mut system = Installation::with(1, 1).await;
    let effects = Effects::new();
    // The first attempt leaves its session too, and takes two minutes.
    let work =
        effects.command("case $SCHED_ATTEMPT in 1) work=1200; setsid sleep 120 & ;; *) work=20 ;; esac");
    let mut manifest = shell_jobs(&work, &[retried("frozen")]);
    manifest["task_functions"].as_array_mut().unwrap().push(json!({
        "name": "short", "handler_type": "process",
        "handler_config": {"shell": true, "command": effects.command("")},
    }));
    manifest["jobs"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "short", "job_type": "manual", "function": "short"}));
    system.apply(&manifest).await;
    let files = warmed_up(&system, "short").await;
    let dispatch = system.trigger("frozen").await;
    effects.wait("begin", 2).await;
    let from = system.now().await;
    let process = system.workers[0].id();
    system.workers[0].pause();
    system.wait_count("the lost attempt", LOST, 1).await;
    system.start_worker(&[]).await;
    effects.wait("begin", 3).await;
    system.workers[0].resume();
    let until = system.now().await;
    system.wait_count("the second attempt", COMPLETED, 2).await;
    let history = format!("SELECT count(*) FROM job_execution_log WHERE dispatch_id = '{dispatch}'");
    assert_eq!(system.count(&history).await, 2);
    let second = format!("{history} AND (attempt, status) IN ((1, 'LOST'), (2, 'COMPLETED'))");
    assert_eq!(system.count(&second).await, 2);
    system.check_what_is_left(&effects, &[Frozen { process, from, until }], files).await;
}

/// Programs die with their worker at once; processes outside of them, at the latest when a worker
/// starts again.
#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_with_a_hundred_children_leaves_none_and_its_work_is_done_again() {
    let mut system = Installation::with(1, 0).await;
    let effects = Effects::new();
    let ten = [("WORKER_CONCURRENCY", "10")];
    system.start_worker(&ten).await;
    let children = "if [ $SCHED_ATTEMPT -eq 1 ]; then
                        for i in 1 2 3 4 5; do sleep 600 & setsid sleep 600 & done; work=1200
                    fi";
    system.apply(&shell_jobs(&effects.command(children), &[retried("parent")])).await;
    for _ in 0..10 {
        system.trigger("parent").await;
    }
    effects.wait("begin", 10).await;
    let marked = async || processes::marked(&effects.mark()).len();
    wait_for("a hundred children and their parents", PATIENCE, async || match marked().await {
        110.. => Ok(()),
        seen => Err(format!("{seen}")),
    })
    .await;
    system.workers[0].kill9().await;
    wait_for("the programs end", PATIENCE, async || {
        let before = effects.count("alive");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let seen = effects.count("alive") - before;
        if seen == 0 { Ok(()) } else { Err(format!("{seen} signs of life")) }
    })
    .await;
    system.start_worker(&ten).await;
    let files = processes::open_files(system.workers[1].id()) + 10 + SPARE_FILES;
    system.wait_count("all work done again", COMPLETED, 10).await;
    assert_eq!(system.count(LOST).await, 10);
    system.check_what_is_left(&effects, &[], files).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_told_to_stop_at_random_points_loses_nothing_and_repeats_nothing() {
    let mut system = Installation::with(1, 0).await;
    let effects = Effects::new();
    system.apply(&shell_jobs(&effects.command("work=3"), &[retried("short")])).await;
    for _ in 0..40 {
        system.trigger("short").await;
    }
    let mut random = StdRng::seed_from_u64(5);
    for round in 0..6 {
        let drain = if round % 2 == 0 { "100ms" } else { "10s" };
        let worker =
            system.start_worker(&[("WORKER_CONCURRENCY", "4"), ("WORKER_DRAIN_TIMEOUT", drain)]).await;
        // The signal may arrive at any point of claims, runs and completions.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..700))).await;
        let status = system.workers[worker].stop_gracefully(PATIENCE).await;
        assert!(status.success(), "{status}");
        let left = processes::marked(&effects.mark());
        assert!(left.is_empty(), "a worker that stopped left {left:?}");
    }
    system.start_worker(&[("WORKER_CONCURRENCY", "8")]).await;
    system.wait_count("all work", COMPLETED, 40).await;
    let other = "SELECT count(*) FROM job_execution_log WHERE status NOT IN ('COMPLETED', 'RELEASED')";
    assert_eq!(system.count(other).await, 0, "an attempt that our own stop ended counts as none");
    system.check_what_is_left(&effects, &[], usize::MAX).await;
}

/// Jobs write as fast as possible, including NUL and invalid UTF-8. The worker keeps a bounded
/// part, counts all of it, and other jobs continue.
#[tokio::test(flavor = "multi_thread")]
async fn worker_under_a_storm_of_output_stays_small_and_counts_every_byte() {
    const MEGABYTES: i64 = 300;
    let mut system = Installation::with(1, 1).await;
    let effects = Effects::new();
    let storm = |what: &str| format!("head -c {} {what}; {}", MEGABYTES << 20, effects.command(""));
    let mut manifest = shell_jobs(&effects.command("work=2"), &[manual("quiet")]);
    for (name, command) in [
        ("zeros", storm("/dev/zero")),
        ("noise", storm("/dev/urandom")),
        ("words", format!("yes '0123456789 äöü' | {}", storm("-"))),
    ] {
        let config = json!({"shell": true, "command": command});
        let function = json!({"name": name, "handler_type": "process", "handler_config": config});
        manifest["task_functions"].as_array_mut().unwrap().push(function);
        let job = json!({"name": name, "job_type": "manual", "function": name});
        manifest["jobs"].as_array_mut().unwrap().push(job);
    }
    system.apply(&manifest).await;
    let files = warmed_up(&system, "quiet").await;
    for job in ["zeros", "noise", "words", "quiet"] {
        system.trigger(job).await;
    }
    system.wait_count("all of them", COMPLETED, 5).await;
    let counted = format!("SELECT count(*) FROM job_execution_log WHERE output_bytes = {}", MEGABYTES << 20);
    assert_eq!(system.count(&counted).await, 3);
    let kept = "SELECT max(kept) FROM (SELECT sum(octet_length(content)) AS kept FROM job_execution_output GROUP BY execution_id) k";
    let kept = system.count(kept).await;
    assert!((1..=2 << 20).contains(&kept), "{kept} bytes of an output are kept");
    let memory = processes::most_memory(system.workers[0].id());
    println!("3 x {MEGABYTES} MB of output: the worker had {memory} MB at most");
    assert!(memory < 200, "the worker had {memory} MB");
    assert_eq!(system.count(LOST).await, 0);
    system.check_what_is_left(&effects, &[], files).await;
}

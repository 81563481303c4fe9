//! Several workers at once.

use serde_json::Value;
use system_tests::{Effects, Installation, every, retried, shell_jobs};
use test_support::Process;

const COMPLETED: &str = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'";

/// Scenario 3.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_join_half_way_share_the_rest() {
    let mut system = Installation::with(1, 0).await;
    let two = [("WORKER_CONCURRENCY", "2")];
    system.start_worker(&two).await;
    let effects = Effects::new();
    system.apply(&shell_jobs(&effects.command("work=2"), &[retried("many")])).await;
    for _ in 0..60 {
        system.trigger("many").await;
    }
    system.wait_count("a part of the work", COMPLETED, 15).await;
    system.start_worker(&two).await;
    system.start_worker(&two).await;
    system.wait_count("all work", COMPLETED, 60).await;
    assert_eq!(system.count("SELECT count(*) FROM job_execution_log").await, 60, "each ran once");
    let shares =
        "SELECT count(*) FROM (SELECT FROM job_execution_log GROUP BY worker_id HAVING count(*) >= 5) w";
    assert_eq!(system.count(shares).await, 3, "each of the three took part");
    system.check_what_is_left(&effects, &[], usize::MAX).await;
}

/// Scenario 6: a hundred interval jobs, ten workers, for `seconds`; no fire is missed or doubled.
async fn hundred_jobs_with_ten_workers(period: u32, seconds: i64) {
    let mut system = Installation::with(1, 0).await;
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    for _ in 0..10 {
        let settings =
            [("WORKER_CONCURRENCY", "4"), ("WORKER_OFFLINE_THRESHOLD", "30s"), ("WORKER_TEMP_DIR", place)];
        system.start_worker(&settings).await;
    }
    let files = system.files_of_workers();
    let jobs: Vec<Value> = (0..100).map(|n| every(&format!("job-{n}"), period)).collect();
    system.apply(&shell_jobs("true", &jobs)).await;
    let over = format!(
        "SELECT (min(created_at) < clock_timestamp() - interval '{seconds} seconds')::integer FROM scheduled_jobs"
    );
    test_support::wait_for(
        "the end of the run",
        std::time::Duration::from_secs(seconds.unsigned_abs() + 60),
        async || match system.count(&over).await {
            1 => Ok(()),
            _ => Err(format!("{} dispatches completed", system.count(COMPLETED).await)),
        },
    )
    .await;
    // The schedulers stop first, so that no more fires become due; then the rest is executed.
    for mut scheduler in system.schedulers.drain(..).collect::<Vec<Process>>() {
        scheduler.term();
        assert!(scheduler.wait_exit(system_tests::PATIENCE).await.success());
    }
    let open = "SELECT (count(*) = 0)::integer FROM job_dispatch WHERE completed_at IS NULL";
    system.wait_count("everything to be done", open, 1).await;
    let least = 100 * (seconds / i64::from(period) - 1);
    let fates = "SELECT (SELECT count(*) FROM job_dispatch) + (SELECT coalesce(sum(fire_count), 0) FROM skipped_fires)";
    let fates = system.count(fates).await;
    assert!(fates >= least, "{fates} fires of at least {least}");
    assert_eq!(
        system.count("SELECT count(*) FROM job_dispatch").await,
        system.count("SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'").await,
        "each ran once"
    );
    let workers = system.count("SELECT count(DISTINCT worker_id) FROM job_execution_log").await;
    println!("{fates} fires of 100 jobs in {seconds} s, run by {workers} workers");
    assert!(workers >= 5, "{workers} workers took part");
    system.check_machine_below(folder.path(), files).await;
    system.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_ten_of_them_miss_and_double_no_fire_of_a_hundred_jobs() {
    hundred_jobs_with_ten_workers(4, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes an hour: scripts/test -p system-tests --run-ignored only -E 'test(miss_and_double_no_fire_in_an_hour)'"]
async fn workers_ten_of_them_miss_and_double_no_fire_in_an_hour() {
    hundred_jobs_with_ten_workers(2, 3600).await;
}

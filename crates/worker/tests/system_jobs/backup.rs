use std::path::Path;
use std::process::Command;

use test_support::TestDatabase;

use super::*;

/// The rows of tables that do not change during a backup.
const COUNTS: &str = "SELECT string_agg(t.name || ' ' || (xpath('/row/c/text()', query_to_xml('SELECT count(*) AS c FROM ' || t.name, true, true, '')))[1]::text, ', ' ORDER BY t.name)
    FROM unnest(ARRAY['tenants', 'projects', 'queues', 'task_functions', 'scheduled_jobs', 'scheduled_job_versions', 'skipped_fires',
                      'housekeeping', 'maintenance.job_execution_log']) AS t (name)";

#[tokio::test(flavor = "multi_thread")]
async fn backup_restores_every_row() {
    let dir = tempfile::tempdir().unwrap();
    let backups = dir.path().join("backups").display().to_string();
    let worker =
        RunningWorker::start(HistoryExpiry::Drop, &[("BACKUP_DIR", &backups), ("BACKUP_KEEP", "2")]).await;
    worker.fixture
        .sql(
            "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason)
             SELECT tenant_id, id, at, at, 1, 'overlap'
             FROM scheduled_jobs, generate_series(now() - interval '90 minutes', now(), interval '1 minute') AS at",
        )
        .await;
    let counts = worker.text(COUNTS).await;
    assert!(counts.contains("scheduled_jobs 6") && counts.contains("skipped_fires 546"), "{counts}");
    let result = worker.done("sched.backup").await;
    let path = Path::new(result["path"].as_str().unwrap());
    assert_eq!(std::fs::metadata(path).unwrap().len(), result["bytes"].as_u64().unwrap());
    let sums =
        format!("{}  {}\n", result["sha256"].as_str().unwrap(), path.file_name().unwrap().to_str().unwrap());
    assert_eq!(std::fs::read_to_string(format!("{}.sha256", path.display())).unwrap(), sums);
    // The backup job's own log is outside the main schema.
    assert_eq!(worker.text("SELECT count(*) FROM maintenance.job_execution_log").await, "1");
    assert_eq!(worker.text("SELECT count(*) FROM job_execution_log").await, "0");

    let fresh = TestDatabase::empty().await;
    let restored = Command::new(server_program("pg_restore"))
        .args(["--exit-on-error", "--no-owner", "--single-transaction", "--dbname", fresh.url()])
        .arg(path)
        .output()
        .unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let client = fresh.client().await;
    let row = client.query_one(&format!("SELECT ({COUNTS})::text"), &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), counts, "every table has its rows");

    for _ in 0..2 {
        worker.done("sched.backup").await;
    }
    assert!(!path.exists(), "two are kept");
    assert_eq!(
        std::fs::read_dir(&backups).unwrap().count(),
        4,
        "with their checksums, and nothing unfinished"
    );

    // Restoring the main schema alone keeps the log of backups.
    let newest = worker.done("sched.backup").await["path"].as_str().unwrap().to_owned();
    let fixture = worker.stop_and_keep().await;
    fixture
        .sql(
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public;
             GRANT USAGE ON SCHEMA public TO sched_api, sched_daemon, sched_worker",
        )
        .await;
    let restored = Command::new(server_program("pg_restore"))
        .args(["--exit-on-error", "--no-owner", "--single-transaction", "--schema=public"])
        .args(["--dbname", fixture.db.url()])
        .arg(newest)
        .output()
        .unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let after = "SELECT (SELECT name FROM tenants) || ' ' || (SELECT count(*) FROM skipped_fires) || ' '
                        || (SELECT count(*) FROM maintenance.job_execution_log)";
    fixture.sql("SET ROLE sched_worker").await;
    assert_eq!(fixture.text(after).await, "Default 546 4");
}

use std::sync::Arc;
use std::time::Duration;

use sched_model::cluster::health::JobCounts;
use sched_model::cluster::housekeeping::{self, Housekeeping};
use sched_model::domain::retention::{HistoryExpiry, Retention};
use sched_runtime::driver::{Activation, Report};
use sched_scheduler::tasks::Scope;
use sched_scheduler::tasks::installation_metrics::{InstallationMetrics, JobsSeen};
use sched_scheduler::tasks::maintain::Maintain;
use test_support::fixture::BEGIN;
use tokio::sync::watch;

use crate::leader::{Leader, assert_refused, run};

fn maintain(scope: Scope, expiry: HistoryExpiry) -> Maintain {
    Maintain {
        scope,
        settings: Housekeeping {
            retention: Retention { finished_days: 30, dead_letter_days: 90, audit_days: 365 },
            idempotency_keys: Duration::from_secs(24 * 3600),
            expiry,
            stale_scheduler: Duration::from_secs(120),
            stale_worker: Duration::from_secs(24 * 3600),
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_leader_was_told_is_written_down_for_the_built_in_jobs() {
    let leader = Leader::new().await;
    let mut conn = leader.conn().await;
    assert_eq!(housekeeping::load(&mut conn).await.unwrap(), None);
    for expiry in [HistoryExpiry::Drop, HistoryExpiry::Detach] {
        let mut maintain = maintain(leader.scope.clone(), expiry);
        run(&mut maintain).await;
        assert_eq!(housekeeping::load(&mut conn).await.unwrap(), Some(maintain.settings));
    }
    assert_refused(&maintain(leader.deposed(), HistoryExpiry::Drop).run_once().await);
    let settings = housekeeping::load(&mut conn).await.unwrap().unwrap();
    assert_eq!(settings.expiry, HistoryExpiry::Detach);
}

async fn old_month(leader: &Leader) {
    leader.sql("CREATE TABLE events_y2020m01 PARTITION OF events FOR VALUES FROM ('2020-01-01 00:00Z') TO ('2020-02-01 00:00Z'); SELECT isolate_tenants('events_y2020m01')").await;
}

const IN_ARCHIVE: &str =
    "SELECT count(*) FROM pg_class WHERE relnamespace = 'history_archive'::regnamespace AND relkind = 'r'";

#[tokio::test(flavor = "multi_thread")]
async fn months_behind_are_dropped_or_detached_and_those_ahead_are_made() {
    for (expiry, archived) in [(HistoryExpiry::Drop, 0), (HistoryExpiry::Detach, 1)] {
        let leader = Leader::new().await;
        let mut maintain = maintain(leader.scope.clone(), expiry);
        assert_eq!(run(&mut maintain).await, Report::idle());
        old_month(&leader).await;
        leader
            .sql("DO $$ BEGIN EXECUTE format('DROP TABLE events%s', to_char(now() AT TIME ZONE 'UTC' + interval '1 month', '\"_y\"YYYY\"m\"MM')); END $$")
            .await;
        let report = run(&mut maintain).await;
        assert_eq!(report.counts["partitions_removed"], serde_json::json!(["events_y2020m01"]));
        assert_eq!(report.counts["partitions_made"].as_array().map(Vec::len), Some(1));
        assert_eq!(leader.number(IN_ARCHIVE).await, archived, "{expiry}");
        assert_eq!(run(&mut maintain).await, Report::idle());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_month_in_use_is_left_for_the_next_run() {
    let leader = Leader::new().await;
    let mut maintain = maintain(leader.scope.clone(), HistoryExpiry::Drop);
    old_month(&leader).await;
    leader.sql(&format!("{BEGIN}; SELECT count(*) FROM events")).await;
    assert_eq!(run(&mut maintain).await, Report::idle(), "no failure");
    leader.sql("COMMIT").await;
    assert_eq!(run(&mut maintain).await.counts["partitions_removed"], serde_json::json!(["events_y2020m01"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_lead_any_more_removes_no_history() {
    let leader = Leader::new().await;
    old_month(&leader).await;
    assert_refused(&maintain(leader.deposed(), HistoryExpiry::Drop).run_once().await);
    assert_eq!(leader.number("SELECT count(*) FROM pg_class WHERE relname = 'events_y2020m01'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_reads_counts_and_next_due_jobs() {
    let leader = Leader::new().await;
    for (name, hours) in [("later", 3), ("soon", 1)] {
        leader.job(name).every_hours(hours).save().await;
    }
    leader.job("off").disabled().save().await;
    leader.sql("UPDATE scheduled_jobs SET is_paused = true WHERE name = 'later'").await;
    let jobs = Arc::new(watch::Sender::new(None));
    let mut task = InstallationMetrics { scope: leader.scope.clone(), jobs: jobs.clone() };
    run(&mut task).await;
    let seen: JobsSeen = jobs.borrow().clone().unwrap();
    assert_eq!(seen.counts, JobCounts { enabled: 1, paused: 1, disabled: 1, quarantined: 0 });
    let due: Vec<_> =
        seen.next_due.iter().map(|due| (due.tenant.as_str(), due.job.as_str(), due.is_paused)).collect();
    assert_eq!(due, [("default", "soon", false), ("default", "later", true)]);
    leader.job("new").every_hours(2).save().await;
    run(&mut task).await;
    let again: JobsSeen = jobs.borrow().clone().unwrap();
    assert_eq!((again.next_due.len(), again.counts), (3, seen.counts), "jobs are counted once a minute");
}

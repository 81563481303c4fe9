//! Jobs that the leader disables: their version, audit entry and event.

use sched_model::domain::job::JobSettings;
use sched_model::jobs::{self, Switch, SwitchRequest, Switched};
use sched_model::{Conn, transact};
use test_support::fixture::TENANT;

use crate::leader::{Leader, run};
use crate::refused::dispatch;

const DUE: &str = "UPDATE scheduled_jobs SET next_run_at = now() - interval '1 second', settled_until = now() - interval '2 seconds'";

async fn enable(leader: &Leader, job: &jobs::Job, version: i64) -> Switched {
    let request = SwitchRequest {
        tenant: TENANT,
        job: job.id,
        switch: Switch::Enable,
        version: Some(version),
        source: "u",
    };
    let work = async |conn: &mut Conn| jobs::switch(conn, &request).await;
    transact(&mut leader.conn().await, "test_switch", work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_job_has_version_and_audit_entry() {
    let leader = Leader::new().await;
    let job = leader.job("hourly").save().await;
    leader.sql(&format!("{DUE}; UPDATE task_functions SET is_active = false")).await;
    run(&mut dispatch(&leader)).await;
    let stored =
        "SELECT version, is_enabled, disabled_reason, updated_src, is_version_stored FROM scheduled_jobs";
    assert_eq!(leader.rows(stored).await, [["2", "f", "its task function is inactive", "scheduler", "t"]]);
    let versions = "SELECT v.version, v.change, v.changed_src, v.settings ->> 'is_enabled', v.changed_at = j.settled_until
                    FROM scheduled_job_versions v JOIN scheduled_jobs j ON j.id = v.job_id ORDER BY v.version DESC LIMIT 1";
    assert_eq!(leader.rows(versions).await, [["2", "disabled", "scheduler", "false", "t"]]);
    let audited = "SELECT a.actor, a.action, a.target_type, a.before ->> 'is_enabled', a.after ->> 'is_enabled', a.after ->> 'version'
                   FROM audit_log a JOIN scheduled_jobs j ON a.target_id = j.id::text AND a.tenant_id = j.tenant_id";
    assert_eq!(leader.rows(audited).await, [["scheduler", "disable_job", "job", "true", "false", "2"]]);
    let event = "SELECT payload ->> 'reason', payload ? 'by' FROM events WHERE event_type = 'job_disabled'";
    assert_eq!(leader.rows(event).await, [["its task function is inactive", "f"]]);

    assert!(matches!(enable(&leader, &job, 1).await, Switched::OtherVersion(2)));
    // The next edit is only that edit.
    let found = jobs::by_id(&leader.conn().await, TENANT, job.id).await.unwrap().unwrap();
    leader.save(&JobSettings { description: "edited".into(), ..found.settings }).await;
    let edit = "SELECT change FROM scheduled_job_versions WHERE version = 3";
    assert_eq!(leader.text(edit).await, "updated");
    assert!(matches!(enable(&leader, &job, 3).await, Switched::Changed { .. }));
    let enabled = "SELECT version, is_enabled, disabled_reason FROM scheduled_jobs";
    assert_eq!(leader.rows(enabled).await, [["4", "t", "-"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_job_is_versioned_too() {
    let leader = Leader::new().await;
    leader.job("narrow").save().await;
    leader
        .sql(&format!(
            "{DUE}; ALTER TABLE job_dispatch ADD CONSTRAINT refuses_all CHECK (queue <> 'default') NOT VALID"
        ))
        .await;
    run(&mut dispatch(&leader)).await;
    let stored =
        "SELECT j.version, v.changed_src, j.disabled_reason LIKE '%refuses_all%' FROM scheduled_jobs j
                  JOIN scheduled_job_versions v ON v.job_id = j.id AND v.version = j.version";
    assert_eq!(leader.rows(stored).await, [["2", "scheduler", "t"]]);
    assert_eq!(leader.number("SELECT count(*) FROM audit_log WHERE actor = 'scheduler'").await, 1);
}

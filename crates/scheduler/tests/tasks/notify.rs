//! Each delivery is created once and for the right channel, even if the leader dies in between.

mod deliveries;
mod rules;
mod steps;

use sched_model::definitions::built_in;
use sched_model::events::notifications::follow::Limits;
use sched_scheduler::tasks::notify::Notify;

use test_support::wait_for;

use crate::leader::{Leader, run};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

const LIMITS: Limits = Limits { events: 1_000, dispatches: 100, room: 8 };

/// A leader with the built-in jobs, the jobs `nightly` and `hourly`, and a channel.
async fn leader() -> Leader {
    let leader = Leader::new().await;
    built_in::install(&mut leader.conn().await).await.unwrap();
    leader.job_with_runs("nightly", 0).await;
    leader.job_with_runs("hourly", 0).await;
    leader
        .sql(
            "INSERT INTO notification_channels (tenant_id, name, kind, url)
             SELECT id, 'ops', 'webhook', 'https://example.com/' FROM tenants",
        )
        .await;
    leader
}

async fn rule(leader: &Leader, name: &str, kinds: &str, more: (&str, &str)) {
    let (columns, values) = more;
    leader
        .sql(&format!(
            "INSERT INTO notification_rules (tenant_id, name, channel_id, kinds{columns})
             SELECT c.tenant_id, '{name}', c.id, '{{{kinds}}}'{values} FROM notification_channels c WHERE c.name = 'ops'"
        ))
        .await;
}

async fn happens(leader: &Leader, job: &str, event_type: &str, payload: &str) {
    leader
        .sql(&format!(
            "INSERT INTO events (tenant_id, project_id, job_id, event_type, payload)
             SELECT tenant_id, project_id, id, '{event_type}', '{payload}' FROM scheduled_jobs WHERE name = '{job}'"
        ))
        .await;
}

/// Inserts the end of an attempt, with the status of the run after it, and its row of the history
/// unless the run continues.
async fn ends(leader: &Leader, job: &str, dispatch_status: &str) {
    let outcome = match dispatch_status {
        "DEAD_LETTER" => "FAILED",
        other => other,
    };
    let payload = format!(
        r#"{{"job_name": "{job}", "attempt": 2, "dispatch_status": "{dispatch_status}", "error": "exit code 3", "error_class": "exit_code"}}"#
    );
    leader
        .sql(&format!(
            "WITH ended AS (
                 SELECT gen_random_uuid() AS run, tenant_id, project_id, id FROM scheduled_jobs WHERE name = '{job}'
             ), kept AS (
                 INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                                                completed_at, duration_ms, claim_token, triggered_by)
                 SELECT gen_random_uuid(), tenant_id, id, run, 2, '{outcome}', now(), now(), now(), 0, 1, 'schedule'
                 FROM ended
                 WHERE '{outcome}' <> 'PENDING'
             )
             INSERT INTO events (tenant_id, project_id, job_id, dispatch_id, event_type, payload)
             SELECT tenant_id, project_id, id, run, 'schedule_execution_completed', '{payload}' FROM ended"
        ))
        .await;
}

/// The deliveries so far: rule, kind, job.
async fn messages(leader: &Leader) -> Vec<String> {
    leader
        .records("SELECT rule_name, kind, body ->> 'job' FROM notification_deliveries ORDER BY event_transaction_id, event_id, rule_name")
        .await
}

/// Runs the task until it has read all events. Transactions of other tests on the server delay it.
async fn settle_with(leader: &Leader, task: &mut Notify) {
    let unread = "SELECT count(*) FROM event_stream e, notification_cursor c
                  WHERE (e.transaction_id, e.id) > (c.transaction_id::text::xid8, c.event_id)";
    wait_for("the events to be read", PATIENCE, async || {
        run(task).await;
        let unread = leader.number(unread).await;
        if unread == 0 { Ok(()) } else { Err(format!("{unread} are left")) }
    })
    .await;
    run(task).await;
}

async fn settle(leader: &Leader) {
    settle_with(leader, &mut Notify::new(leader.scope.clone())).await;
}

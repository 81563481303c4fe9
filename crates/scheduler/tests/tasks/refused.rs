//! Dispatches that the database rejects: the cause, and the other jobs.

use std::sync::Arc;
use std::time::Duration;

use sched_runtime::driver::Activation;
use sched_scheduler::tasks::ahead::Plans;
use sched_scheduler::tasks::batch::Batches;
use sched_scheduler::tasks::dispatch::Dispatch;
use tokio::sync::watch;

use crate::leader::{Leader, run};

const DISABLED: &str = "SELECT count(*) FROM scheduled_jobs WHERE disabled_reason IS NOT NULL";
const DISPATCHED: &str = "SELECT count(*) FROM job_dispatch";

pub(crate) fn dispatch(leader: &Leader) -> Dispatch {
    Dispatch {
        batches: Batches { scope: leader.scope.clone(), calendars: Arc::default() },
        batch_size: 100,
        lanes: 1,
        poll_interval: Duration::from_secs(1),
        seen: Arc::new(watch::Sender::new(None)),
        ahead: None,
        plans: Plans::default(),
    }
}

/// A leader with three due hourly jobs.
pub(crate) async fn three_due() -> Leader {
    let leader = Leader::new().await;
    leader
        .sql(
            r#"INSERT INTO scheduled_jobs (tenant_id, project_id, name, task_function_id, job_type, schedule_config, next_run_at,
                                           settled_until, created_at)
               SELECT f.tenant_id, p.id, 'due-' || n, f.id, 'interval', '{"hours": 1}', now() - interval '1 second',
                      now() - interval '2 seconds', now() - interval '1 hour 1 second'
               FROM task_functions f JOIN projects p ON p.tenant_id = f.tenant_id, generate_series(1, 3) AS n
               WHERE f.name = 'noop'"#,
        )
        .await;
    leader
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_disabled_for_what_any_job_is_refused() {
    let leader = three_due().await;
    leader
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'nothing goes'; END $$;
             CREATE TRIGGER refuses BEFORE INSERT ON job_dispatch EXECUTE FUNCTION refuse()",
        )
        .await;
    let mut task = dispatch(&leader);
    for _ in 0..3 {
        let error = sched_runtime::exit::describe(task.run_once().await.unwrap_err().as_ref());
        assert!(error.contains("nothing goes"), "{error}");
    }
    assert_eq!((leader.number(DISABLED).await, leader.number(DISPATCHED).await), (0, 0));
    leader.sql("DROP TRIGGER refuses ON job_dispatch").await;
    run(&mut task).await;
    assert_eq!((leader.number(DISABLED).await, leader.number(DISPATCHED).await), (0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn lacking_right_is_no_outage_and_disables_nothing() {
    let leader = three_due().await;
    let denied = |which: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION deny() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF {which} THEN
                     RAISE insufficient_privilege USING MESSAGE = 'permission denied for table ledger';
                 END IF;
                 RETURN NEW;
             END $$"
        )
    };
    leader.sql(&denied("true")).await;
    leader
        .sql("CREATE TRIGGER denies BEFORE INSERT ON job_dispatch FOR EACH ROW EXECUTE FUNCTION deny()")
        .await;
    let mut task = dispatch(&leader);
    for _ in 0..2 {
        let error = sched_runtime::exit::describe(task.run_once().await.unwrap_err().as_ref());
        assert!(error.contains("lacks a right") && error.contains("for table ledger"), "{error}");
        assert_eq!((leader.number(DISABLED).await, leader.number(DISPATCHED).await), (0, 0));
    }
    // A trigger that denies one job disables it. The job is due first, so the trial of another finds
    // room.
    leader
        .sql(
            "INSERT INTO queues (tenant_id, name) SELECT tenant_id, 'narrow' FROM queues WHERE name = 'default';
             UPDATE scheduled_jobs SET queue = 'narrow', next_run_at = next_run_at - interval '0.5 s' WHERE name = 'due-2'",
        )
        .await;
    leader.sql(&denied("NEW.queue = 'narrow'")).await;
    run(&mut task).await;
    assert_eq!((leader.number(DISABLED).await, leader.number(DISPATCHED).await), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_job_that_is_refused_is_disabled_although_nothing_else_is_due() {
    let leader = three_due().await;
    leader
        .sql(
            "ALTER TABLE job_dispatch ADD CONSTRAINT refuses_one CHECK (queue <> 'narrow') NOT VALID;
             INSERT INTO queues (tenant_id, name) SELECT tenant_id, 'narrow' FROM queues WHERE name = 'default';
             UPDATE scheduled_jobs SET queue = 'narrow' WHERE name = 'due-2';
             UPDATE scheduled_jobs SET next_run_at = now() + interval '1 hour' WHERE name IN ('due-1', 'due-3')",
        )
        .await;
    let report = run(&mut dispatch(&leader)).await;
    assert_eq!(
        (&report.counts["disabled"], &report.counts["dispatched"]),
        (&1.into(), &0.into()),
        "{report:?}"
    );
    let disabled =
        "SELECT name FROM scheduled_jobs WHERE NOT is_enabled AND disabled_reason LIKE '%refuses_one%'";
    assert_eq!(leader.records(disabled).await, ["(due-2)"]);
    assert_eq!((leader.number(DISABLED).await, leader.number(DISPATCHED).await), (1, 0));
    let moved = "SELECT count(*) FROM scheduled_jobs WHERE name IN ('due-1', 'due-3') AND (fired_count > 0 OR last_fire_at IS NOT NULL)";
    assert_eq!(leader.number(moved).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_that_are_refused_alike_do_not_keep_the_others_from_firing() {
    let leader = three_due().await;
    leader
        .sql(
            r#"ALTER TABLE job_dispatch ADD CONSTRAINT refuses_some CHECK (queue <> 'narrow') NOT VALID;
               INSERT INTO queues (tenant_id, name) SELECT tenant_id, 'narrow' FROM queues WHERE name = 'default';
               INSERT INTO scheduled_jobs (tenant_id, project_id, name, task_function_id, queue, job_type, schedule_config, next_run_at,
                                           settled_until, created_at)
               SELECT j.tenant_id, j.project_id, 'bad-' || n, j.task_function_id, 'narrow', 'interval', '{"hours": 1}',
                      j.next_run_at - interval '1 minute', j.settled_until - interval '2 minutes', j.created_at - interval '1 minute'
               FROM scheduled_jobs j, generate_series(1, 29) AS n WHERE j.name = 'due-1'"#,
        )
        .await;
    run(&mut dispatch(&leader)).await;
    assert_eq!((leader.number(DISABLED).await, leader.number(DISPATCHED).await), (29, 3));
}

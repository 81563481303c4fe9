//! The steps of the task: crashes, late commits, pages and failed statements.

use sched_model::events::notifications::follow::{self, Limits, StepSettings};
use sched_model::{Conn, DbError, dispatching::tick, transact};
use sched_runtime::driver::Activation;
use sched_scheduler::tasks::notify::Notify;
use test_support::wait_for;

use super::{LIMITS, PATIENCE, ends, leader, messages, rule, settle, settle_with};
use crate::leader::{assert_refused, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_in_the_middle_loses_nothing_and_tells_nothing_twice() {
    let leader = leader().await;
    rule(&leader, "bad", "failure", ("", "")).await;
    for _ in 0..5 {
        ends(&leader, "nightly", "FAILED").await;
    }
    // The task reads only settled events.
    let settled = "SELECT count(*) FROM event_positions WHERE transaction_id >= pg_snapshot_xmin(pg_current_snapshot())";
    wait_for("the events to settle", PATIENCE, async || match leader.number(settled).await {
        0 => Ok(()),
        open => Err(format!("{open} are open")),
    })
    .await;
    let mut conn = leader.conn().await;
    let scope = leader.scope.clone();
    let step = async |conn: &mut Conn| {
        tick::fence(conn, scope.instance, scope.term).await?;
        let work = follow::pending_work(conn).await?;
        follow::step(conn, work, StepSettings { limits: LIMITS, ignored: &[], public_url: None }).await
    };
    // The process dies just before the commit.
    let died: Result<(), DbError> = transact(&mut conn, "test", async |conn: &mut Conn| {
        assert!(step(conn).await?.is_full, "the first step finds where to begin");
        assert_eq!(step(conn).await?.deliveries, 5);
        Err(DbError::NotFound)
    })
    .await;
    assert!(died.is_err());
    assert_eq!(messages(&leader).await, Vec::<String>::new());
    settle(&leader).await;
    assert_eq!(messages(&leader).await.len(), 5);
    // A former leader that has not noticed the end of its term.
    ends(&leader, "nightly", "FAILED").await;
    assert_refused(&Notify::new(leader.deposed()).run_once().await);
    settle(&leader).await;
    assert_eq!(messages(&leader).await.len(), 6);
    // After a loss of the position, no event creates a second delivery.
    leader.sql("UPDATE notification_cursor SET transaction_id = 0, event_id = 0").await;
    settle(&leader).await;
    assert_eq!(messages(&leader).await.len(), 6);
    let distinct = "SELECT count(DISTINCT (event_transaction_id, event_id)) FROM notification_deliveries";
    assert_eq!(leader.number(distinct).await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_transaction_that_commits_late_is_told_all_the_same() {
    let leader = leader().await;
    rule(&leader, "bad", "failure", ("", "")).await;
    settle(&leader).await;
    leader.sql("BEGIN").await;
    ends(&leader, "nightly", "FAILED").await;
    let late = leader.client().await;
    late.batch_execute(
        "INSERT INTO events (tenant_id, job_id, event_type, payload)
         SELECT tenant_id, id, 'schedule_execution_completed', '{\"dispatch_status\": \"FAILED\"}' FROM scheduled_jobs WHERE name = 'hourly'",
    )
    .await
    .unwrap();
    run(&mut Notify::new(leader.scope.clone())).await;
    leader.sql("COMMIT").await;
    settle(&leader).await;
    assert_eq!(messages(&leader).await, ["(bad,failure,nightly)", "(bad,failure,hourly)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_at_a_time_reads_everything_once() {
    let leader = leader().await;
    rule(&leader, "bad", "failure", ("", "")).await;
    for _ in 0..7 {
        ends(&leader, "nightly", "FAILED").await;
        ends(&leader, "nightly", "COMPLETED").await;
    }
    let mut task = Notify::with_limits(leader.scope.clone(), Limits { events: 3, dispatches: 100, room: 2 });
    settle_with(&leader, &mut task).await;
    assert_eq!(messages(&leader).await.len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rules_the_position_follows_at_a_distance_and_costs_nothing_in_between() {
    let leader = leader().await;
    ends(&leader, "nightly", "FAILED").await;
    let mut task = Notify::new(leader.scope.clone());
    run(&mut task).await;
    let cursor = "SELECT transaction_id FROM notification_cursor";
    let first = leader.records(cursor).await;
    ends(&leader, "nightly", "FAILED").await;
    run(&mut task).await;
    assert_eq!(leader.records(cursor).await, first);
    leader.sql("UPDATE notification_cursor SET moved_at = moved_at - interval '2 minutes'").await;
    wait_for("the position to follow", PATIENCE, async || {
        leader.sql("UPDATE notification_cursor SET moved_at = moved_at - interval '2 minutes'").await;
        run(&mut task).await;
        if leader.records(cursor).await == first { Err("it stands".to_owned()) } else { Ok(()) }
    })
    .await;
    assert_eq!(messages(&leader).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_for_one_step_is_told_in_smaller_ones() {
    let leader = leader().await;
    rule(&leader, "bad", "failure", ("", "")).await;
    leader
        .sql(
            "CREATE FUNCTION refuse_many() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF (SELECT count(*) FROM written) > 2 THEN RAISE EXCEPTION 'too many'; END IF;
                 RETURN NULL;
             END $$;
             CREATE TRIGGER refuse_many AFTER INSERT ON notification_deliveries
                 REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION refuse_many()",
        )
        .await;
    for _ in 0..9 {
        ends(&leader, "nightly", "FAILED").await;
    }
    let mut task = Notify::with_limits(leader.scope.clone(), Limits { events: 16, ..LIMITS });
    let mut failed = 0;
    wait_for("all messages exist", PATIENCE, async || {
        failed += u32::from(task.run_once().await.is_err());
        match leader.number("SELECT count(*) FROM notification_deliveries").await {
            9 => Ok(()),
            told => Err(format!("{told} are told")),
        }
    })
    .await;
    assert!(failed >= 2, "{failed} steps failed");
}

//! The life of a delivery: its run, its results, its removal.

use sched_model::events::notifications::follow::{self, Limits};
use sched_runtime::driver::Activation;
use sched_scheduler::tasks::notify::Notify;

use super::{LIMITS, ends, leader, messages, rule, settle, settle_with};
use crate::leader::{assert_refused, run};

#[tokio::test(flavor = "multi_thread")]
async fn messages_get_dispatches_as_there_is_room_and_their_fates_are_noted() {
    let leader = leader().await;
    rule(&leader, "bad", "failure", ("", "")).await;
    for _ in 0..3 {
        ends(&leader, "nightly", "FAILED").await;
    }
    let limits = Limits { room: 2, ..LIMITS };
    let mut task = Notify::with_limits(leader.scope.clone(), limits);
    settle_with(&leader, &mut task).await;
    let status = "SELECT status, dispatch_id IS NOT NULL FROM notification_deliveries ORDER BY id";
    let mut statuses = leader.records(status).await;
    statuses.sort();
    assert_eq!(statuses, ["(sending,t)", "(sending,t)", "(waiting,f)"]);
    let dispatches = "SELECT d.queue, d.triggered_by, d.status, j.name, d.args ->> 'delivery' = m.id::text
                      FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id
                      JOIN notification_deliveries m ON m.dispatch_id = d.id";
    let made = "(system,api,PENDING,sched.notify,t)";
    assert_eq!(leader.records(dispatches).await, [made, made]);
    assert_eq!(
        leader.records("SELECT active_dispatches FROM scheduled_jobs WHERE name = 'sched.notify'").await,
        ["(2)"]
    );
    assert_eq!(leader.number("SELECT count(*) FROM tenant_usage").await, 0, "no quota counts them");

    // The first delivery is retried, then fails permanently; the second succeeds.
    let fate = async |number: i64, status: &str, attempt: i32| {
        leader
            .sql(&format!(
                "INSERT INTO events (tenant_id, job_id, dispatch_id, event_type, payload)
                 SELECT d.tenant_id, d.job_id, d.id, 'schedule_execution_completed',
                        jsonb_build_object('dispatch_status', '{status}', 'attempt', {attempt}, 'error', 'no answer', 'error_class', 'unreachable')
                 FROM job_dispatch d ORDER BY d.id OFFSET {number} LIMIT 1"
            ))
            .await;
        settle_with(&leader, &mut Notify::with_limits(leader.scope.clone(), limits)).await;
    };
    let fates = "SELECT m.status, m.attempts, m.error_class, m.error_message
                 FROM notification_deliveries m JOIN job_dispatch d ON d.id = m.dispatch_id ORDER BY d.id LIMIT 2";
    fate(0, "PENDING", 1).await;
    assert_eq!(leader.records(fates).await[0], "(sending,1,unreachable,\"no answer\")");
    fate(0, "DEAD_LETTER", 2).await;
    assert_eq!(leader.records(fates).await[0], "(failed,2,unreachable,\"no answer\")");
    fate(1, "COMPLETED", 1).await;
    assert_eq!(leader.records(fates).await[1], "(sent,1,,)");
    settle(&leader).await;
    assert_eq!(
        leader.records("SELECT count(*) FROM notification_deliveries WHERE status = 'sending'").await,
        ["(1)"]
    );
    assert_eq!(messages(&leader).await.len(), 3, "a failed delivery causes no message");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_messages_go_and_those_that_are_not_over_stay() {
    let leader = leader().await;
    leader
        .sql(
            "INSERT INTO notification_deliveries (tenant_id, id, channel_id, channel_name, kind, body, status, dispatch_id, created_at)
             SELECT tenant_id, gen_random_uuid(), id, name, 'test', '{}', s.status,
                    CASE WHEN s.status <> 'waiting' THEN gen_random_uuid() END, now() - s.age
             FROM notification_channels,
                  (VALUES ('sent', interval '40 days'), ('failed', interval '40 days'), ('waiting', interval '40 days'),
                          ('sending', interval '40 days'), ('sent', interval '20 days')) AS s (status, age)",
        )
        .await;
    let mut conn = leader.conn().await;
    let cutoff =
        sched_model::connection::database_clock::now(&conn).await.unwrap() - chrono::TimeDelta::days(30);
    assert_eq!(follow::prune(&mut conn, cutoff, 1).await.unwrap(), 1);
    assert_eq!(follow::prune(&mut conn, cutoff, 10).await.unwrap(), 1);
    assert_eq!(follow::prune(&mut conn, cutoff, 10).await.unwrap(), 0);
    assert_eq!(leader.number("SELECT count(*) FROM notification_deliveries").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_too_long_is_given_up_and_ends_that_the_stream_passed_over_are_found() {
    let leader = leader().await;
    rule(&leader, "bad", "failure", ("", "")).await;
    for _ in 0..5 {
        ends(&leader, "nightly", "FAILED").await;
    }
    let full = Limits { room: 4, ..LIMITS };
    settle_with(&leader, &mut Notify::with_limits(leader.scope.clone(), full)).await;
    // The fifth delivery waits. The stream has no event of these ends.
    leader
        .sql(
            "WITH numbered AS (SELECT id, row_number() OVER (ORDER BY id) AS number FROM job_dispatch),
             gone AS (DELETE FROM job_dispatch d USING numbered n WHERE d.id = n.id AND n.number = 3)
             UPDATE job_dispatch d
             SET status = CASE n.number WHEN 1 THEN 'COMPLETED' ELSE 'FAILED' END, attempt = 1, completed_at = now(),
                 claimable_at = NULL
             FROM numbered n WHERE d.id = n.id AND n.number < 3",
        )
        .await;
    let messages =
        "SELECT status, attempts, error_class FROM notification_deliveries ORDER BY dispatch_id, id";
    let before = leader.records(messages).await;
    run(&mut Notify::with_limits(leader.scope.clone(), full)).await;
    assert_eq!(leader.records(messages).await, before, "the stream may still report the ends");
    leader
        .sql(
            "UPDATE notification_deliveries
             SET updated_at = updated_at - interval '11 minutes', created_at = created_at - interval '25 hours'",
        )
        .await;
    assert_refused(&Notify::new(leader.deposed()).run_once().await);
    assert_eq!(leader.records(messages).await, before);
    run(&mut Notify::with_limits(leader.scope.clone(), Limits { room: 0, ..LIMITS })).await;
    assert_eq!(
        leader.records(messages).await,
        ["(sent,1,)", "(failed,1,failed)", "(failed,0,lost)", "(sending,0,)", "(failed,0,expired)"]
    );
    leader
        .sql(
            "UPDATE job_dispatch SET args = args || (SELECT jsonb_build_object('delivery', id) FROM notification_deliveries
                                                     WHERE error_class = 'expired')
             WHERE id = (SELECT id FROM job_dispatch ORDER BY id DESC LIMIT 1)",
        )
        .await;
    for (dispatch_status, shown) in [("PENDING", "(sending,t)"), ("COMPLETED", "(sent,t)")] {
        leader
            .sql(&format!(
                "INSERT INTO events (tenant_id, job_id, dispatch_id, event_type, payload)
                 SELECT tenant_id, job_id, id, 'schedule_execution_completed',
                        '{{\"dispatch_status\": \"{dispatch_status}\", \"attempt\": 1}}'
                 FROM job_dispatch ORDER BY id DESC LIMIT 1"
            ))
            .await;
        settle_with(&leader, &mut Notify::with_limits(leader.scope.clone(), full)).await;
        let by_hand = "SELECT m.status, m.dispatch_id = d.id FROM notification_deliveries m
                       JOIN job_dispatch d ON d.args ->> 'delivery' = m.id::text ORDER BY d.id DESC LIMIT 1";
        assert_eq!(leader.records(by_hand).await, [shown]);
    }
}

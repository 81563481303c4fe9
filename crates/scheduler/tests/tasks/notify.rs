//! Rules create each delivery once and for the right channel, even if the leader dies in between.

use sched_model::events::notifications::follow::{self, Limits};
use sched_model::{Conn, DbError, definitions::built_in, dispatching::tick, transact};
use sched_runtime::driver::Activation;
use sched_scheduler::tasks::notify::Notify;

use test_support::wait_for;

use crate::fixture::{World, assert_refused, run};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

const LIMITS: Limits = Limits { events: 1_000, dispatches: 100, room: 8 };

/// A world with the built-in jobs, the job `nightly` in the project of the migrations, and a
/// channel.
async fn world() -> World {
    let world = World::new().await;
    built_in::install(&mut world.conn().await).await.unwrap();
    world.job("nightly", 0).await;
    world.job("hourly", 0).await;
    world
        .sql(
            "INSERT INTO notification_channels (tenant_id, name, kind, url)
             SELECT id, 'ops', 'webhook', 'https://example.com/' FROM tenants",
        )
        .await;
    world
}

/// Creates a rule for these event kinds, with additional columns and their values.
async fn rule(world: &World, name: &str, kinds: &str, more: (&str, &str)) {
    let (columns, values) = more;
    world
        .sql(&format!(
            "INSERT INTO notification_rules (tenant_id, name, channel_id, kinds{columns})
             SELECT c.tenant_id, '{name}', c.id, '{{{kinds}}}'{values} FROM notification_channels c WHERE c.name = 'ops'"
        ))
        .await;
}

/// Inserts an event of a job.
async fn happens(world: &World, job: &str, event_type: &str, payload: &str) {
    world
        .sql(&format!(
            "INSERT INTO events (tenant_id, project_id, job_id, event_type, payload)
             SELECT tenant_id, project_id, id, '{event_type}', '{payload}' FROM scheduled_jobs WHERE name = '{job}'"
        ))
        .await;
}

/// Inserts the end of an attempt, with the status of its run after it.
async fn ends(world: &World, job: &str, dispatch_status: &str) {
    let payload = format!(
        r#"{{"job_name": "{job}", "attempt": 2, "dispatch_status": "{dispatch_status}", "error": "exit code 3", "error_class": "exit_code"}}"#
    );
    happens(world, job, "schedule_execution_completed", &payload).await;
}

/// The deliveries so far: rule, kind, job.
async fn told(world: &World) -> Vec<String> {
    world
        .rows("SELECT rule_name, kind, body ->> 'job' FROM notification_deliveries ORDER BY event_transaction_id, event_id, rule_name")
        .await
}

/// Runs the task until it has read all existing events. Transactions of other tests on the same
/// server delay it, as transactions in other databases do for a while.
async fn settle_with(world: &World, task: &mut Notify) {
    let unread = "SELECT count(*) FROM events e, notification_cursor c
                  WHERE (e.transaction_id, e.id) > (c.transaction_id::text::xid8, c.event_id)";
    wait_for("the events to be read", PATIENCE, async || {
        run(task).await;
        let unread = world.number(unread).await;
        if unread == 0 { Ok(()) } else { Err(format!("{unread} are left")) }
    })
    .await;
    run(task).await;
}

async fn settle(world: &World) {
    settle_with(world, &mut Notify::new(world.scope.clone())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_occasion_is_told_by_the_rules_that_ask_for_it() {
    let world = world().await;
    rule(&world, "all", "failure,dead_letter,missed,recovery", ("", "")).await;
    rule(&world, "bad", "failure", ("", "")).await;
    rule(&world, "dead", "dead_letter", ("", "")).await;
    ends(&world, "nightly", "COMPLETED").await;
    ends(&world, "nightly", "PENDING").await;
    settle(&world).await;
    assert_eq!(told(&world).await, Vec::<String>::new(), "neither a success nor what is tried again");

    ends(&world, "nightly", "FAILED").await;
    ends(&world, "hourly", "DEAD_LETTER").await;
    ends(&world, "hourly", "CANCELLED").await;
    settle(&world).await;
    let failures = [
        "(all,failure,nightly)",
        "(bad,failure,nightly)",
        "(all,dead_letter,hourly)",
        "(bad,failure,hourly)",
    ];
    let mut expected: Vec<&str> = failures.to_vec();
    expected.push("(dead,dead_letter,hourly)");
    assert_eq!(told(&world).await, expected);

    happens(&world, "nightly", "schedule_execution_lost", r#"{"dispatch_status": "TIMEOUT"}"#).await;
    happens(&world, "nightly", "run_missed", r#"{"first_fire_at": "2026-01-01T00:00:00Z", "fire_count": 3}"#)
        .await;
    happens(&world, "hourly", "dispatch_expired", r#"{"reason": "nobody began it"}"#).await;
    settle(&world).await;
    expected.extend([
        "(all,failure,nightly)",
        "(bad,failure,nightly)",
        "(all,missed,nightly)",
        "(all,missed,hourly)",
    ]);
    assert_eq!(told(&world).await, expected);

    // Only the first success after a failure is a recovery. A cancelled run in between is not a
    // recovery.
    ends(&world, "nightly", "CANCELLED").await;
    ends(&world, "nightly", "COMPLETED").await;
    ends(&world, "nightly", "COMPLETED").await;
    ends(&world, "hourly", "COMPLETED").await;
    settle(&world).await;
    expected.extend(["(all,recovery,nightly)", "(all,recovery,hourly)"]);
    assert_eq!(told(&world).await, expected);

    // A job disabled by the scheduler counts as a failure; a job disabled by a user does not.
    happens(&world, "nightly", "job_disabled", r#"{"job_name": "nightly", "reason": "no such zone"}"#).await;
    happens(&world, "hourly", "job_disabled", r#"{"job_name": "hourly", "reason": null, "by": "ann"}"#).await;
    settle(&world).await;
    ends(&world, "nightly", "COMPLETED").await;
    ends(&world, "hourly", "COMPLETED").await;
    settle(&world).await;
    expected.extend(["(all,failure,nightly)", "(bad,failure,nightly)", "(all,recovery,nightly)"]);
    assert_eq!(told(&world).await, expected);
    let why = "SELECT DISTINCT body ->> 'error' FROM notification_deliveries WHERE body ->> 'error' LIKE 'no such%'";
    assert_eq!(world.rows(why).await, ["(\"no such zone\")"]);

    let body = "SELECT body ->> 'type', body ->> 'tenant', body ->> 'status', body ->> 'attempt', body ->> 'error', body ->> 'held_back',
                       body ->> 'id' = id::text, body ->> 'rule', body ? 'project', body ->> 'job_id' = job_id::text
                FROM notification_deliveries WHERE rule_name = 'bad' ORDER BY event_id LIMIT 1";
    assert_eq!(world.rows(body).await, ["(failure,default,FAILED,2,\"exit code 3\",0,t,bad,t,t)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_about_its_job_its_project_and_what_happens_while_it_is_active() {
    let world = world().await;
    ends(&world, "nightly", "FAILED").await;
    let of_job = "(SELECT id FROM scheduled_jobs WHERE name = 'hourly')";
    rule(&world, "job", "failure", (", job_id", &format!(", {of_job}"))).await;
    rule(&world, "project", "failure", (", project_id", ", (SELECT id FROM projects)")).await;
    world
        .sql("INSERT INTO projects (tenant_id, name, display_name) SELECT id, 'other', 'Other' FROM tenants")
        .await;
    let other = "(SELECT id FROM projects WHERE name = 'other')";
    rule(&world, "other", "failure", (", project_id", &format!(", {other}"))).await;
    rule(&world, "off", "failure", (", is_active", ", false")).await;
    rule(&world, "later", "failure", (", active_since", ", now() + interval '1 hour'")).await;
    ends(&world, "hourly", "FAILED").await;
    ends(&world, "nightly", "FAILED").await;
    settle(&world).await;
    assert_eq!(
        told(&world).await,
        ["(job,failure,hourly)", "(project,failure,hourly)", "(project,failure,nightly)"],
        "nothing that was before the rules"
    );
    world.sql("UPDATE notification_channels SET is_active = false").await;
    ends(&world, "hourly", "FAILED").await;
    settle(&world).await;
    assert_eq!(told(&world).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_one_tenant_tell_nothing_of_another() {
    let world = world().await;
    world
        .sql(
            "INSERT INTO tenants (slug, name) VALUES ('other', 'Other');
             INSERT INTO notification_channels (tenant_id, name, kind, url)
                 SELECT id, 'theirs', 'webhook', 'https://example.com/' FROM tenants WHERE slug = 'other';
             INSERT INTO notification_rules (tenant_id, name, channel_id, kinds)
                 SELECT tenant_id, 'theirs', id, '{failure}' FROM notification_channels WHERE name = 'theirs'",
        )
        .await;
    rule(&world, "ours", "failure", ("", "")).await;
    ends(&world, "nightly", "FAILED").await;
    settle(&world).await;
    assert_eq!(told(&world).await, ["(ours,failure,nightly)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_back_is_counted_in_the_next_message() {
    let world = world().await;
    rule(&world, "calm", "failure", (", min_interval_seconds", ", 3600")).await;
    for _ in 0..3 {
        ends(&world, "nightly", "FAILED").await;
    }
    ends(&world, "hourly", "FAILED").await;
    settle(&world).await;
    ends(&world, "nightly", "FAILED").await;
    settle(&world).await;
    assert_eq!(told(&world).await, ["(calm,failure,nightly)", "(calm,failure,hourly)"]);
    // One hour passes.
    world.sql("UPDATE notification_holds SET told_at = told_at - interval '1 hour'").await;
    ends(&world, "nightly", "FAILED").await;
    settle(&world).await;
    let counts = "SELECT held_back, body ->> 'held_back' FROM notification_deliveries
                  WHERE body ->> 'job' = 'nightly' ORDER BY event_transaction_id, event_id";
    assert_eq!(world.rows(counts).await, ["(0,0)", "(3,3)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_in_the_middle_loses_nothing_and_tells_nothing_twice() {
    let world = world().await;
    rule(&world, "bad", "failure", ("", "")).await;
    for _ in 0..5 {
        ends(&world, "nightly", "FAILED").await;
    }
    // The task can read only settled events.
    let settled =
        "SELECT count(*) FROM events WHERE transaction_id >= pg_snapshot_xmin(pg_current_snapshot())";
    wait_for("the events to settle", PATIENCE, async || match world.number(settled).await {
        0 => Ok(()),
        open => Err(format!("{open} are open")),
    })
    .await;
    let mut conn = world.conn().await;
    let scope = world.scope.clone();
    let step = async |conn: &mut Conn| {
        tick::fence(conn, scope.instance, scope.term).await?;
        let work = follow::look(conn).await?;
        follow::step(conn, work, &[], LIMITS).await
    };
    // The process dies just before the commit.
    let died: Result<(), DbError> = transact(&mut conn, "test", async |conn: &mut Conn| {
        assert!(step(conn).await?.is_full, "the first step finds where to begin");
        assert_eq!(step(conn).await?.deliveries, 5);
        Err(DbError::NotFound)
    })
    .await;
    assert!(died.is_err());
    assert_eq!(told(&world).await, Vec::<String>::new());
    settle(&world).await;
    assert_eq!(told(&world).await.len(), 5);
    // A former leader that has not noticed the end of its term changes nothing.
    ends(&world, "nightly", "FAILED").await;
    assert_refused(&Notify::new(world.deposed()).run_once().await);
    settle(&world).await;
    assert_eq!(told(&world).await.len(), 6);
    // Even after a loss of the position, no event creates a second delivery.
    world.sql("UPDATE notification_cursor SET transaction_id = 0, event_id = 0").await;
    settle(&world).await;
    assert_eq!(told(&world).await.len(), 6);
    let distinct = "SELECT count(DISTINCT (event_transaction_id, event_id)) FROM notification_deliveries";
    assert_eq!(world.number(distinct).await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_transaction_that_commits_late_is_told_all_the_same() {
    let world = world().await;
    rule(&world, "bad", "failure", ("", "")).await;
    settle(&world).await;
    // This transaction has the lower number and commits later.
    world.sql("BEGIN").await;
    ends(&world, "nightly", "FAILED").await;
    let late = world.another().await;
    late.batch_execute(
        "INSERT INTO events (tenant_id, job_id, event_type, payload)
         SELECT tenant_id, id, 'schedule_execution_completed', '{\"dispatch_status\": \"FAILED\"}' FROM scheduled_jobs WHERE name = 'hourly'",
    )
    .await
    .unwrap();
    run(&mut Notify::new(world.scope.clone())).await;
    world.sql("COMMIT").await;
    settle(&world).await;
    assert_eq!(told(&world).await, ["(bad,failure,nightly)", "(bad,failure,hourly)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_at_a_time_reads_everything_once() {
    let world = world().await;
    rule(&world, "bad", "failure", ("", "")).await;
    for _ in 0..7 {
        ends(&world, "nightly", "FAILED").await;
        ends(&world, "nightly", "COMPLETED").await;
    }
    let mut task = Notify::with_limits(world.scope.clone(), Limits { events: 3, dispatches: 100, room: 2 });
    settle_with(&world, &mut task).await;
    assert_eq!(told(&world).await.len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_get_dispatches_as_there_is_room_and_their_fates_are_noted() {
    let world = world().await;
    rule(&world, "bad", "failure", ("", "")).await;
    for _ in 0..3 {
        ends(&world, "nightly", "FAILED").await;
    }
    let limits = Limits { room: 2, ..LIMITS };
    let mut task = Notify::with_limits(world.scope.clone(), limits);
    settle_with(&world, &mut task).await;
    let status = "SELECT status, dispatch_id IS NOT NULL FROM notification_deliveries ORDER BY id";
    let mut statuses = world.rows(status).await;
    statuses.sort();
    assert_eq!(statuses, ["(sending,t)", "(sending,t)", "(waiting,f)"]);
    let dispatches = "SELECT d.queue, d.triggered_by, d.status, j.name, d.args ->> 'delivery' = m.id::text
                      FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id
                      JOIN notification_deliveries m ON m.dispatch_id = d.id";
    let made = "(system,api,PENDING,sched.notify,t)";
    assert_eq!(world.rows(dispatches).await, [made, made]);
    assert_eq!(
        world.rows("SELECT active_dispatches FROM scheduled_jobs WHERE name = 'sched.notify'").await,
        ["(2)"]
    );
    assert_eq!(world.number("SELECT count(*) FROM tenant_usage").await, 0, "no quota counts them");

    // The first delivery is retried and then fails permanently; the second succeeds.
    let fate = async |number: i64, status: &str, attempt: i32| {
        world
            .sql(&format!(
                "INSERT INTO events (tenant_id, job_id, dispatch_id, event_type, payload)
                 SELECT d.tenant_id, d.job_id, d.id, 'schedule_execution_completed',
                        jsonb_build_object('dispatch_status', '{status}', 'attempt', {attempt}, 'error', 'no answer', 'error_class', 'unreachable')
                 FROM job_dispatch d ORDER BY d.id OFFSET {number} LIMIT 1"
            ))
            .await;
        settle_with(&world, &mut Notify::with_limits(world.scope.clone(), limits)).await;
    };
    let fates = "SELECT m.status, m.attempts, m.error_class, m.error_message
                 FROM notification_deliveries m JOIN job_dispatch d ON d.id = m.dispatch_id ORDER BY d.id LIMIT 2";
    fate(0, "PENDING", 1).await;
    assert_eq!(world.rows(fates).await[0], "(sending,1,unreachable,\"no answer\")");
    fate(0, "DEAD_LETTER", 2).await;
    assert_eq!(world.rows(fates).await[0], "(failed,2,unreachable,\"no answer\")");
    fate(1, "COMPLETED", 1).await;
    assert_eq!(world.rows(fates).await[1], "(sent,1,,)");
    settle(&world).await;
    assert_eq!(
        world.rows("SELECT count(*) FROM notification_deliveries WHERE status = 'sending'").await,
        ["(1)"]
    );
    assert_eq!(told(&world).await.len(), 3, "what fails to be told is not told");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rules_the_position_follows_at_a_distance_and_costs_nothing_in_between() {
    let world = world().await;
    ends(&world, "nightly", "FAILED").await;
    let mut task = Notify::new(world.scope.clone());
    run(&mut task).await;
    let cursor = "SELECT transaction_id FROM notification_cursor";
    let first = world.rows(cursor).await;
    ends(&world, "nightly", "FAILED").await;
    run(&mut task).await;
    assert_eq!(world.rows(cursor).await, first);
    world.sql("UPDATE notification_cursor SET moved_at = moved_at - interval '2 minutes'").await;
    wait_for("the position to follow", PATIENCE, async || {
        world.sql("UPDATE notification_cursor SET moved_at = moved_at - interval '2 minutes'").await;
        run(&mut task).await;
        if world.rows(cursor).await == first { Err("it stands".to_owned()) } else { Ok(()) }
    })
    .await;
    assert_eq!(told(&world).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn old_messages_go_and_those_that_are_not_over_stay() {
    let world = world().await;
    world
        .sql(
            "INSERT INTO notification_deliveries (tenant_id, id, channel_id, channel_name, kind, body, status, dispatch_id, created_at)
             SELECT tenant_id, gen_random_uuid(), id, name, 'test', '{}', s.status,
                    CASE WHEN s.status <> 'waiting' THEN gen_random_uuid() END, now() - s.age
             FROM notification_channels,
                  (VALUES ('sent', interval '40 days'), ('failed', interval '40 days'), ('waiting', interval '40 days'),
                          ('sending', interval '40 days'), ('sent', interval '20 days')) AS s (status, age)",
        )
        .await;
    let mut conn = world.conn().await;
    let cutoff =
        sched_model::connection::database_clock::now(&conn).await.unwrap() - chrono::TimeDelta::days(30);
    assert_eq!(follow::prune(&mut conn, cutoff, 1).await.unwrap(), 1);
    assert_eq!(follow::prune(&mut conn, cutoff, 10).await.unwrap(), 1);
    assert_eq!(follow::prune(&mut conn, cutoff, 10).await.unwrap(), 0);
    assert_eq!(world.number("SELECT count(*) FROM notification_deliveries").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_too_long_is_given_up_and_ends_that_the_stream_passed_over_are_found() {
    let world = world().await;
    rule(&world, "bad", "failure", ("", "")).await;
    for _ in 0..5 {
        ends(&world, "nightly", "FAILED").await;
    }
    let full = Limits { room: 4, ..LIMITS };
    settle_with(&world, &mut Notify::with_limits(world.scope.clone(), full)).await;
    // Of the four dispatched deliveries, one run succeeded, one failed, one was deleted, and one
    // continues. The fifth delivery waits. The stream has no event of these ends.
    world
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
    let before = world.rows(messages).await;
    run(&mut Notify::with_limits(world.scope.clone(), full)).await;
    assert_eq!(world.rows(messages).await, before, "the stream may tell yet");
    world
        .sql(
            "UPDATE notification_deliveries
             SET updated_at = updated_at - interval '11 minutes', created_at = created_at - interval '25 hours'",
        )
        .await;
    assert_refused(&Notify::new(world.deposed()).run_once().await);
    assert_eq!(world.rows(messages).await, before);
    run(&mut Notify::with_limits(world.scope.clone(), Limits { room: 0, ..LIMITS })).await;
    assert_eq!(
        world.rows(messages).await,
        ["(sent,1,)", "(failed,1,failed)", "(failed,0,lost)", "(sending,0,)", "(failed,0,expired)"]
    );
    // A user sends the expired delivery again with a separate run.
    world
        .sql(
            "UPDATE job_dispatch SET args = args || (SELECT jsonb_build_object('delivery', id) FROM notification_deliveries
                                                     WHERE error_class = 'expired')
             WHERE id = (SELECT id FROM job_dispatch ORDER BY id DESC LIMIT 1)",
        )
        .await;
    for (dispatch_status, shown) in [("PENDING", "(sending,t)"), ("COMPLETED", "(sent,t)")] {
        world
            .sql(&format!(
                "INSERT INTO events (tenant_id, job_id, dispatch_id, event_type, payload)
                 SELECT tenant_id, job_id, id, 'schedule_execution_completed',
                        '{{\"dispatch_status\": \"{dispatch_status}\", \"attempt\": 1}}'
                 FROM job_dispatch ORDER BY id DESC LIMIT 1"
            ))
            .await;
        settle_with(&world, &mut Notify::with_limits(world.scope.clone(), full)).await;
        let by_hand = "SELECT m.status, m.dispatch_id = d.id FROM notification_deliveries m
                       JOIN job_dispatch d ON d.args ->> 'delivery' = m.id::text ORDER BY d.id DESC LIMIT 1";
        assert_eq!(world.rows(by_hand).await, [shown]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_for_one_step_is_told_in_smaller_ones() {
    let world = world().await;
    rule(&world, "bad", "failure", ("", "")).await;
    world
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
        ends(&world, "nightly", "FAILED").await;
    }
    let mut task = Notify::with_limits(world.scope.clone(), Limits { events: 16, ..LIMITS });
    let mut failed = 0;
    wait_for("everything to be told", PATIENCE, async || {
        failed += u32::from(task.run_once().await.is_err());
        match world.number("SELECT count(*) FROM notification_deliveries").await {
            9 => Ok(()),
            told => Err(format!("{told} are told")),
        }
    })
    .await;
    assert!(failed >= 2, "{failed} steps failed");
}

//! The operators' views: content, documentation and cost.

use std::path::Path;

use sched_model::recovery::dead_workers;
use test_support::fixture::{Fixture, QUEUE, TENANT};

use crate::recovery::dead_workers::{expire, silence};
use crate::recovery::overdue;
use crate::running::waiting::{serve, unserved};

const ID_AT: &str = "(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
                      || substr(md5(n::text), 4, 15))::uuid";

async fn lease(world: &Fixture) {
    world.sql("UPDATE worker_registration SET lease_ms = 30000").await;
}

async fn stuck(world: &Fixture) -> Vec<Vec<String>> {
    world.rows("SELECT reason, max(extract(epoch FROM stuck_for))::bigint FROM stuck_dispatches GROUP BY reason ORDER BY reason").await
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_is_stuck_past_its_limit() {
    // Timeout, grace, and the ages within the limit, past it, and overdue.
    for (timeout, grace, ages) in [(5, 1, [2, 20, 40]), (3_600, 0, [3_500, 3_950, 3_970])] {
        let world = Fixture::new().await;
        let claimed = overdue::running(&world, Some(timeout), Some(grace)).await;
        lease(&world).await;
        let mut age = 0;
        for (wanted, reason) in ages.into_iter().zip([None, Some("past_limit"), Some("overdue")]) {
            overdue::age(&world, wanted - age).await;
            age = wanted;
            let found = stuck(&world).await;
            let reasons: Vec<&str> = found.iter().map(|row| row[0].as_str()).collect();
            assert_eq!(reasons, reason.into_iter().collect::<Vec<_>>(), "at {age} of {timeout}");
            let ids = overdue::ids(&world).await;
            assert_eq!(
                !ids.is_empty(),
                reason == Some("overdue"),
                "the leader disagrees at {age} of {timeout}"
            );
        }
        let past: i64 = stuck(&world).await[0][1].parse().unwrap();
        let limit = i64::from(timeout + grace);
        assert!((age - limit..age - limit + 20).contains(&past), "since {past} seconds");
        let row = world.rows("SELECT dispatch_id, worker_id, job_name, queue, status, attempt, hostname FROM stuck_dispatches").await;
        let (dispatch, worker) =
            (claimed.dispatch_id.to_string(), world.text("SELECT worker_id FROM worker_registration").await);
        assert_eq!(row, [[dispatch.as_str(), worker.as_str(), "slow", QUEUE, "IN_PROGRESS", "1", "test"]]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_without_limits_use_the_default() {
    let world = Fixture::new().await;
    overdue::running(&world, Some(5), None).await;
    lease(&world).await;
    world.sql("UPDATE worker_claims SET limit_seconds = NULL").await;
    overdue::age(&world, 590).await;
    assert!(stuck(&world).await.is_empty());
    overdue::age(&world, 100).await;
    assert_eq!(stuck(&world).await[0][0], "overdue");
    assert_eq!(overdue::ids(&world).await.len(), 1);
    // Claimed again, with an hour; the earlier claim still exists.
    world
        .sql(
            "INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds) SELECT worker_id, dispatch_ids, '{3600}' FROM worker_claims;
             UPDATE job_dispatch SET claimed_at = now()",
        )
        .await;
    assert!(stuck(&world).await.is_empty());
    world.sql("UPDATE job_dispatch SET status = 'COMPLETED', completed_at = now(), claimed_at = now() - interval '1 day'").await;
    assert!(stuck(&world).await.is_empty(), "it has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_silent_worker_are_stuck() {
    let world = Fixture::new().await;
    let claimed = world.running("lost").await;
    lease(&world).await;
    let worker = world.text("SELECT worker_id FROM worker_registration").await.parse().unwrap();
    let worker = sched_model::domain::ids::WorkerId(worker);
    silence(&world, worker, 20).await;
    assert!(stuck(&world).await.is_empty(), "within its lease");
    // From the past and, if clocks were set, from the future.
    for seconds in [40, -40] {
        silence(&world, worker, seconds).await;
        assert_eq!(stuck(&world).await.concat()[0], "worker_silent", "{seconds}");
        let is_silent = world.text("SELECT is_silent FROM worker_utilisation").await;
        assert_eq!(is_silent, "t");
    }
    silence(&world, worker, 40).await;
    assert_eq!(expire(&world).await, [worker]);
    assert_eq!(stuck(&world).await.concat()[0], "worker_offline");
    let lost = dead_workers::lost_attempts(&mut world.conn().await, 10).await.unwrap();
    assert_eq!(lost.iter().map(|lost| lost.dispatch_id).collect::<Vec<_>>(), [claimed.dispatch_id]);
    world.sql("UPDATE job_dispatch SET status = 'PENDING', claimable_at = now()").await;
    assert!(stuck(&world).await.is_empty(), "it waits again, and not for long");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_unserved_queues_are_stuck() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    for queue in ["a", "b", "expired", "later", "line", "new"] {
        world.queue(queue).await;
        world.runs(job.id).queue(queue).count(2).insert().await;
    }
    world
        .sql(
            "UPDATE job_dispatch SET claimable_at = now() + interval '1 hour' WHERE queue = 'later';
             UPDATE job_dispatch SET claimable_at = 'infinity' WHERE queue = 'line';
             UPDATE job_dispatch SET claimable_at = now() WHERE queue = 'new';
             UPDATE job_dispatch SET expires_at = now() - interval '1 second' WHERE queue = 'expired'",
        )
        .await;
    let worker = world.worker().await;
    lease(&world).await;
    let waits = async || {
        let rows = world
            .rows("SELECT DISTINCT queue FROM stuck_dispatches WHERE reason = 'unserved' ORDER BY queue")
            .await;
        rows.concat()
    };
    for (status, stuck) in
        [("IDLE", vec!["a"]), ("BUSY", vec!["a"]), ("DRAINING", vec!["a", "b"]), ("OFFLINE", vec!["a", "b"])]
    {
        serve(&world, worker, "b", status).await;
        assert_eq!(waits().await, stuck, "{status}");
        assert_eq!(unserved(&world).await, stuck, "the leader disagrees while the worker is {status}");
    }
    assert_eq!(stuck(&world).await.concat()[0], "unserved");
    // Only a leader marks workers OFFLINE.
    serve(&world, worker, "b", "IDLE").await;
    silence(&world, worker, 40).await;
    assert_eq!(waits().await, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn utilization_is_the_share_of_busy_slots() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    world.runs(job.id).count(5).insert().await;
    let worker = world.worker().await;
    lease(&world).await;
    let claimed = world.claim(worker, 3).await;
    world
        .sql(&format!(
            "UPDATE job_dispatch SET status = 'COMPLETED', completed_at = now() WHERE id = '{}'",
            claimed[0].dispatch_id
        ))
        .await;
    let seen = "SELECT status, is_silent, concurrency, running, utilisation, claimed, oldest_claimed_at = (SELECT min(claimed_at) FROM job_dispatch WHERE status = 'IN_PROGRESS')
                FROM worker_utilisation";
    world.sql("UPDATE worker_registration SET running = 2, status = 'BUSY'").await;
    assert_eq!(world.rows(seen).await, [["BUSY", "f", "8", "2", "0.250", "2", "t"]]);
    world.sql("UPDATE worker_registration SET running = 11").await;
    assert_eq!(
        world.rows(seen).await,
        [["BUSY", "f", "8", "11", "1.000", "2", "t"]],
        "the worker had claimed more than its slots"
    );
    world.sql("UPDATE worker_registration SET running = 0, status = 'OFFLINE', offline_since = now(), last_heartbeat = now() - interval '1 h'").await;
    assert_eq!(
        world.rows(seen).await,
        [["OFFLINE", "f", "8", "0", "-", "2", "t"]],
        "an offline worker has no slots"
    );
}

/// Attempts that ended alike.
struct Attempts {
    /// The table in which they are.
    log: &'static str,
    status: &'static str,
    /// Minutes since the claim.
    minutes_ago: i64,
    /// Their duration.
    seconds: i64,
    count: i64,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { log: "job_execution_log", status: "COMPLETED", minutes_ago: 9, seconds: 0, count: 1 }
    }
}

async fn insert(world: &Fixture, attempts: Attempts) {
    let Attempts { log, status, minutes_ago, seconds, count } = attempts;
    world
        .sql(&format!(
            "INSERT INTO {log} (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at, duration_ms,
                                claim_token, triggered_by)
             SELECT {ID_AT}, '{TENANT}', gen_random_uuid(), gen_random_uuid(), 1, '{status}', at, at, at + {seconds} * interval '1 s', {seconds} * 1000,
                    n, 'api'
             FROM (SELECT now() - {minutes_ago} * interval '1 min' AS at) AS a, generate_series(1, {count}) AS n"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn throughput_counts_the_last_hour() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    for (minutes_ago, count) in [(2, 3), (50, 4), (61, 100), (5_000, 100)] {
        world
            .sql(&format!(
                "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, created_at, available_at, claimable_at, queue, triggered_by, trigger_id, args)
                 SELECT {ID_AT}, '{TENANT}', '{}', 1, at, at, at, at, '{QUEUE}', 'api', gen_random_uuid(), '{{}}'
                 FROM (SELECT now() - {minutes_ago} * interval '1 min' AS at) AS a, generate_series(1, {count}) AS n",
                job.id
            ))
            .await;
    }
    let some = Attempts::default;
    insert(&world, Attempts { minutes_ago: 10, seconds: 60, count: 2, ..some() }).await;
    insert(&world, some()).await;
    insert(&world, Attempts { log: "maintenance.job_execution_log", ..some() }).await;
    insert(&world, Attempts { status: "TIMEOUT", minutes_ago: 90, seconds: 3_000, ..some() }).await;
    insert(&world, Attempts { minutes_ago: 90, seconds: 60, count: 50, ..some() }).await;
    insert(&world, Attempts { minutes_ago: 5_000, seconds: 60, count: 50, ..some() }).await;
    for status in ["FAILED", "CANCELLED", "LOST", "RELEASED", "EXPIRED"] {
        insert(&world, Attempts { status, minutes_ago: 20, seconds: 1, ..some() }).await;
    }
    let sums = "SELECT sum(dispatched), sum(ended), sum(completed), sum(failed), sum(timed_out), sum(cancelled), sum(lost), sum(released), sum(expired)
                FROM throughput";
    assert_eq!(world.rows(sums).await, [["7", "10", "4", "1", "1", "1", "1", "1", "1"]]);
    // The minute may have changed between the two statements.
    let minute = "SELECT bool_and(t.dispatched = 0 AND t.ended = e.ended AND t.average_ms = round(e.average)), count(*) > 0
                  FROM throughput t
                  JOIN (SELECT date_trunc('minute', completed_at) AS minute, count(*) AS ended, avg(duration_ms) AS average
                        FROM (SELECT completed_at, duration_ms FROM job_execution_log
                              UNION ALL SELECT completed_at, duration_ms FROM maintenance.job_execution_log) AS l GROUP BY 1) AS e
                      ON e.minute = t.minute AND t.dispatched = 0";
    assert_eq!(world.rows(minute).await, [["t", "t"]]);
    let span = "SELECT min(minute) >= now() - interval '1 h' AND max(minute) <= now() FROM throughput";
    assert_eq!(world.text(span).await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_fires_view_excludes_deliberate_skips() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    let missed = "SELECT kind, job_name, fire_count, is_count_exact, dispatch_id IS NULL FROM missed_fires ORDER BY kind";
    assert!(world.rows(missed).await.is_empty());
    for (reason, hours_ago, trigger) in
        [("misfire", 40, "NULL"), ("overlap", 30, "NULL"), ("misfire", 20, "gen_random_uuid()")]
    {
        world
            .sql(&format!(
                "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason, trigger_id)
                 SELECT '{TENANT}', '{}', at, at + interval '2 h', 3, '{reason}', {trigger} FROM (SELECT now() - {hours_ago} * interval '1 h' AS at) AS a",
                job.id
            ))
            .await;
    }
    assert_eq!(world.rows(missed).await, [["misfire", "hourly", "3", "t", "t"]]);
    // Two dead letters, and a run that continued.
    world.runs(job.id).count(3).insert().await;
    world
        .sql(&format!(
            "UPDATE job_dispatch SET status = 'FAILED', claimable_at = NULL, completed_at = now();
             UPDATE job_dispatch SET trigger_id = NULL, triggered_by = 'scheduler', term = 1, scheduler_instance_id = gen_random_uuid()
             WHERE id = (SELECT id FROM job_dispatch LIMIT 1);
             INSERT INTO events (tenant_id, job_id, dispatch_id, event_type)
             SELECT '{TENANT}', '{}', id, CASE WHEN n = 3 THEN 'schedule_execution_completed' ELSE 'dispatch_expired' END
             FROM (SELECT id, row_number() OVER (ORDER BY trigger_id NULLS FIRST) AS n FROM job_dispatch) AS d",
            job.id
        ))
        .await;
    assert_eq!(
        world.rows(missed).await,
        [["expired", "hourly", "1", "t", "f"], ["misfire", "hourly", "3", "t", "t"]]
    );
    let undecided = async |change: &str| {
        world.sql(&format!("UPDATE scheduled_jobs SET {change}")).await;
        world.number("SELECT count(*) FROM missed_fires WHERE kind = 'undecided'").await
    };
    assert_eq!(undecided("next_run_at = now() - interval '50 s'").await, 0, "a tick may take a while");
    assert_eq!(undecided("next_run_at = now() - interval '70 s'").await, 1);
    assert_eq!(undecided("dispatch_lock_until = now() + interval '1 h'").await, 0, "held back");
    assert_eq!(undecided("dispatch_lock_until = NULL, is_enabled = false").await, 0);
}

/// The views that the API reads.
const OF_STREAM: [&str; 4] = ["event_positions", "event_stream", "run_end_events", "run_start_events"];

async fn views(world: &Fixture) -> Vec<String> {
    let names = world
        .rows("SELECT relname FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace ORDER BY relname")
        .await
        .concat();
    assert!(names.len() >= 12, "{names:?}");
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn views_respect_row_security() {
    let world = Fixture::new().await;
    let all = views(&world).await;
    let invoked = "SELECT count(*) FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace AND 'security_invoker=true' = ANY (reloptions)";
    assert_eq!(usize::try_from(world.number(invoked).await).unwrap(), all.len());
    for view in &all {
        let rights = format!(
            "SELECT has_table_privilege('sched_daemon', '{view}', 'SELECT'), has_table_privilege('sched_api', '{view}', 'SELECT')"
        );
        let of_api = if OF_STREAM.contains(&view.as_str()) { "t" } else { "f" };
        assert_eq!(world.rows(&rights).await, [["t", of_api]], "{view}");
        world.sql(&format!("SET ROLE sched_daemon; SELECT * FROM {view}; RESET ROLE")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_is_documented_and_every_example_works() {
    let world = Fixture::new().await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/views.md");
    let text = std::fs::read_to_string(file).unwrap();
    let examples: Vec<&str> =
        text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 5, "{} examples", examples.len());
    for view in views(&world).await {
        assert!(text.contains(&format!("`{view}`")), "docs/reference/views.md does not describe {view}");
        assert!(
            examples.iter().any(|example| example.contains(&format!("FROM {view}"))),
            "docs/reference/views.md has no example of {view}"
        );
    }
    for example in examples {
        world.sql(example).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn current_views_read_no_history() {
    let world = Fixture::new().await;
    let job = world.job("busy").save().await;
    world.queue("unserved").await;
    world
        .sql(&format!(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, created_at, available_at, claimed_at, completed_at, status, attempt, worker_id,
                                       claim_token, queue, triggered_by, trigger_id, args)
             SELECT {ID_AT}, '{TENANT}', '{}', 1, at, at, at, at, at, 'COMPLETED', 1, gen_random_uuid(), n, '{QUEUE}', 'api', gen_random_uuid(), '{{}}'
             FROM (SELECT n, now() - n * interval '1 min' AS at FROM generate_series(1, 30000) AS n) AS a;
             INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at, duration_ms,
                                            claim_token, triggered_by)
             SELECT id, tenant_id, job_id, id, 1, 'COMPLETED', scheduled_for, now(), now(), 1, claim_token, 'api' FROM job_dispatch;
             INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason)
             SELECT tenant_id, job_id, scheduled_for, scheduled_for, 1, 'overlap' FROM job_dispatch;
             INSERT INTO events (tenant_id, job_id, dispatch_id, event_type)
             SELECT tenant_id, job_id, id, 'dispatch_cancelled' FROM job_dispatch;",
            job.id
        ))
        .await;
    world.runs(job.id).count(100).insert().await;
    world.runs(job.id).queue("unserved").count(100).insert().await;
    let worker = world.worker().await;
    assert_eq!(world.claim(worker, 8).await.len(), 8);
    world.sql("ANALYZE; SET ROLE sched_daemon").await;
    let month = world.text("SELECT to_char(now() AT TIME ZONE 'UTC', '\"y\"YYYY\"m\"MM')").await;
    for view in [
        "stuck_dispatches",
        "unserved_dispatches",
        "running_dispatches",
        "queue_depth",
        "worker_utilisation",
        "throughput",
        "missed_fires",
    ] {
        let plan = world.rows(&format!("EXPLAIN (VERBOSE) SELECT * FROM {view}")).await.concat().join("\n");
        for table in [
            "job_dispatch",
            "skipped_fires",
            &format!("job_execution_log_{month}"),
            &format!("events_{month}"),
        ] {
            assert!(
                !plan.contains(&format!("Seq Scan on public.{table} ")),
                "{view} reads all of {table}:\n{plan}"
            );
        }
        assert!(plan.contains("Index"), "{view}:\n{plan}");
    }
}

//! Retention: keeps the ledger provable, and blocks no transaction.

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::ids::JobId;
use sched_model::domain::retention::{Cutoffs, Retention};
use sched_model::retention::retain::{self, DeletedRows, Strays};
use sched_model::{Conn, DbError, connection::database_clock, dispatching::tick, transact};
use test_support::fixture::{BEGIN, Fixture, QUEUE, TENANT};
use uuid::Uuid;

use crate::dispatching::tick::make_due;

const RETENTION: Retention = Retention { finished_days: 30, dead_letter_days: 90, audit_days: 365 };

const ID_AT: &str = "(lpad(to_hex((extract(epoch FROM r.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
                      || '8' || substr(md5(random()::text), 1, 15))::uuid";

async fn records(world: &Fixture, job: JobId, ages_hours: &[i32], status: &str) {
    let ages: Vec<String> = ages_hours.iter().map(ToString::to_string).collect();
    let is_open = status == "PENDING";
    world
        .sql(&format!(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, created_at, available_at, claimable_at, completed_at,
                                       status, queue, triggered_by, scheduler_instance_id, term, args)
             SELECT {ID_AT}, '{TENANT}', '{job}', 1, r.at, r.at, r.at, CASE WHEN {is_open} THEN r.at END,
                    CASE WHEN NOT {is_open} THEN r.at + interval '1 minute' END, '{status}', '{QUEUE}', 'scheduler',
                    gen_random_uuid(), 1, '{{}}'
             FROM (SELECT now() - a * interval '1 hour' AS at FROM unnest(ARRAY[{}]) AS a) AS r;
             UPDATE scheduled_jobs SET active_dispatches = active_dispatches + {} WHERE id = '{job}'",
            ages.join(", "),
            if is_open { ages.len() } else { 0 },
        ))
        .await;
}

async fn skips(world: &Fixture, job: JobId, ages_hours: &[i32]) {
    let ages: Vec<String> = ages_hours.iter().map(ToString::to_string).collect();
    world
        .sql(&format!(
            "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason, recorded_at)
             SELECT '{TENANT}', '{job}', now() - a * interval '1 hour', now() - a * interval '1 hour', 1, 'overlap',
                    now() - a * interval '1 hour'
             FROM unnest(ARRAY[{}]) AS a ORDER BY a DESC",
            ages.join(", ")
        ))
        .await;
}

async fn link(world: &Fixture) {
    let records = "SELECT job_id, scheduled_for AS key FROM job_dispatch WHERE trigger_id IS NULL
                   UNION ALL SELECT job_id, first_fire_at FROM skipped_fires";
    let chain = format!(
        "SELECT job_id, key, lag(key) OVER (PARTITION BY job_id ORDER BY key) AS before FROM ({records}) AS r"
    );
    world
        .sql(&format!(
            "CREATE TEMP TABLE chain AS {chain};
             UPDATE job_dispatch d SET follows = c.before FROM chain c
             WHERE c.job_id = d.job_id AND c.key = d.scheduled_for AND d.trigger_id IS NULL;
             UPDATE skipped_fires s SET follows = c.before FROM chain c WHERE c.job_id = s.job_id AND c.key = s.first_fire_at;
             UPDATE scheduled_jobs j SET last_fire_at = (SELECT max(key) FROM chain c WHERE c.job_id = j.id);
             DROP TABLE chain"
        ))
        .await;
}

async fn dangling(world: &Fixture) -> (i64, i64) {
    let query = "WITH records AS (
            SELECT job_id, scheduled_for AS key, follows FROM job_dispatch WHERE trigger_id IS NULL
            UNION ALL SELECT job_id, first_fire_at, follows FROM skipped_fires)
        SELECT count(*), count(*) FILTER (WHERE (r.follows <= j.ledger_starts_at) IS NOT TRUE)
        FROM records r JOIN scheduled_jobs j ON j.id = r.job_id
        WHERE r.follows IS NOT NULL AND NOT EXISTS (SELECT 1 FROM records o WHERE o.job_id = r.job_id AND o.key = r.follows)";
    let row = world.rows(query).await.remove(0);
    (row[0].parse().unwrap(), row[1].parse().unwrap())
}

async fn cutoffs(conn: &mut Conn) -> Cutoffs {
    RETENTION.cutoffs(database_clock::now(conn).await.unwrap())
}

async fn prune(world: &Fixture, page: i64) -> (u64, u64) {
    let mut conn = world.conn().await;
    let cutoffs = cutoffs(&mut conn).await;
    let (mut dispatches, mut skips) = (0, 0);
    let mut after = Some(Uuid::nil());
    while let Some(position) = after {
        let page = transact(&mut conn, "test_prune", async |conn: &mut Conn| {
            retain::dispatches(conn, &cutoffs, position, page).await
        });
        let page = page.await.unwrap();
        (after, dispatches) = (page.next, dispatches + page.deleted);
    }
    let mut after = Some(0);
    while let Some(position) = after {
        let page = transact(&mut conn, "test_prune", async |conn: &mut Conn| {
            retain::skips(conn, &cutoffs, position, page).await
        });
        let page = page.await.unwrap();
        (after, skips) = (page.next, skips + page.deleted);
    }
    (dispatches, skips)
}

const DAY: i32 = 24;

#[tokio::test(flavor = "multi_thread")]
async fn only_old_finished_runs_are_deleted() {
    for page in [1, 3, 1_000] {
        let world = Fixture::new().await;
        let (job, other) = (world.job("a").save().await, world.job("b").save().await);
        records(&world, job.id, &[40 * DAY, 35 * DAY, 31 * DAY, 29 * DAY, 1], "COMPLETED").await;
        records(&world, job.id, &[39 * DAY], "FAILED").await;
        records(&world, job.id, &[38 * DAY, 20 * DAY], "PENDING").await;
        records(&world, job.id, &[100 * DAY, 80 * DAY], "DEAD_LETTER").await;
        records(&world, other.id, &[33 * DAY, 32 * DAY], "CANCELLED").await;
        // Began long ago and ended recently; and a manual trigger.
        records(&world, other.id, &[34 * DAY], "COMPLETED").await;
        world
            .sql(&format!(
                "UPDATE job_dispatch SET completed_at = now() - interval '1 day' WHERE scheduled_for < now() - interval '34 days'
                   AND job_id = '{}';
                 UPDATE job_dispatch SET triggered_by = 'api', trigger_id = id, term = NULL WHERE scheduled_for BETWEEN
                   now() - interval '33 days 1 hour' AND now() - interval '32 days 23 hours'",
                other.id
            ))
            .await;
        assert_eq!(prune(&world, page).await, (7, 0), "in pages of {page}");
        let left = "SELECT j.name, d.status, round(extract(epoch FROM now() - d.scheduled_for) / 86400) FROM job_dispatch d
                    JOIN scheduled_jobs j ON j.id = d.job_id ORDER BY 1, 2, 3";
        let expected = [
            ["a", "COMPLETED", "0"],
            ["a", "COMPLETED", "29"],
            ["a", "DEAD_LETTER", "80"],
            ["a", "PENDING", "20"],
            ["a", "PENDING", "38"],
            ["b", "COMPLETED", "34"],
        ];
        assert_eq!(world.rows(left).await, expected, "in pages of {page}");
        assert_eq!(prune(&world, page).await, (0, 0), "once");
        world.assert_counters_are_true().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_stays_provable_after_retention() {
    for page in [2, 1_000] {
        let world = Fixture::new().await;
        for name in ["a", "b"] {
            let job = world.job(name).save().await;
            let hours: Vec<i32> = (0..60).map(|n| 48 * DAY - n * 12).collect();
            let (dispatched, skipped): (Vec<i32>, Vec<i32>) = hours.iter().partition(|hour| *hour % 36 != 0);
            assert!(dispatched.len() > 20 && skipped.len() > 10);
            records(&world, job.id, &dispatched, "COMPLETED").await;
            records(&world, job.id, &[47 * DAY + 1, 33 * DAY + 1], "DEAD_LETTER").await;
            skips(&world, job.id, &skipped).await;
        }
        let untouched = world.job("c").save().await;
        records(&world, untouched.id, &[48, 24], "COMPLETED").await;
        link(&world).await;
        assert_eq!(dangling(&world).await, (0, 0));
        let (dispatches, skips) = prune(&world, page).await;
        assert!(dispatches > 20 && skips > 5, "{dispatches} {skips}");
        let (all, unexplained) = dangling(&world).await;
        assert!(all >= 2, "a row refers to a deleted row");
        assert_eq!(unexplained, 0, "in pages of {page}");
        let starts = "SELECT name, ledger_starts_at IS NULL, ledger_starts_at < now() - interval '30 days'
                      FROM scheduled_jobs ORDER BY name";
        assert_eq!(world.rows(starts).await, [["a", "f", "t"], ["b", "f", "t"], ["c", "t", "-"]]);
        world
            .sql(
                "DELETE FROM job_dispatch WHERE scheduled_for = (SELECT max(scheduled_for) FROM job_dispatch
                     WHERE scheduled_for < now() - interval '25 days')",
            )
            .await;
        assert_ne!(dangling(&world).await.1, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recently_extended_range_stays() {
    let world = Fixture::new().await;
    let job = world.job("paused").save().await;
    skips(&world, job.id, &[60 * DAY, 50 * DAY]).await;
    world.sql("UPDATE skipped_fires SET last_fire_at = now(), fire_count = 9 WHERE id = (SELECT max(id) FROM skipped_fires)").await;
    assert_eq!(prune(&world, 10).await, (0, 1));
    assert_eq!(world.text("SELECT fire_count FROM skipped_fires").await, "9");
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_start_is_written_once_an_hour() {
    let world = Fixture::new().await;
    let job = world.job("a").save().await;
    let hours: Vec<i32> = (0..40).map(|n| 40 * DAY - n).collect();
    records(&world, job.id, &hours, "COMPLETED").await;
    let writer = "SELECT xmin::text::bigint FROM scheduled_jobs";
    let before = world.number(writer).await;
    assert_eq!(prune(&world, 5).await, (40, 0));
    assert_ne!(world.number(writer).await, before);
    records(&world, job.id, &[38 * DAY], "COMPLETED").await;
    let before = world.number(writer).await;
    assert_eq!(prune(&world, 5).await, (1, 0));
    assert_eq!(world.number(writer).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_and_ticks_do_not_block_each_other() {
    let world = Fixture::new().await;
    let (held, free) = (world.job("held").save().await, world.job("free").save().await);
    for job in [held.id, free.id] {
        records(&world, job, &[40 * DAY], "COMPLETED").await;
        skips(&world, job, &[41 * DAY]).await;
    }
    let other = world.db.client().await;
    let lock = format!("{BEGIN}; SELECT 1 FROM scheduled_jobs WHERE name = 'held' FOR NO KEY UPDATE");
    other.batch_execute(&lock).await.unwrap();
    assert_eq!(prune(&world, 10).await, (1, 1), "locked rows are skipped");
    other.batch_execute("COMMIT").await.unwrap();

    // Before a page commits, ticks take other jobs; attempts of its jobs end afterwards.
    make_due(&world).await;
    let mut conn = world.conn().await;
    transact(&mut conn, "test_prune", async |conn: &mut Conn| {
        let cutoffs = cutoffs(conn).await;
        assert_eq!(retain::dispatches(conn, &cutoffs, Uuid::nil(), 10).await?.deleted, 1);
        let mut tick = world.conn().await;
        let now = database_clock::now(&tick).await?;
        let due = tick::lock_due(&mut tick, now, 10).await?;
        assert_eq!(due.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["free"]);
        Ok::<_, DbError>(())
    })
    .await
    .unwrap();
    assert_eq!(prune(&world, 10).await, (0, 1), "the rest");
}

#[tokio::test(flavor = "multi_thread")]
async fn used_idempotency_keys_are_cleared() {
    let world = Fixture::new().await;
    let job = world.job("a").save().await;
    records(&world, job.id, &[50, 30, 2], "COMPLETED").await;
    records(&world, job.id, &[40], "PENDING").await;
    world.sql("UPDATE job_dispatch SET idempotency_key = id::text WHERE scheduled_for > now() - interval '45 hours'").await;
    world.sql("UPDATE job_dispatch SET idempotency_key = 'old' WHERE scheduled_for < now() - interval '45 hours'").await;
    let mut conn = world.conn().await;
    let before: DateTime<Utc> = database_clock::now(&conn).await.unwrap() - TimeDelta::hours(24);
    let (mut after, mut gone) = (Some(Uuid::nil()), 0);
    while let Some(position) = after {
        let page = retain::idempotency_keys(&mut conn, before, position, 1).await.unwrap();
        (after, gone) = (page.next, gone + page.deleted);
    }
    assert_eq!(gone, 2);
    let keys = "SELECT status, idempotency_key IS NULL FROM job_dispatch ORDER BY id";
    assert_eq!(
        world.rows(keys).await,
        [["COMPLETED", "t"], ["PENDING", "f"], ["COMPLETED", "t"], ["COMPLETED", "f"]]
    );
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_audit_entries_and_terms_are_deleted() {
    let world = Fixture::new().await;
    world
        .sql(
            "INSERT INTO audit_log (created_at, actor, action, target_type, target_id)
             SELECT now() - d * interval '1 day', 'tests', 'test', 'x', d::text FROM unnest(ARRAY[500, 400, 360, 1]) AS d;
             INSERT INTO leader_terms (term, instance_id, hostname, pid, started_at, ended_at, end_reason)
             VALUES (1, gen_random_uuid(), 'h', 1, now() - interval '500 days', now() - interval '400 days', 'resigned'),
                    (2, gen_random_uuid(), 'h', 1, now() - interval '400 days', now() - interval '300 days', 'expired'),
                    (3, gen_random_uuid(), 'h', 1, now() - interval '390 days', NULL, NULL)",
        )
        .await;
    let mut conn = world.conn().await;
    let cutoffs = cutoffs(&mut conn).await;
    let past = |entries, terms| DeletedRows { entries, terms, workers: 0 };
    assert_eq!(retain::delete_expired(&mut conn, &cutoffs, 1).await.unwrap(), past(1, 1), "bounded");
    assert_eq!(retain::delete_expired(&mut conn, &cutoffs, 100).await.unwrap(), past(1, 0));
    assert_eq!(retain::delete_expired(&mut conn, &cutoffs, 100).await.unwrap(), past(0, 0));
    assert_eq!(world.rows("SELECT target_id FROM audit_log ORDER BY id").await, [["360"], ["1"]]);
    assert_eq!(world.rows("SELECT term FROM leader_terms ORDER BY term").await, [["2"], ["3"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_names_stay_as_long_as_history() {
    let world = Fixture::new().await;
    let register = |host: &str| {
        format!(
            "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
             VALUES (gen_random_uuid(), '{host}', 'p', 1, '0.0.0', '{{default}}', 1, 1000)"
        )
    };
    for host in ["stays", "old", "older", "lately"] {
        world.sql(&register(host)).await;
    }
    let gone = "SELECT hostname, gone_at IS NOT NULL FROM known_workers ORDER BY hostname";
    world.sql("DELETE FROM worker_registration WHERE hostname <> 'stays'").await;
    let told = [["lately", "t"], ["old", "t"], ["older", "t"], ["stays", "f"]];
    assert_eq!(world.rows(gone).await, told);
    world.sql("UPDATE known_workers SET registered_at = now() - interval '3 years'").await;
    world
        .sql("UPDATE known_workers SET gone_at = now() - interval '400 days' WHERE hostname IN ('old', 'older')")
        .await;
    let mut conn = world.conn().await;
    let cutoffs = cutoffs(&mut conn).await;
    assert_eq!(retain::delete_expired(&mut conn, &cutoffs, 1).await.unwrap().workers, 1, "bounded");
    assert_eq!(retain::delete_expired(&mut conn, &cutoffs, 10).await.unwrap().workers, 1);
    assert_eq!(world.rows(gone).await, [["lately", "t"], ["stays", "f"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_of_default_partitions_are_deleted() {
    let world = Fixture::new().await;
    for (schema, days) in [("public", "ARRAY[400, 200, 100]"), ("maintenance", "ARRAY[300, 10000]")] {
        world
            .sql(&format!(
                "INSERT INTO {schema}.job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                                                         completed_at, duration_ms, claim_token, triggered_by)
                 SELECT gen_random_uuid(), '{TENANT}', gen_random_uuid(), gen_random_uuid(), 1, 'COMPLETED', at, at, at, 0, d, 'api'
                 FROM unnest({days}) AS d, LATERAL (SELECT now() - d * interval '1 day' AS at) AS a;
                 INSERT INTO {schema}.job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content)
                 SELECT '{TENANT}', id, started_at, 'stdout', 0, 'x' FROM {schema}.job_execution_log"
            ))
            .await;
    }
    world.sql("INSERT INTO events (event_type, created_at) VALUES ('tested', now() - interval '99 days'), ('tested', now())").await;
    world
        .sql("INSERT INTO events (event_type, created_at) VALUES ('tested', now() + interval '900 days')")
        .await;
    world
        .sql(
            "INSERT INTO housekeeping (finished_days, dead_letter_days, audit_days, idempotency_key_seconds, history_expiry,
                                       stale_scheduler_seconds, stale_worker_seconds)
             VALUES (30, 90, 365, 3600, 'drop', 60, 60)",
        )
        .await;
    let mut conn = world.conn().await;
    let cutoffs = cutoffs(&mut conn).await;
    let first = retain::strays(&mut conn, &cutoffs, 2).await.unwrap();
    assert_eq!(first, Strays { attempts: 4, output: 4, events: 1 });
    assert!(first.may_be_more(2));
    let second = retain::strays(&mut conn, &cutoffs, 2).await.unwrap();
    assert_eq!(second, Strays { attempts: 1, output: 1, events: 0 });
    assert!(!second.may_be_more(2));
    assert_eq!(world.number("SELECT count(*) FROM events").await, 2);
    assert_eq!(world.number("SELECT count(*) FROM events_default").await, 1);
}

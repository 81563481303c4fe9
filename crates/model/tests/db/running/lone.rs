//! The claim of a single run takes no run that the usual claim would skip, and returns the same
//! data.

use std::collections::HashSet;

use diesel_async::SimpleAsyncConnection;
use futures_util::future::join_all;
use sched_model::domain::ids::{DispatchId, WorkerId};
use sched_model::running::claim_restrictions;
use sched_model::running::claims::{self, Claimed};
use sched_model::{Conn, transact};
use test_support::fixture::{Fixture, QUEUE, TENANT};

async fn lone(world: &Fixture, worker: WorkerId) -> Option<Claimed> {
    let queues = [QUEUE.to_owned(), "other".to_owned()];
    claims::claim_lone(&mut world.conn().await, worker, &queues, None).await.unwrap().claimed.pop()
}

async fn lift(world: &Fixture) -> bool {
    let mut conn = world.conn().await;
    transact(&mut conn, "test_lift", async |conn: &mut Conn| claim_restrictions::lift(conn).await)
        .await
        .unwrap()
}

/// The rows that claims write, without columns that always differ.
async fn written(world: &Fixture) -> [Vec<Vec<String>>; 3] {
    [
        world.rows("SELECT status, attempt, claimable_at, worker_id IS NOT NULL, claimed_at IS NOT NULL FROM job_dispatch").await,
        world.rows("SELECT event_type, tenant_id, payload - 'worker_id' - 'scheduled_for', payload ? 'worker_id' FROM event_stream
                    WHERE event_type = 'schedule_execution_started'").await,
        world.rows("SELECT cardinality(dispatch_ids), limit_seconds FROM worker_claims").await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn lone_claim_matches_the_usual_claim() {
    let (usual, world) = (Fixture::new().await, Fixture::new().await);
    let theirs = usual.running("hourly").await;
    let expected = written(&usual).await;
    assert_eq!(expected.each_ref().map(Vec::len), [1; 3]);
    let job = world.job("hourly").save().await;
    world.runs(job.id).insert().await;
    let worker = world.worker().await;
    let ours = lone(&world, worker).await.unwrap();
    assert_eq!(written(&world).await, expected);
    let told = |claimed: &Claimed| {
        let words = (claimed.job.name.clone(), claimed.handler_type.clone(), claimed.triggered_by);
        let settings = (claimed.args.clone(), claimed.handler_config.clone(), claimed.timeout);
        let counts = (claimed.attempt, claimed.failures, claimed.is_catch_up);
        (claimed.tenant_id, words, settings, counts, claimed.limited_queue.clone())
    };
    assert_eq!(told(&ours), told(&theirs));
    let stored = world
        .rows("SELECT d.id, d.worker_id, d.claim_token, c.id FROM job_dispatch d, worker_claims c")
        .await;
    let said = [
        DispatchId::to_string(&ours.dispatch_id),
        worker.to_string(),
        ours.token.0.to_string(),
        ours.claim_id.to_string(),
    ];
    assert_eq!(stored, [said]);
    assert!(lone(&world, worker).await.is_none(), "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn lone_claim_skips_what_claim_skips() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    let worker = world.worker().await;
    let tenant = format!("UPDATE tenants SET quotas = '%s' WHERE id = '{TENANT}'");
    for (held, free) in [
        ("UPDATE tenants SET is_paused = true", "UPDATE tenants SET is_paused = false"),
        ("UPDATE projects SET is_paused = true", "UPDATE projects SET is_paused = false"),
        ("UPDATE task_functions SET is_paused = true", "UPDATE task_functions SET is_paused = false"),
        ("UPDATE queues SET is_paused = true", "UPDATE queues SET is_paused = false"),
        ("UPDATE queues SET max_running = 5", "UPDATE queues SET max_running = NULL"),
        (
            "UPDATE queues SET rate_limit_count = 5, rate_limit_period_seconds = 1",
            "UPDATE queues SET rate_limit_count = NULL, rate_limit_period_seconds = NULL",
        ),
        (&tenant.replace("%s", r#"{"running_dispatches": 5}"#), &tenant.replace("%s", "{}")),
        (
            "UPDATE job_dispatch SET claimable_at = now() + interval '1 hour'",
            "UPDATE job_dispatch SET claimable_at = now()",
        ),
        ("UPDATE job_dispatch SET claimable_at = 'infinity'", "UPDATE job_dispatch SET claimable_at = now()"),
        (
            "UPDATE job_dispatch SET expires_at = now() - interval '1 second'",
            "UPDATE job_dispatch SET expires_at = NULL",
        ),
        (
            "UPDATE job_dispatch SET expires_at = now() - interval '1 second'",
            "UPDATE job_dispatch SET attempt = 1, retry_count = 1",
        ),
        (
            "UPDATE worker_registration SET status = 'OFFLINE', offline_since = now()",
            "UPDATE worker_registration SET status = 'IDLE', offline_since = NULL",
        ),
        (
            "UPDATE worker_registration SET drain_requested_at = now()",
            "UPDATE worker_registration SET drain_requested_at = NULL",
        ),
    ] {
        world.runs(job.id).insert().await;
        world.sql(held).await;
        assert!(lone(&world, worker).await.is_none(), "claimed in spite of: {held}");
        assert!(!lift(&world).await, "lifted in spite of: {held}");
        world.sql(free).await;
        lift(&world).await;
        assert!(lone(&world, worker).await.is_some(), "not claimed after: {free}");
        world.sql("DELETE FROM job_dispatch").await;
    }
    world.runs(job.id).insert().await;
    let other = ["other".to_owned()];
    let elsewhere = claims::claim_lone(&mut world.conn().await, worker, &other, None).await.unwrap();
    assert!(elsewhere.claimed.is_empty(), "it serves another queue");
}

const FLAG: &str = "SELECT is_restricted::text FROM claim_restrictions";

#[tokio::test(flavor = "multi_thread")]
async fn flag_covers_every_pause_and_limit() {
    let world = Fixture::new().await;
    let running = r#"'{"running_dispatches": 5}'"#;
    for (table, held, free) in [
        ("tenants", "is_paused = true", "is_paused = false"),
        ("tenants", &format!("quotas = {running}"), "quotas = '{}'"),
        ("projects", "is_paused = true", "is_paused = false"),
        ("task_functions", "is_paused = true", "is_paused = false"),
        ("queues", "is_paused = true", "is_paused = false"),
        ("queues", "max_running = 5", "max_running = NULL"),
        (
            "queues",
            "rate_limit_count = 5, rate_limit_period_seconds = 1",
            "rate_limit_count = NULL, rate_limit_period_seconds = NULL",
        ),
    ] {
        assert_eq!(world.text(FLAG).await, "false");
        world.sql(&format!("UPDATE {table} SET {held}")).await;
        assert_eq!(world.text(FLAG).await, "true", "{table}: {held}");
        assert!(!lift(&world).await, "{table}: {held}");
        world.sql(&format!("UPDATE {table} SET {free}")).await;
        assert_eq!(world.text(FLAG).await, "true", "only the leader clears it");
        assert!(lift(&world).await, "{table}: {free}");
        assert!(!lift(&world).await, "already cleared");
    }
    world.sql(&format!("UPDATE tenants SET quotas = '{{\"jobs\": 5}}' WHERE id = '{TENANT}'")).await;
    world.sql(&format!("INSERT INTO queues (tenant_id, name) VALUES ('{TENANT}', 'free')")).await;
    assert_eq!(world.text(FLAG).await, "false", "no claim needs these");
    world
        .sql(&format!("INSERT INTO queues (tenant_id, name, max_running) VALUES ('{TENANT}', 'limited', 1)"))
        .await;
    assert_eq!(world.text(FLAG).await, "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn lift_loses_no_pause_near_its_commit() {
    let world = Fixture::new().await;
    let pausing = world.db.client().await;
    world.sql("UPDATE queues SET max_running = 5").await;
    world.sql("UPDATE queues SET max_running = NULL").await;
    // At its commit: it has set the flag, and is not visible.
    pausing
        .batch_execute("BEGIN; UPDATE queues SET is_paused = true; SET CONSTRAINTS ALL IMMEDIATE")
        .await
        .unwrap();
    assert!(!lift(&world).await);
    pausing.batch_execute("COMMIT; UPDATE queues SET is_paused = false").await.unwrap();
    // Before its commit: it sets the flag again.
    pausing.batch_execute("BEGIN; UPDATE queues SET is_paused = true").await.unwrap();
    assert!(lift(&world).await);
    pausing.batch_execute("COMMIT").await.unwrap();
    assert_eq!(world.text(FLAG).await, "true");
    assert!(!lift(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_waits_for_a_lift() {
    let world = Fixture::new().await;
    world.sql("UPDATE queues SET max_running = 5").await;
    world.sql("UPDATE queues SET max_running = NULL").await;
    let mut conn = world.conn().await;
    conn.batch_execute("BEGIN").await.unwrap();
    assert!(claim_restrictions::lift(&mut conn).await.unwrap());
    let pausing = world.db.client().await;
    let commit = async {
        world.wait_for_blocked(1).await;
        conn.batch_execute("COMMIT").await.unwrap();
    };
    let (paused, ()) = tokio::join!(pausing.batch_execute("UPDATE queues SET is_paused = true"), commit);
    paused.unwrap();
    assert_eq!(world.text(FLAG).await, "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn lone_claim_overtakes_no_run() {
    let world = Fixture::new().await;
    world.queue("other").await;
    let job = world.job("hourly").save().await;
    let worker = world.worker().await;
    for queue in [QUEUE, "other"] {
        world.runs(job.id).insert().await;
        world.runs(job.id).queue(queue).insert().await;
        world.sql("UPDATE job_dispatch SET priority = 10 WHERE id = (SELECT max(id::text)::uuid FROM job_dispatch)").await;
        assert!(lone(&world, worker).await.is_none(), "another waits in {queue}");
        world.sql("DELETE FROM job_dispatch WHERE priority <> 10").await;
        assert!(lone(&world, worker).await.is_some());
        world.sql("DELETE FROM job_dispatch").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_workers_claim_it_once() {
    let world = Fixture::new().await;
    let job = world.job("busy").save().await;
    let mut claimed = HashSet::new();
    for round in 1..=40 {
        world.runs(job.id).insert().await;
        let claim = async |by_one: bool| {
            let worker = world.worker().await;
            if by_one { Vec::from_iter(lone(&world, worker).await) } else { world.claim(worker, 3).await }
        };
        let all = join_all([true, true, true, false, true].map(claim)).await.concat();
        // A claim skips a row that the other claim has locked.
        assert_eq!(all.len(), 1, "round {round}");
        claimed.extend(all.into_iter().map(|one| one.dispatch_id));
    }
    assert_eq!(claimed.len(), 40);
    let running = "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS' AND attempt = 1";
    assert_eq!(world.number(running).await, 40);
}

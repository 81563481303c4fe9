//! Reads of claims: they grow neither with waiting runs that cannot be claimed nor with the number
//! of limits.
//!
//! Measured in pages, from the executed plan.

use sched_model::domain::ids::{TenantId, WorkerId};
use sched_model::running::claims::{self, ClaimRequest};
use sched_model::{Conn, dispatching::overlap_queue, transact};
use test_support::fixture::{Fixture, QUEUE, TENANT};
use uuid::Uuid;

use super::churn;

const CLAIM: &str = concat!(
    include_str!("../../../src/running/claims/claim.sql"),
    include_str!("../../../src/running/claims/claim_end.sql")
);
const CLAIM_LONE: &str = concat!(
    include_str!("../../../src/running/claims/claim_lone.sql"),
    include_str!("../../../src/running/claims/claim_end.sql")
);
const CLAIM_LIMITED: &str = concat!(
    include_str!("../../../src/running/claims/claim_limited.sql"),
    include_str!("../../../src/running/claims/claim_end.sql")
);
const WAITING_LIMITED: &str = include_str!("../../../src/running/claims/claims_limited_waiting.sql");
const CANCEL_WAITING: &str = include_str!("../../../src/dispatching/cancellations/cancel_waiting.sql");
const CANCEL_OPEN: &str = include_str!("../../../src/dispatching/cancellations/cancel_open.sql");
const CANCEL_OLDEST: &str = include_str!("../../../src/dispatching/cancellations/cancel_oldest.sql");
const HOLD: &str = include_str!("../../../src/dispatching/overlap_queue/line_hold.sql");

fn statements(worker: WorkerId) -> [(&'static str, &'static str, &'static str, String); 4] {
    let (worker, tenant) = (worker.0, TENANT.0);
    let queues = format!("ARRAY['{QUEUE}']");
    [
        (
            "claim",
            CLAIM,
            "uuid, bigint, text[], uuid, integer",
            format!("'{worker}', 8, {queues}, '{}', 30000", Uuid::max()),
        ),
        ("claim of one", CLAIM_LONE, "uuid, text[], integer", format!("'{worker}', {queues}, 30000")),
        (
            "claim of limited",
            CLAIM_LIMITED,
            "uuid, bigint, uuid[], text[], integer",
            format!("'{worker}', 8, ARRAY['{tenant}'::uuid], {queues}, 30000"),
        ),
        ("waiting in limited", WAITING_LIMITED, "text[]", queues),
    ]
}

/// Returns the pages that a statement reads, repeats included. The statement is rolled back.
async fn pages(world: &Fixture, statement: &str, types: &str, arguments: &str) -> u64 {
    world.sql(&format!("PREPARE asked ({types}) AS {statement}")).await;
    let mut least = u64::MAX;
    // The first runs set hint bits and mark dead index entries, which saves reads of the next ones.
    // A run marks nothing that another session may still see.
    for _ in 0..6 {
        churn::wait_for_no_old_snapshots(world).await;
        world.sql("BEGIN").await;
        let explained = format!(
            "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE asked ({arguments})"
        );
        let plan = world.rows(&explained).await.concat().join("\n");
        world.sql("ROLLBACK").await;
        least = least.min(churn::pages(&plan));
    }
    world.sql("DEALLOCATE asked").await;
    least
}

async fn all_pages(world: &Fixture, worker: WorkerId) -> Vec<(&'static str, u64)> {
    // Dead rows of earlier changes do not count. VACUUM keeps those that a session may still see.
    churn::wait_for_no_old_snapshots(world).await;
    world.sql("VACUUM ANALYZE").await;
    let mut read = Vec::new();
    for (name, statement, types, arguments) in statements(worker) {
        read.push((name, pages(world, statement, types, &arguments).await));
    }
    read
}

/// Pages that claims read in addition with 20,000 rows that cannot be claimed.
async fn added_by(world: &Fixture, worker: WorkerId, blocked: &str) -> Vec<(&'static str, u64)> {
    let before = all_pages(world, worker).await;
    world.sql(blocked).await;
    let after = all_pages(world, worker).await;
    let added = before
        .into_iter()
        .zip(after)
        .map(|((name, before), (_, after))| (name, after.saturating_sub(before)));
    added.collect()
}

async fn five_waiting() -> (Fixture, WorkerId) {
    let world = Fixture::new().await;
    churn::stop_autovacuum(&world).await;
    let worker = world.worker().await;
    world.sql("UPDATE queues SET max_running = 100").await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(5).insert().await;
    let mut conn = world.conn().await;
    let queues = [QUEUE.to_owned()];
    let wanted =
        ClaimRequest { worker, queues: &queues, limit: 1, last: TenantId(Uuid::nil()), lease_ms: None };
    assert_eq!(claims::claim_limited(&mut conn, &wanted).await.unwrap().claimed.len(), 1);
    (world, worker)
}

#[track_caller]
fn assert_few(added: &[(&str, u64)]) {
    // A deeper index, and less than one leaf per hundred rows.
    assert!(
        added.iter().all(|(_, pages)| *pages < 120),
        "pages read because of rows that cannot be claimed: {added:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_retries_cost_claims_nothing() {
    for is_limited in [true, false] {
        let (world, worker) = five_waiting().await;
        if !is_limited {
            world.sql("UPDATE queues SET max_running = NULL").await;
        }
        let job = world.job("failing").save().await;
        let delayed = format!(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, priority, triggered_by,
                                       trigger_id, args, attempt, retry_count)
             SELECT u.id, '{TENANT}', '{}', 1, now(), now() + interval '1 hour', now() + interval '1 hour', '{QUEUE}', u.n % 3 * 40, 'api',
                    u.id, '{{}}', 1, 1
             FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, 20000) AS n) AS u",
            job.id
        );
        assert_few(&added_by(&world, worker, &delayed).await);
        let queues = [QUEUE.to_owned()];
        let last = TenantId(Uuid::nil());
        let wanted = ClaimRequest { worker, queues: &queues, limit: 100, last, lease_ms: None };
        let outcome = claims::claim_unlimited(&mut world.conn().await, &wanted).await.unwrap();
        let next = outcome.next_claimable.unwrap();
        assert!((3_000..=3_600).contains(&next.as_secs()), "{next:?}");
        assert_eq!(outcome.claimed.len(), if is_limited { 0 } else { 4 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_held_by_a_pause_cost_claims_nothing() {
    let (world, worker) = five_waiting().await;
    world.function("held").save().await;
    let job = world.job("held").function("held").save().await;
    world.sql("UPDATE task_functions SET is_paused = true WHERE name = 'held'; UPDATE queues SET max_running = NULL").await;
    let before = all_pages(&world, worker).await;
    world.runs(job.id).count(20_000).insert().await;
    world
        .sql(&format!(
            "UPDATE job_dispatch SET claimable_at = now() - interval '1 day' WHERE job_id = '{}'",
            job.id
        ))
        .await;
    let mut conn = world.conn().await;
    let mut held = 0;
    while held < 20_000 {
        held += transact(&mut conn, "test_hold", async |conn: &mut Conn| {
            overlap_queue::queue_paused(conn, 5_000).await
        })
        .await
        .unwrap();
    }
    let after = all_pages(&world, worker).await;
    let added: Vec<_> = before
        .into_iter()
        .zip(after)
        .map(|((name, before), (_, after))| (name, after.saturating_sub(before)))
        .collect();
    assert_few(&added);
    assert_eq!(world.claim(worker, 100).await.len(), 4, "the others");
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_statement_reads_no_finished_runs() {
    let (world, worker) = five_waiting().await;
    world.function("held").save().await;
    let job = world.job("held").function("held").save().await;
    world.runs(job.id).count(20_000).insert().await;
    let ran = format!(
        "UPDATE job_dispatch SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = now(), attempt = 1, worker_id = '{}',
             claim_token = nextval('claim_token_seq') WHERE job_id = '{job}';
         UPDATE job_dispatch SET status = 'COMPLETED', completed_at = now() WHERE job_id = '{job}' AND id <> (
             SELECT id FROM job_dispatch WHERE job_id = '{job}' ORDER BY id DESC LIMIT 1);
         UPDATE scheduled_jobs SET active_dispatches = 1 WHERE id = '{job}'",
        worker.0,
        job = job.id
    );
    world.sql(&ran).await;
    for paused in ["true", "false"] {
        world.sql(&format!("UPDATE task_functions SET is_paused = {paused} WHERE name = 'held'")).await;
        world.sql("VACUUM ANALYZE").await;
        for mode in ["force_custom_plan", "force_generic_plan"] {
            world.sql(&format!("SET plan_cache_mode = {mode}")).await;
            let read = pages(&world, HOLD, "bigint", "5000").await;
            assert!(read < 100, "{read} pages, paused: {paused}, {mode}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_queue_costs_claims_nothing() {
    let (world, worker) = five_waiting().await;
    world.sql("UPDATE queues SET is_paused = true").await;
    let job = world.job("held").save().await;
    let due = format!(
        "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, triggered_by, trigger_id, args)
         SELECT u.id, '{TENANT}', '{}', 1, now(), now(), now(), '{QUEUE}', 'api', u.id, '{{}}'
         FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 20000) AS n) AS u",
        job.id
    );
    assert_few(&added_by(&world, worker, &due).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_tenants_with_quotas_cost_claims_nothing() {
    let (world, worker) = five_waiting().await;
    world.sql("UPDATE queues SET max_running = NULL").await;
    let many = "INSERT INTO tenants (slug, name, quotas)
                SELECT 't' || n, 'T', '{\"running_dispatches\": 5}' FROM generate_series(1, 10000) AS n;
                INSERT INTO queues (tenant_id, name) SELECT id, 'default' FROM tenants ON CONFLICT DO NOTHING";
    assert_few(&added_by(&world, worker, many).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_runs_of_a_job_are_found_at_any_age() {
    let world = Fixture::new().await;
    let job = world.job("old").save().await;
    world
        .sql(&format!(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, status, attempt, claimed_at,
                                       completed_at, worker_id, claim_token, triggered_by, trigger_id, args)
             SELECT u.id, '{TENANT}', '{}', 1, now() - u.n * interval '1 s', now(), NULL, '{QUEUE}', 'COMPLETED', 1, now(), now(),
                    gen_random_uuid(), u.n, 'api', u.id, '{{}}'
             FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, 20000) AS n) AS u",
            job.id
        ))
        .await;
    // The retry of an old run.
    world.runs(job.id).insert().await;
    world
        .sql("UPDATE job_dispatch SET scheduled_for = now() - interval '30 days' WHERE status = 'PENDING'")
        .await;
    world.sql("VACUUM ANALYZE").await;
    let (tenant, id) = (TENANT.0, job.id);
    for (statement, types, arguments) in [
        (CANCEL_WAITING, "uuid, uuid, text", format!("'{tenant}', '{id}', 'tests'")),
        (CANCEL_OPEN, "uuid, uuid, bigint", format!("'{tenant}', '{id}', 1")),
        (CANCEL_OLDEST, "uuid[], uuid[], integer[]", format!("'{{{tenant}}}', '{{{id}}}', '{{1}}'")),
    ] {
        let read = pages(&world, statement, types, &arguments).await;
        assert!(read < 100, "{read} pages to find one dispatch: {statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn running_runs_are_counted_once_for_all_limits() {
    let (world, worker) = five_waiting().await;
    let job = world.job("wide").save().await;
    world
        .sql(&format!(
            "INSERT INTO queues (tenant_id, name, max_running) SELECT '{TENANT}', 'q' || n, 1000 FROM generate_series(1, 50) AS n;
             INSERT INTO queue_usage (tenant_id, queue) SELECT tenant_id, name FROM queues ON CONFLICT DO NOTHING;
             INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimed_at, queue, status, worker_id,
                                       claim_token, attempt, triggered_by, trigger_id, args)
             SELECT u.id, '{TENANT}', '{}', 1, now(), now(), now(), 'q' || (1 + u.n % 50), 'IN_PROGRESS', '{worker}', u.n, 1, 'api',
                    u.id, '{{}}'
             FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, 500) AS n) AS u;
             INSERT INTO worker_claims (worker_id, dispatch_ids)
             SELECT '{worker}', array_agg(id) FROM job_dispatch WHERE queue <> '{QUEUE}' GROUP BY queue",
            job.id,
            worker = worker.0
        ))
        .await;
    world.sql("VACUUM ANALYZE").await;
    let queues: Vec<String> = (1..=50).map(|n| format!("'q{n}'")).collect();
    let queues = queues.join(", ");
    let arguments =
        format!("'{}', 8, array_fill('{TENANT}'::uuid, ARRAY[50]), ARRAY[{queues}], 30000", worker.0);
    let read = pages(&world, CLAIM_LIMITED, "uuid, bigint, uuid[], text[], integer", &arguments).await;
    assert!(read < 5_000, "{read} pages to count 500");
    let shown =
        world.rows("SELECT running, count(*) FROM queue_limits WHERE queue LIKE 'q%' GROUP BY 1").await;
    assert_eq!(shown, [["10", "50"]]);
}

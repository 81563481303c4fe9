//! Claims between tenants: each waiting tenant gets its share, for any backlog.

use sched_model::domain::ids::{TenantId, WorkerId};
use sched_model::running::claims::{self, ClaimOutcome, ClaimRequest};
use test_support::fixture::{Fixture, PATIENCE, QUEUE};
use uuid::Uuid;

async fn tenant(world: &Fixture, number: u128, waiting: usize) -> TenantId {
    let id = Uuid::from_u128(0x7000 + number);
    world
        .sql(&format!(
            "INSERT INTO tenants (id, slug, name) VALUES ('{id}', 't{number}', 'T');
             INSERT INTO projects (tenant_id, id, name, display_name) VALUES ('{id}', '{id}', 'default', 'D');
             INSERT INTO queues (tenant_id, name) VALUES ('{id}', '{QUEUE}');
             INSERT INTO task_functions (tenant_id, id, name, display_name, handler_type, handler_config)
                 VALUES ('{id}', '{id}', 'noop', 'N', 'process', '{{\"command\": [\"true\"]}}');
             INSERT INTO scheduled_jobs (tenant_id, id, scope, project_id, name, task_function_id, job_type, schedule_config)
                 VALUES ('{id}', '{id}', 'project', '{id}', 'job', '{id}', 'interval', '{{\"hours\": 1}}');
             INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, triggered_by, trigger_id, args)
             SELECT u.id, '{id}', '{id}', 1, u.at, u.at, u.at, '{QUEUE}', 'api', u.id, '{{}}'
             FROM (SELECT gen_random_uuid() AS id, now() - interval '1 hour' + n * interval '1 ms' AS at
                   FROM generate_series(1, {waiting}) AS n) AS u"
        ))
        .await;
    TenantId(id)
}

struct Claimer<'a> {
    world: &'a Fixture,
    worker: WorkerId,
    last: TenantId,
}

impl<'a> Claimer<'a> {
    async fn new(world: &'a Fixture) -> Self {
        Self { world, worker: world.worker().await, last: TenantId(Uuid::max()) }
    }

    async fn claim_once(&mut self, limit: u32) -> ClaimOutcome {
        let mut conn = self.world.conn().await;
        let queues = [QUEUE.to_owned()];
        let wanted =
            ClaimRequest { worker: self.worker, queues: &queues, limit, last: self.last, lease_ms: None };
        let looked = claims::claim_unlimited(&mut conn, &wanted).await.unwrap();
        self.last = looked.last;
        looked
    }

    async fn shares(&mut self, limit: u32, tenants: &[TenantId]) -> Vec<usize> {
        let looked = self.claim_once(limit).await;
        let of = |tenant: &TenantId| looked.claimed.iter().filter(|one| one.tenant_id == *tenant).count();
        tenants.iter().map(of).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_backlog_starves_no_other_tenant() {
    let world = Fixture::new().await;
    let mut tenants = vec![tenant(&world, 0, 2_000).await];
    for number in 1..5 {
        tenants.push(tenant(&world, number, 10).await);
    }
    let mut claimer = Claimer::new(&world).await;
    assert_eq!(claimer.shares(20, &tenants).await, [4, 4, 4, 4, 4]);
    assert_eq!(claimer.shares(20, &tenants).await, [4, 4, 4, 4, 4]);
    let looked = claimer.claim_once(20).await;
    assert_eq!((looked.claimed.len(), looked.shared_by), (12, 5));
    assert_eq!(claimer.shares(20, &tenants).await, [20, 0, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_take_turns_with_few_slots() {
    let world = Fixture::new().await;
    let mut tenants = Vec::new();
    for number in 0..7 {
        tenants.push(tenant(&world, number, 30).await);
    }
    // The best priority counts within a tenant and for the leftover slots.
    world.sql(&format!("UPDATE job_dispatch SET priority = 1 WHERE tenant_id = '{}'", tenants[3].0)).await;
    for (limit, claims) in [(1, 14), (2, 7), (3, 14), (5, 7)] {
        let before = world.number("SELECT count(*) FROM job_dispatch WHERE attempt = 1").await;
        let mut claimer = Claimer::new(&world).await;
        let mut taken = vec![0; tenants.len()];
        for _ in 0..claims {
            for (sum, one) in taken.iter_mut().zip(claimer.shares(limit, &tenants).await) {
                *sum += one;
            }
        }
        let each = limit as usize * claims / 7;
        assert_eq!(taken, vec![each; 7], "{limit} at a time");
        let after = world.number("SELECT count(*) FROM job_dispatch WHERE attempt = 1").await;
        assert_eq!(usize::try_from(after - before).unwrap(), each * 7);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leftover_slots_go_by_priority() {
    let world = Fixture::new().await;
    let tenants = [tenant(&world, 0, 30).await, tenant(&world, 1, 30).await, tenant(&world, 2, 30).await];
    world.sql(&format!("UPDATE job_dispatch SET priority = 1 WHERE tenant_id = '{}'", tenants[1].0)).await;
    let mut claimer = Claimer::new(&world).await;
    assert_eq!(
        claimer.shares(5, &tenants).await,
        [2, 2, 1],
        "one each, one more for the urgent, one for the oldest"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_or_limited_tenant_takes_no_share() {
    let world = Fixture::new().await;
    let mut tenants = Vec::new();
    for number in 0..4 {
        tenants.push(tenant(&world, number, 30).await);
    }
    world
        .sql(&format!(
            "UPDATE tenants SET is_paused = true WHERE id = '{}';
             UPDATE queues SET is_paused = true WHERE tenant_id = '{}';
             UPDATE queues SET max_running = 1 WHERE tenant_id = '{}'",
            tenants[0].0, tenants[1].0, tenants[3].0
        ))
        .await;
    let mut claimer = Claimer::new(&world).await;
    let looked = claimer.claim_once(10).await;
    assert_eq!((looked.shared_by, looked.claimed.len(), looked.has_limited), (1, 10, true));
    for _ in 0..3 {
        assert_eq!(claimer.shares(1, &tenants).await, [0, 0, 1, 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_and_finished_runs_are_not_claimable() {
    let world = Fixture::new().await;
    let job = world.job("narrow").save().await;
    world.runs(job.id).count(20_000).insert().await;
    world.sql("UPDATE job_dispatch SET claimable_at = 'infinity'").await;
    let pages =
        "SELECT pg_relation_size('job_dispatch_waiting_idx') / current_setting('block_size')::integer";
    // Autovacuum keeps rows of an old snapshot.
    test_support::wait_for("the index has only its meta page", PATIENCE, async || {
        world.sql("REINDEX INDEX job_dispatch_waiting_idx").await;
        let pages = world.number(pages).await;
        if pages == 1 { Ok(()) } else { Err(format!("{pages} pages")) }
    })
    .await;
    world.sql("UPDATE job_dispatch SET claimable_at = now() WHERE id = (SELECT min(id::text)::uuid FROM job_dispatch)").await;
    assert_eq!(Claimer::new(&world).await.claim_once(10).await.claimed.len(), 1);
    let counted = world.rows("SELECT waiting, waiting_in_line FROM queue_depth").await;
    assert_eq!(counted, [["19999", "19999"]]);
}

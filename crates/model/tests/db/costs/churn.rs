//! Tables after long use: few live rows among many dead ones, with dead entries in every index.

use test_support::fixture::{Fixture, TENANT};

/// The statistics that the planner sees, and when it plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    /// On a new database, before its first use: the plan of a daemon that connects early.
    BeforeUse,
    /// With statistics of empty tables.
    AnalyzedEmpty,
    /// With statistics of the full tables.
    AnalyzedFull,
    /// With statistics of a moment without waiting and running runs.
    AnalyzedIdle,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) types: &'static str,
    /// Names in brackets stand for the values of [`VALUES`].
    pub(crate) arguments: &'static str,
    pub(crate) most: Cost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Repeats included.
    pub(crate) pages: u64,
    /// The most rows that one step of the plan returns or removes. A sequential scan of a large
    /// table and a quadratic join exceed any linear bound.
    pub(crate) rows: u64,
}

const NO_AUTOVACUUM: &str = "
DO $$
DECLARE name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
    END LOOP;
END $$";

const ACTORS: &str = "
INSERT INTO queues (tenant_id, name) SELECT id, 'lone' FROM tenants;
INSERT INTO queues (tenant_id, name, max_running) SELECT id, 'limited', 1000 FROM tenants;
INSERT INTO queue_usage (tenant_id, queue) SELECT tenant_id, name FROM queues ON CONFLICT DO NOTHING;
INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms, status,
                                 offline_since)
VALUES (md5('live')::uuid, 'test', 'linux', 1, '0.0.0', '{default}', 100, 1, 'IDLE', NULL),
       (md5('lost')::uuid, 'test', 'linux', 1, '0.0.0', '{default}', 100, 1, 'OFFLINE', now());
INSERT INTO scheduler_instances (id, hostname, pid, version, is_leader, leader_since, term)
VALUES (md5('leader')::uuid, 'test', 1, '0.0.0', true, now(), 1)";

/// 500 jobs that are due soon, and 5,000 that are not.
const JOBS: &str = "
INSERT INTO scheduled_jobs (tenant_id, scope, project_id, name, task_function_id, job_type, schedule_config, overlap_policy,
                            next_run_at, settled_until)
SELECT f.tenant_id, 'project', p.id, 'job-' || n, f.id, 'interval', '{\"hours\": 1}', 'allow',
       now() + CASE WHEN n <= 500 THEN n * interval '1 ms' ELSE n * interval '1 hour' END, now() - interval '1 day'
FROM task_functions f
JOIN projects p ON p.tenant_id = f.tenant_id
CROSS JOIN generate_series(1, 5500) AS n
WHERE f.name = 'noop';
UPDATE scheduled_jobs SET next_run_at = next_run_at + interval '1 us', active_dispatches = active_dispatches + 1;
UPDATE scheduled_jobs SET next_run_at = next_run_at + interval '1 us', active_dispatches = active_dispatches - 1;
CREATE TEMP TABLE due_jobs AS SELECT id, row_number() OVER (ORDER BY id) AS n 
    FROM scheduled_jobs WHERE next_run_at < now() + interval '1 minute'";

/// 20,000 runs that are claimed and ended in 2,000 batches, and rows of their bookkeeping that
/// are deleted again, except for 200 batches of ends that are not counted yet.
const ENDED: &str = "
INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, priority,
                          triggered_by, trigger_id, args)
SELECT u.id, t.id, j.id, 1, now() - u.n * interval '1 ms', now() - interval '1 h', now() - interval '1 h' + u.n * interval '1 ms',
       (ARRAY['default', 'lone', 'limited'])[1 + u.n % 3], u.n % 3 * 40, 'api', u.id, '{}'
FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, 20000) AS n) AS u
CROSS JOIN tenants t
JOIN due_jobs j ON j.n = 1 + u.n % 500;
UPDATE job_dispatch
SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = now(), attempt = 1, worker_id = md5('live')::uuid,
    claim_token = nextval('claim_token_seq')
WHERE status = 'PENDING';
CREATE TEMP TABLE ending AS
    SELECT *, row_number() OVER () % 2000 AS batch FROM job_dispatch WHERE status = 'IN_PROGRESS';
INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds)
SELECT md5('live')::uuid, array_agg(id), array_agg(1) FROM ending GROUP BY batch;
INSERT INTO run_start_batches (transaction_id, tenant_id, job_id, worker_id, size, dispatch_ids, job_ids, job_names, attempts,
                               scheduled_for)
SELECT (3 + batch / 4)::text::xid8, tenant_id, CASE WHEN batch % 4 = 0 THEN (array_agg(job_id))[1] END, md5('live')::uuid, count(*),
       array_agg(id), array_agg(job_id), array_agg('a job'::text), array_agg(1), array_agg(scheduled_for)
FROM ending GROUP BY batch, tenant_id;
WITH batched AS (
    INSERT INTO run_end_batches (transaction_id, tenant_id, job_id, size, dispatch_ids, execution_ids, job_ids, job_names,
                                 attempts, outcomes, dispatch_statuses, started_at, durations_ms, exit_codes, error_classes, errors)
    SELECT (3 + batch / 4)::text::xid8, tenant_id, CASE WHEN batch % 4 = 0 THEN (array_agg(job_id))[1] END, count(*), array_agg(id),
           array_agg(id), array_agg(job_id), array_agg('a job'::text), array_agg(1), array_agg(NULL::text), array_agg(NULL::text),
           array_agg(now()), array_agg(1), array_agg(0), array_agg(NULL::text), array_agg(NULL::text)
    FROM ending GROUP BY batch, tenant_id
    RETURNING tenant_id, transaction_id, id, created_at)
INSERT INTO uncounted_ends (tenant_id, transaction_id, batch_id, created_at) SELECT * FROM batched;
INSERT INTO events (transaction_id, tenant_id, job_id, event_type)
SELECT (3 + batch / 4)::text::xid8, tenant_id, job_id, 'job_updated' FROM ending WHERE batch % 4 = 1;
INSERT INTO uncounted_openings (tenant_id, job_id, opened, opened_at)
SELECT tenant_id, job_id, 1, now() FROM ending;
INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at,
                               duration_ms, claim_token, triggered_by)
SELECT id, tenant_id, job_id, id, 1, 'COMPLETED', scheduled_for, now(), now(), 1, claim_token, 'api' FROM ending;
UPDATE job_dispatch SET status = 'COMPLETED', completed_at = now() WHERE status = 'IN_PROGRESS';
DELETE FROM worker_claims;
DELETE FROM uncounted_openings;
DELETE FROM uncounted_ends WHERE transaction_id < '453'";

/// 500 runs that wait, one alone in its queue, and 500 that run.
const OPEN: &str = "
INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, priority,
                          triggered_by, trigger_id, args)
SELECT u.id, t.id, j.id, 1, now(), now(), now(),
       CASE WHEN u.n = 1 THEN 'lone' WHEN u.n <= 50 THEN 'limited' WHEN u.n <= 500 THEN 'default' ELSE 'busy' END,
       u.n % 3 * 40, 'api', u.id, '{}'
FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, 1000) AS n) AS u
CROSS JOIN tenants t
JOIN due_jobs j ON j.n = 1 + u.n % 500;
UPDATE job_dispatch
SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = now() - interval '1 hour', attempt = 1,
    worker_id = md5('live')::uuid, claim_token = nextval('claim_token_seq')
WHERE status = 'PENDING' AND queue = 'busy';
UPDATE job_dispatch SET worker_id = md5('lost')::uuid
WHERE id IN (SELECT id FROM job_dispatch WHERE status = 'IN_PROGRESS' ORDER BY id LIMIT 250);
INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds)
SELECT worker_id, array_agg(id), array_agg(1)
FROM (SELECT *, row_number() OVER () % 25 AS claim FROM job_dispatch WHERE status = 'IN_PROGRESS') AS d
GROUP BY worker_id, claim;
INSERT INTO uncounted_openings (tenant_id, job_id, opened, opened_at)
SELECT t.id, j.id, 1, now() FROM due_jobs j, tenants t WHERE j.n <= 100";

/// Session settings, which the arguments of a prepared statement can read: name, type and query.
const VALUES: [(&str, &str, &str); 10] = [
    ("tenants", "uuid[]", "array_agg(tenant_id) FROM hundred"),
    ("jobs", "uuid[]", "array_agg(id ORDER BY id) FROM hundred"),
    ("fires", "timestamptz[]", "array_agg(next_run_at ORDER BY id) FROM hundred"),
    ("new", "uuid[]", "array_agg(gen_random_uuid()) FROM hundred"),
    ("running", "uuid[]", "array_agg(id ORDER BY id) FROM hundred_running"),
    ("tokens", "bigint[]", "array_agg(claim_token ORDER BY id) FROM hundred_running"),
    ("job", "uuid", "job_id FROM run_end_batches WHERE job_id IS NOT NULL ORDER BY id DESC LIMIT 1"),
    ("claims", "bigint[]", "array_agg(id) FROM worker_claims"),
    ("sources", "uuid[]", "ARRAY[f.id, f.project_id] FROM source f"),
    ("edition", "text", "edition FROM source"),
];

const CHOSEN: &str = "
CREATE TEMP TABLE hundred AS SELECT j.* FROM scheduled_jobs j JOIN due_jobs d ON d.id = j.id WHERE d.n <= 100;
CREATE TEMP TABLE hundred_running AS
    SELECT id, claim_token FROM job_dispatch WHERE status = 'IN_PROGRESS' AND worker_id = md5('live')::uuid LIMIT 100;
CREATE TEMP TABLE source AS
    SELECT f.id, p.id AS project_id, concat_ws(' ', t.xmin, f.xmin, q.xmin, p.xmin) AS edition
    FROM tenants t, task_functions f, queues q, projects p WHERE f.name = 'noop' AND q.name = 'default'";

async fn fill(world: &Fixture) {
    for statements in [JOBS, ENDED, OPEN] {
        world.sql(statements).await;
    }
}

/// Autovacuum would change the statistics, and its workers hold snapshots.
pub(crate) async fn stop_autovacuum(world: &Fixture) {
    world.sql(NO_AUTOVACUUM).await;
}

/// Waits until no other session may see the rows that are dead now. Only then VACUUM removes them,
/// and a reader marks their index entries, so that the next reader skips them.
///
/// The snapshot of the reader itself counts: it is as old as the oldest running transaction of the
/// server, which other databases may have.
pub(crate) async fn wait_for_no_old_snapshots(world: &Fixture) {
    let next = world.number("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await;
    let older =
        format!("SELECT count(*) WHERE pg_snapshot_xmin(pg_current_snapshot())::text::bigint < {next}");
    world.wait_for_count("older transactions have ended", &older, 0).await;
    let holders = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL";
    world.wait_for_count("no other session holds a snapshot", holders, 0).await;
}

async fn prepare(world: &Fixture, statements: &[Statement]) {
    world.sql("SET jit = off; SET plan_cache_mode = force_generic_plan").await;
    for (number, Statement { text, types, .. }) in statements.iter().enumerate() {
        let (types, nulls) = match types.split(',').count() {
            _ if types.is_empty() => (String::new(), String::new()),
            count => (format!("({types})"), format!("({})", vec!["NULL"; count].join(", "))),
        };
        world.sql(&format!("PREPARE asked_{number} {types} AS {text}")).await;
        // Creates the generic plan.
        world.sql(&format!("EXPLAIN EXECUTE asked_{number} {nulls}")).await;
    }
}

/// A churned database on which the statements were prepared.
pub(crate) async fn churned(planned: Planned, statements: &[Statement]) -> Fixture {
    let world = Fixture::new().await;
    stop_autovacuum(&world).await;
    world.sql(ACTORS).await;
    match planned {
        Planned::BeforeUse => {
            prepare(&world, statements).await;
            fill(&world).await;
        }
        Planned::AnalyzedEmpty => {
            world.sql("VACUUM ANALYZE").await;
            fill(&world).await;
            prepare(&world, statements).await;
        }
        Planned::AnalyzedFull => {
            fill(&world).await;
            world.sql("ANALYZE").await;
            prepare(&world, statements).await;
        }
        Planned::AnalyzedIdle => {
            world.sql(JOBS).await;
            world.sql(ENDED).await;
            world.sql("ANALYZE").await;
            world.sql(OPEN).await;
            prepare(&world, statements).await;
        }
    }
    world.sql(CHOSEN).await;
    world.sql(&format!("SELECT set_config('sched.tenant', '{TENANT}', false)")).await;
    for (name, _, query) in VALUES {
        world.sql(&format!("SELECT set_config('test.{name}', (SELECT {query})::text, false)")).await;
    }
    wait_for_no_old_snapshots(&world).await;
    world
}

/// Runs a prepared statement and rolls it back; the lesser cost of two runs, because the first one
/// sets hint bits and marks dead index entries. Also returns the plan.
pub(crate) async fn cost(world: &Fixture, number: usize, statement: &Statement) -> (Cost, String) {
    let mut arguments = statement.arguments.to_owned();
    for (name, sql_type, _) in VALUES {
        let value = format!("current_setting('test.{name}')::{sql_type}");
        arguments = arguments.replace(&format!("[{name}]"), &value);
    }
    let arguments = if arguments.is_empty() { arguments } else { format!("({arguments})") };
    let explained = format!(
        "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE asked_{number} {arguments}"
    );
    let mut least: Option<(Cost, String)> = None;
    for _ in 0..2 {
        world.sql("BEGIN").await;
        let plan = world.rows(&explained).await.concat().join("\n");
        world.sql("ROLLBACK").await;
        let found = Cost { pages: pages(&plan), rows: rows(&plan) };
        if least.as_ref().is_none_or(|(least, _)| found.pages < least.pages) {
            least = Some((found, plan));
        }
    }
    least.unwrap()
}

fn number_after(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The pages that an executed plan read; the first such line is the total.
pub(crate) fn pages(plan: &str) -> u64 {
    let Some(line) = plan.lines().find(|line| line.contains("Buffers: shared")) else { return 0 };
    ["hit=", "read="].iter().filter_map(|name| number_after(line, name)).sum()
}

fn rows(plan: &str) -> u64 {
    let (mut most, mut loops) = (0, 1);
    for line in plan.lines() {
        let returned = number_after(line, "(actual rows=");
        if returned.is_some() {
            loops = number_after(line, " loops=").unwrap_or(1);
        }
        let removed =
            line.trim_start().strip_prefix("Rows Removed by ").and_then(|rest| number_after(rest, ": "));
        most = most.max(returned.or(removed).unwrap_or(0) * loops);
    }
    most
}

//! Plans of the hot statements: their cost does not grow with finished runs.
//!
//! Checked on a table with far more finished than waiting rows, for the plan of one set of
//! parameters and for the generic plan, because a prepared statement may use either.
//!
//! Length: one list of the statements whose plans are checked.

use test_support::fixture::{Fixture, QUEUE, TENANT};
use uuid::Uuid;

const CLAIM: &str = concat!(
    include_str!("../../../src/running/claims/claim.sql"),
    include_str!("../../../src/running/claims/claim_end.sql")
);
/// Without the end, which joins the claimed runs with their jobs.
const CLAIM_LONE: &str = concat!(
    include_str!("../../../src/running/claims/claim_lone.sql"),
    "found AS (SELECT)\nSELECT picked.id FROM picked"
);
const CLAIM_LIMITED: &str = concat!(
    include_str!("../../../src/running/claims/claim_limited.sql"),
    include_str!("../../../src/running/claims/claim_end.sql")
);
const WAITING_LIMITED: &str = include_str!("../../../src/running/claims/claims_limited_waiting.sql");
const COUNTS: &str = include_str!("../../../src/cluster/overview/overview_counts.sql");
const WAITING: &str = include_str!("../../../src/cluster/overview/overview_waiting.sql");
const WAITS: &str = include_str!("../../../src/explain/blockers/waits_dispatches.sql");
const WAITS_QUEUES: &str = include_str!("../../../src/explain/blockers/waits_queues.sql");
const HOLDERS: &str = include_str!("../../../src/explain/blockers/waits_holders.sql");
const END: &str = include_str!("../../../src/running/attempts/attempts_end.sql");
const LOST_ATTEMPTS: &str = include_str!("../../../src/recovery/dead_workers/recovery_lost_attempts.sql");
const OVERDUE: &str = include_str!("../../../src/recovery/dead_workers/recovery_overdue.sql");
const EXPIRE: &str = include_str!("../../../src/running/expiry/waiting_expire.sql");
const LOOK_WAITING: &str = include_str!("../../../src/running/expiry/waiting_look.sql");
const PRUNE: &str = include_str!("../../../src/retention/retain/retention_dispatches.sql");
const CLEAR_KEYS: &str = include_str!("../../../src/retention/retain/retention_keys.sql");
const CANCEL: &str = include_str!("../../../src/dispatching/cancellations/cancel_dispatches.sql");
const CANCEL_WORD: &str = include_str!("../../../src/dispatching/cancellations/cancel_word.sql");
const CANCEL_OPEN: &str = include_str!("../../../src/dispatching/cancellations/cancel_open.sql");
const RETRY: &str = include_str!("../../../src/dispatching/retries/retry_sources.sql");
const FLEET: &str = include_str!("../../../src/cluster/health/health_fleet.sql");
const FIRST_DUE: &str = include_str!("../../../src/cluster/health/health_next_due.sql");
const STALE_CURSORS: &str = include_str!("../../../src/jobs/stale_cursors/stale_cursors_find.sql");
const NEXT_DUE: &str = include_str!("../../../src/dispatching/tick/tick_next_due.sql");
const OF_FEW: &str = include_str!("../../../src/dispatching/dispatches/dispatches_of_few.sql");
const EXECUTIONS: [&str; 2] = [
    concat!(
        include_str!("../../../src/running/executions/executions_page.sql"),
        include_str!("../../../src/running/executions/executions_list.sql")
    ),
    concat!(
        include_str!("../../../src/running/executions/executions_page.sql"),
        include_str!("../../../src/running/executions/executions_list_oldest.sql")
    ),
];
const EXECUTIONS_OF_JOB: [&str; 2] = [
    concat!(
        include_str!("../../../src/running/executions/executions_page.sql"),
        include_str!("../../../src/running/executions/executions_of_job.sql")
    ),
    concat!(
        include_str!("../../../src/running/executions/executions_page.sql"),
        include_str!("../../../src/running/executions/executions_of_job_oldest.sql")
    ),
];
const TRIGGER_WAIT: &str = include_str!("../../../src/dispatching/trigger/lock/trigger_wait.sql");
const INSERTS: [&str; 2] = [
    concat!(
        include_str!("../../../src/dispatching/insert/insert_given.sql"),
        include_str!("../../../src/dispatching/insert/insert_dispatches.sql"),
        include_str!("../../../src/dispatching/insert/insert_and_count.sql")
    ),
    concat!(
        include_str!("../../../src/dispatching/insert/insert_given.sql"),
        include_str!("../../../src/dispatching/insert/insert_dispatches.sql"),
        include_str!("../../../src/dispatching/insert/insert_alone.sql")
    ),
];
const TRIGGER_PLAIN: &str = concat!(
    include_str!("../../../src/dispatching/trigger/trigger_plain.sql"),
    include_str!("../../../src/dispatching/insert/insert_dispatches.sql"),
    include_str!("../../../src/dispatching/trigger/trigger_plain_end.sql")
);
const TRIGGERS_LOCK: &str = include_str!("../../../src/dispatching/trigger/lock/triggers_lock.sql");

const ENDING: usize = 8;

pub(super) async fn after_many_runs() -> Fixture {
    let world = Fixture::new().await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(20_000).insert().await;
    world
        .sql(
            "UPDATE job_dispatch SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = now(), attempt = 1,
                 worker_id = gen_random_uuid(), claim_token = nextval('claim_token_seq');
             UPDATE job_dispatch SET status = 'COMPLETED', completed_at = now();
             UPDATE scheduled_jobs SET active_dispatches = 0",
        )
        .await;
    world.runs(job.id).count(208).insert().await;
    let worker = world.worker().await;
    assert_eq!(world.claim(worker, 8).await.len(), 8);
    world.sql("ANALYZE").await;
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'PENDING'").await, 200);
    world
}

pub(super) async fn plans(world: &Fixture, statement: &str, types: &str, arguments: &str) -> [String; 2] {
    let types = if types.is_empty() { String::new() } else { format!(" ({types})") };
    world.sql(&format!("PREPARE asked{types} AS {statement}")).await;
    let mut plans = [const { String::new() }; 2];
    for (plan, mode) in plans.iter_mut().zip(["force_custom_plan", "force_generic_plan"]) {
        world.sql(&format!("SET plan_cache_mode = {mode}")).await;
        let arguments = if arguments.is_empty() { String::new() } else { format!(" ({arguments})") };
        *plan = world.rows(&format!("EXPLAIN EXECUTE asked{arguments}")).await.concat().join("\n");
    }
    world.sql("DEALLOCATE asked").await;
    plans
}

fn array(count: usize, literal: &str, sql_type: &str) -> String {
    format!("ARRAY[{}]::{sql_type}[]", vec![literal; count].join(", "))
}

fn uuids(count: usize) -> String {
    let ids: Vec<String> = (0..count).map(|_| format!("'{}'", Uuid::new_v4())).collect();
    format!("ARRAY[{}]::uuid[]", ids.join(", "))
}

fn ends(count: usize) -> (&'static str, String) {
    let types = "uuid[], bigint[], text[], bigint[], boolean[], text[], uuid[], timestamptz[], bigint[], integer[], jsonb[],
                 text[], text[], bigint[], uuid[], boolean[], boolean[], text[], text[], jsonb[]";
    let arguments = [
        uuids(count),
        array(count, "1", "bigint"),
        array(count, "'COMPLETED'", "text"),
        array(count, "0", "bigint"),
        array(count, "false", "boolean"),
        array(count, "'COMPLETED'", "text"),
        uuids(count),
        array(count, "'2026-01-01'", "timestamptz"),
        array(count, "1", "bigint"),
        array(count, "0", "integer"),
        array(count, "'{}'", "jsonb"),
        array(count, "NULL", "text"),
        array(count, "NULL", "text"),
        array(count, "0", "bigint"),
        array(count, "NULL", "uuid"),
        array(count, "false", "boolean"),
        array(count, "true", "boolean"),
        array(count, "'a job'", "text"),
        array(count, "NULL", "text"),
        array(count, "NULL", "jsonb"),
    ];
    (types, arguments.join(", "))
}

#[track_caller]
fn assert_uses(plan: &str, index: &str) {
    assert!(plan.contains(&format!("using {index} on job_dispatch")), "does not use {index}:\n{plan}");
    assert!(!plan.contains("Seq Scan on job_dispatch"), "reads all dispatches:\n{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn oldest_waiting_run_is_found_by_skip_scan() {
    let world = after_many_runs().await;
    for plan in plans(&world, FLEET, "", "").await {
        assert_uses(&plan, "job_dispatch_waiting_idx");
        assert!(plan.contains("Index Cond: (ROW("), "reads the whole line:\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_read_only_the_waiting_index() {
    let world = after_many_runs().await;
    let arguments = format!("'{}', 8, ARRAY['{QUEUE}', 'other'], '{}', 30000", Uuid::new_v4(), Uuid::max());
    for plan in plans(&world, CLAIM, "uuid, bigint, text[], uuid, integer", &arguments).await {
        assert_uses(&plan, "job_dispatch_waiting_idx");
        assert!(
            plan.contains("Tid Scan on job_dispatch"),
            "does not find the locked rows by their position:\n{plan}"
        );
    }
    let arguments = format!("'{}', ARRAY['{QUEUE}', 'other'], 30000", Uuid::new_v4());
    for plan in plans(&world, CLAIM_LONE, "uuid, text[], integer", &arguments).await {
        assert_uses(&plan, "job_dispatch_waiting_idx");
        assert!(plan.contains("Tid Scan on job_dispatch"), "{plan}");
        assert!(
            !plan.contains("Sort") && !plan.contains("Hash"),
            "more than a descent for each queue:\n{plan}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_claims_count_running_runs_through_claims() {
    let world = after_many_runs().await;
    let arguments =
        format!("'{}', 8, ARRAY['{}'::uuid], ARRAY['{QUEUE}'], 30000", Uuid::new_v4(), Uuid::nil());
    for plan in plans(&world, CLAIM_LIMITED, "uuid, bigint, uuid[], text[], integer", &arguments).await {
        assert_uses(&plan, "job_dispatch_waiting_idx");
        assert_uses(&plan, "job_dispatch_pkey");
    }
    for plan in plans(&world, WAITING_LIMITED, "text[]", &format!("ARRAY['{QUEUE}']")).await {
        assert_uses(&plan, "job_dispatch_waiting_idx");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_runs_are_counted_in_their_indexes() {
    let world = after_many_runs().await;
    for (statement, types, more) in [(COUNTS, "uuid, double precision", ", 5"), (WAITING, "uuid", "")] {
        for plan in plans(&world, statement, types, &format!("'{}'{more}", Uuid::nil())).await {
            assert!(plan.contains("job_dispatch_waiting_idx"), "{plan}");
            assert!(plan.contains("job_dispatch_line_idx"), "{plan}");
            assert!(!plan.contains("Seq Scan on job_dispatch"), "{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_tenant_reads_no_foreign_rows() {
    let world = after_many_runs().await;
    for number in 0..40 {
        let job = world.job(&format!("other-{number}")).save().await;
        world.runs(job.id).count(100).insert().await;
    }
    world
        .sql(
            "INSERT INTO tenants (slug, name) VALUES ('small', 'Small');
             INSERT INTO queues (tenant_id, name) SELECT id, 'default' FROM tenants WHERE slug = 'small';
             -- Most is over, as it is anywhere.
             UPDATE job_dispatch SET status = 'COMPLETED', claimable_at = NULL, completed_at = now() WHERE abs(hashtext(id::text)) % 50 > 0;
             ANALYZE",
        )
        .await;
    let small = world.text("SELECT id::text FROM tenants WHERE slug = 'small'").await;
    let types = "uuid, uuid, uuid, text[], text, uuid, text, boolean, uuid[], bigint";
    let bounds = format!("'{}', '{}'", Uuid::nil(), Uuid::max());
    let few = format!("'{small}', {bounds}, '{{FAILED}}', NULL, NULL, NULL, false, {}, 51", uuids(3));
    for plan in plans(&world, OF_FEW, types, &few).await {
        assert!(plan.contains("job_dispatch_job_id_scheduled_for_key"), "{plan}");
        assert!(!plan.contains("Seq Scan on job_dispatch") && !plan.contains("job_dispatch_pkey"), "{plan}");
    }
    for plan in plans(&world, COUNTS, "uuid, double precision", &format!("'{small}', 5")).await {
        assert!(!plan.contains("Seq Scan on job_dispatch"), "{plan}");
        assert!(plan.contains("(queue = q.name) AND (tenant_id = q.tenant_id)"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blockers_are_read_by_key() {
    let world = after_many_runs().await;
    let arguments = format!("'{}', {}", Uuid::nil(), uuids(3));
    for plan in plans(&world, WAITS, "uuid, uuid[]", &arguments).await {
        for index in ["job_dispatch_pkey", "job_dispatch_waiting_idx", "job_dispatch_line_idx"] {
            assert_uses(&plan, index);
        }
    }
    let arguments = format!("'{}', ARRAY['{QUEUE}', 'other']", Uuid::nil());
    for plan in plans(&world, WAITS_QUEUES, "uuid, text[]", &arguments).await {
        assert_uses(&plan, "job_dispatch_pkey");
    }
    let arguments = format!("'{}', {}, 5", Uuid::nil(), uuids(2));
    for plan in plans(&world, HOLDERS, "uuid, uuid[], integer", &arguments).await {
        assert_uses(&plan, "job_dispatch_pkey");
        assert!(plan.contains("job_dispatch_job_id_scheduled_for_key"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_attempts_reaches_dispatches_by_their_primary_key() {
    let world = after_many_runs().await;
    let (types, arguments) = ends(ENDING);
    for plan in plans(&world, END, types, &arguments).await {
        assert_uses(&plan, "job_dispatch_pkey");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ends_do_not_scan_once_each() {
    let world = after_many_runs().await;
    world.sql("UPDATE job_dispatch SET status = 'COMPLETED', completed_at = now() WHERE status = 'IN_PROGRESS'; ANALYZE").await;
    let (types, arguments) = ends(500);
    for plan in plans(&world, END, types, &arguments).await {
        let by_key = plan.contains("using job_dispatch_pkey on job_dispatch");
        assert!(by_key || plan.contains("Hash Join"), "neither by key nor once:\n{plan}");
        assert!(!plan.contains("Join Filter: ((d.id"), "compares every end with every dispatch:\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_attempts_are_found_through_the_claims_of_their_worker() {
    let world = after_many_runs().await;
    for plan in plans(&world, LOST_ATTEMPTS, "bigint", "100").await {
        assert_uses(&plan, "job_dispatch_pkey");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overdue_attempts_are_found_through_claims() {
    let world = after_many_runs().await;
    for plan in plans(&world, OVERDUE, "float8, float8, bigint", "30, 600, 100").await {
        assert_uses(&plan, "job_dispatch_pkey");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn states_of_claims_are_found_by_key() {
    let world = after_many_runs().await;
    let arguments = format!("{}, {}", uuids(20), array(20, "1", "bigint"));
    for plan in plans(&world, CANCEL_WORD, "uuid[], bigint[]", &arguments).await {
        assert_uses(&plan, "job_dispatch_pkey");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_runs_are_found_at_index_ends() {
    let world = after_many_runs().await;
    for plan in plans(&world, EXPIRE, "bigint", "100").await {
        assert_uses(&plan, "job_dispatch_expiring_idx");
        assert_uses(&plan, "job_dispatch_pkey");
    }
    for plan in plans(&world, LOOK_WAITING, "float8", "10").await {
        assert!(plan.contains("job_dispatch_waiting_idx"), "{plan}");
        assert!(plan.contains("job_dispatch_expiring_idx"), "{plan}");
        assert!(!plan.contains("Seq Scan on job_dispatch"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_reads_its_page_by_key_and_no_more() {
    let world = after_many_runs().await;
    world.sql("UPDATE job_dispatch SET idempotency_key = id::text WHERE id IN (SELECT id FROM job_dispatch LIMIT 500); ANALYZE").await;
    let ids = format!("'{}', '{}'", Uuid::nil(), Uuid::max());
    let arguments = format!("{ids}, 1000, now(), now()");
    for plan in plans(&world, PRUNE, "uuid, uuid, bigint, timestamptz, timestamptz", &arguments).await {
        assert_uses(&plan, "job_dispatch_pkey");
    }
    for plan in plans(&world, CLEAR_KEYS, "uuid, uuid, bigint", &format!("{ids}, 100")).await {
        assert_uses(&plan, "job_dispatch_keyed_idx");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_fire_time_is_read_from_the_index_of_cursors() {
    let world = Fixture::new().await;
    world.job("hourly").save().await;
    world
        .sql(
            "INSERT INTO scheduled_jobs (tenant_id, scope, project_id, name, task_function_id, job_type, schedule_config,
                                         next_run_at)
             SELECT tenant_id, scope, project_id, name || n, task_function_id, job_type, schedule_config,
                    next_run_at + n * interval '1 second'
             FROM scheduled_jobs, generate_series(1, 5000) AS n;
             ANALYZE",
        )
        .await;
    let nil = format!("'{}'", Uuid::nil());
    let stale = STALE_CURSORS.replace("$1", &nil).replace("$2", &nil).replace("$3", "100");
    for (statement, index) in [
        (NEXT_DUE.replace("$1", "2000"), "scheduled_jobs_due_idx"),
        (FIRST_DUE.replace("$1", "10"), "scheduled_jobs_due_idx"),
        (stale, "scheduled_jobs_stale_cursor_idx"),
    ] {
        let plan = world.rows(&format!("EXPLAIN {statement}")).await.concat().join("\n");
        assert!(plan.contains(index) && !plan.contains("Seq Scan on scheduled_jobs"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_find_runs_by_primary_key() {
    let world = after_many_runs().await;
    let nil = Uuid::nil();
    let arguments = format!("'{nil}', '{nil}', {}, 'cancelled'", uuids(3));
    for plan in plans(&world, CANCEL, "uuid, uuid, uuid[], text", &arguments).await {
        assert_uses(&plan, "job_dispatch_pkey");
    }
    let arguments = format!("'{nil}', '{nil}', 3");
    for plan in plans(&world, CANCEL_OPEN, "uuid, uuid, bigint", &arguments).await {
        assert_uses(&plan, "job_dispatch_waiting_job_idx");
    }
    let arguments = format!("'{nil}', {}", uuids(3));
    for plan in plans(&world, RETRY, "uuid, uuid[]", &arguments).await {
        assert_uses(&plan, "job_dispatch_pkey");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_find_jobs_by_key() {
    let world = after_many_runs().await;
    world
        .sql(
            "INSERT INTO scheduled_jobs SELECT (jsonb_populate_record(j, jsonb_build_object('id', gen_random_uuid(), 'name', 'job-' || n))).*
             FROM scheduled_jobs j, generate_series(1, 5000) AS n;
             ANALYZE scheduled_jobs",
        )
        .await;
    let nil = Uuid::nil();
    let names = array(4, "'job-7'", "text");
    for is_alone in [false, true] {
        let arguments = format!("'{nil}', 50::smallint, {is_alone}, {}, {names}", uuids(4));
        for plan in plans(&world, TRIGGERS_LOCK, "uuid, smallint, boolean, uuid[], text[]", &arguments).await
        {
            assert!(!plan.contains("Seq Scan on scheduled_jobs"), "reads all jobs:\n{plan}");
            assert!(plan.contains("LockRows"), "{plan}");
        }
    }
    let types = "uuid, smallint, uuid[], text[], jsonb[], text[], text[], text[], text[], text[], text[]";
    let texts = array(4, "'x'", "text");
    let arguments = format!(
        "'{nil}', 50::smallint, {}, {names}, {}, {texts}, {texts}, {texts}, {texts}, {texts}, {texts}",
        uuids(4),
        array(4, "'{}'", "jsonb")
    );
    for plan in plans(&world, TRIGGER_PLAIN, types, &arguments).await {
        assert!(!plan.contains("Seq Scan on scheduled_jobs"), "reads all jobs:\n{plan}");
        assert!(plan.contains("LockRows"), "{plan}");
    }
    for plan in plans(&world, TRIGGER_WAIT, "uuid, uuid, text", &format!("'{nil}', NULL, 'job-7'")).await {
        assert!(!plan.contains("Seq Scan on scheduled_jobs"), "reads all jobs:\n{plan}");
        assert!(plan.contains("LockRows"), "{plan}");
    }
    let types = "uuid, bigint, text, uuid[], uuid[], uuid[], timestamptz[], timestamptz[], boolean[], timestamptz[], text[],
                 smallint[], bigint[], jsonb[], boolean[], timestamptz[], text[], uuid[], uuid[], text[], text[]";
    let arguments = [
        "NULL, NULL, 'api'".to_owned(),
        uuids(4),
        uuids(4),
        uuids(4),
        array(4, "now()", "timestamptz"),
        array(4, "now()", "timestamptz"),
        array(4, "false", "boolean"),
        array(4, "NULL", "timestamptz"),
        array(4, "'q'", "text"),
        array(4, "50", "smallint"),
        array(4, "1", "bigint"),
        array(4, "NULL", "jsonb"),
        array(4, "false", "boolean"),
        array(4, "NULL", "timestamptz"),
        array(4, "'me'", "text"),
        uuids(4),
        array(4, "NULL", "uuid"),
        array(4, "NULL", "text"),
        array(4, "'00-a-b-01'", "text"),
    ];
    for insert in INSERTS {
        for plan in plans(&world, insert, types, &arguments.join(", ")).await {
            assert!(!plan.contains("Seq Scan on scheduled_jobs"), "reads all jobs:\n{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_of_attempts_is_read_in_index_order() {
    let world = Fixture::new().await;
    world
        .sql(&format!(
            "INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at, duration_ms,
                                            claim_token, triggered_by)
             SELECT gen_random_uuid(), '{tenant}', md5((n % 30)::text)::uuid, gen_random_uuid(), 1, 'COMPLETED', now(), now(), now(), 1, n, 'api'
             FROM generate_series(1, 30000) AS n;
             ANALYZE;
             SET ROLE sched_api;
             SELECT set_config('sched.tenant', '{tenant}', false)",
            tenant = TENANT,
        ))
        .await;
    let (tenant, nil, last) = (TENANT, Uuid::nil(), Uuid::max());
    let types = "uuid, timestamptz, timestamptz, text[], uuid, uuid, uuid, uuid, text, bigint";
    let (all, of_job) = (format!("uuid, {types}"), format!("uuid, uuid, {types}"));
    let filters = [
        "NULL, NULL, NULL, NULL, NULL, NULL".to_owned(),
        format!("'{{FAILED}}', NULL, '{nil}', '{nil}', '{nil}', 'api'"),
    ];
    // Newest first after the greatest id, oldest first after the least.
    for (place, end, filters) in
        [(0, last, &filters[0]), (0, last, &filters[1]), (1, nil, &filters[0]), (1, nil, &filters[1])]
    {
        let rest = format!("'{end}', NULL, NULL, {filters}, 51");
        let asked = [
            (EXECUTIONS[place], &all, format!("'{tenant}', {rest}"), "_pkey"),
            (
                EXECUTIONS_OF_JOB[place],
                &of_job,
                format!("'{tenant}', md5('1')::uuid, {rest}"),
                "_job_id_id_idx",
            ),
        ];
        for (statement, types, arguments, index) in asked {
            for plan in plans(&world, statement, types, &arguments).await {
                assert!(plan.contains(index), "does not use {index}:\n{plan}");
                assert!(!plan.contains("Seq Scan on job_execution_log"), "reads the history:\n{plan}");
                assert!(!plan.contains("->  Sort"), "sorts the history:\n{plan}");
            }
        }
    }
}

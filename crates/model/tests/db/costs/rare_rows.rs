//! Rare attempts and open runs are found without a read of the whole history.

use sched_model::dispatching::dispatches;
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{DispatchId, ExecutionId, WorkerId};
use sched_model::domain::run_state::DispatchStatus;
use sched_model::running::executions::{self, Filter};
use test_support::fixture::{Fixture, TENANT};
use uuid::Uuid;

use super::plans::{after_many_runs, plans};

const FAILING: &[AttemptOutcome] =
    &[AttemptOutcome::Failed, AttemptOutcome::Timeout, AttemptOutcome::Lost, AttemptOutcome::Expired];

const OPEN: &str = include_str!("../../../src/dispatching/dispatches/dispatches_open.sql");
const UNSUCCESSFUL: [&str; 2] = [
    concat!(
        include_str!("../../../src/running/executions/executions_unsuccessful_begin.sql"),
        include_str!("../../../src/running/executions/executions_page.sql"),
        include_str!("../../../src/running/executions/executions_unsuccessful.sql")
    ),
    concat!(
        include_str!("../../../src/running/executions/executions_unsuccessful_begin.sql"),
        include_str!("../../../src/running/executions/executions_page.sql"),
        include_str!("../../../src/running/executions/executions_unsuccessful_oldest.sql")
    ),
];
const UNSUCCESSFUL_COUNT: &str =
    include_str!("../../../src/running/executions/executions_unsuccessful_count.sql");
const SECTION_END: [&str; 2] = [
    include_str!("../../../src/running/executions/executions_section_end.sql"),
    include_str!("../../../src/running/executions/executions_section_end_oldest.sql"),
];

/// Successful attempts with ascending ids, and a few of each other outcome among them.
async fn history(attempts: usize) -> Fixture {
    let world = Fixture::new().await;
    world
        .sql(&format!(
            "INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at,
                                            duration_ms, claim_token, triggered_by, worker_id)
             SELECT lpad(to_hex(n), 32, '0')::uuid, '{TENANT}', gen_random_uuid(), gen_random_uuid(), 1,
                    CASE n % 1000 WHEN 1 THEN 'FAILED' WHEN 2 THEN 'LOST' ELSE 'COMPLETED' END, now(), now(), now(), 1, n, 'api',
                    CASE WHEN n = 7 THEN '{rare}'::uuid ELSE '{usual}'::uuid END
             FROM generate_series(1, {attempts}) AS n;
             ANALYZE",
            rare = Uuid::from_u128(1),
            usual = Uuid::from_u128(2),
        ))
        .await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn rare_attempts_are_read_from_their_index() {
    let world = history(30_000).await;
    world.sql("VACUUM job_execution_log").await;
    world.sql(&format!("SET ROLE sched_api; SELECT set_config('sched.tenant', '{TENANT}', false)")).await;
    let types = "text[], uuid, uuid, timestamptz, timestamptz, uuid, uuid, uuid, uuid, text, bigint";
    for status in ["{TIMEOUT}", "{FAILED,TIMEOUT,LOST,EXPIRED}"] {
        for (statement, beyond) in UNSUCCESSFUL.into_iter().zip([Uuid::max(), Uuid::nil()]) {
            let arguments =
                format!("'{status}', '{TENANT}', '{beyond}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 51");
            for plan in plans(&world, statement, types, &arguments).await {
                assert!(plan.contains("tenant_id_status_id_idx"), "{plan}");
            }
        }
    }
    let types = "uuid, text[], uuid, uuid, timestamptz, timestamptz, uuid, uuid, uuid, uuid, text, bigint";
    let ids = format!("'{}', '{}'", Uuid::nil(), Uuid::max());
    let arguments =
        format!("'{TENANT}', '{{TIMEOUT,LOST}}', {ids}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 10001");
    for plan in plans(&world, UNSUCCESSFUL_COUNT, types, &arguments).await {
        assert!(plan.contains("tenant_id_status_id_idx"), "{plan}");
    }
    for (statement, beyond) in SECTION_END.into_iter().zip([Uuid::max(), Uuid::nil()]) {
        for plan in
            plans(&world, statement, "uuid, uuid, bigint", &format!("'{TENANT}', '{beyond}', 2000")).await
        {
            assert!(plan.contains("Index Only Scan") && plan.contains("_pkey"), "{plan}");
            assert!(!plan.contains("->  Sort"), "{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_outcomes_are_merged_in_order() {
    let world = history(5_000).await;
    let conn = world.conn().await;
    let ids = async |filter: &Filter, limit: i64| {
        let found = executions::list(&conn, TENANT, filter, limit).await.unwrap();
        found.into_iter().map(|one| one.id.0.as_u128()).collect::<Vec<_>>()
    };
    let failing = Filter { status: FAILING, ..Filter::default() };
    assert_eq!(ids(&failing, 3).await, [4_002, 4_001, 3_002]);
    let after = Filter { after: Some(ExecutionId(Uuid::from_u128(4_001))), ..failing.clone() };
    assert_eq!(ids(&after, 2).await, [3_002, 3_001]);
    let oldest = Filter { oldest_first: true, ..failing.clone() };
    assert_eq!(ids(&oldest, 3).await, [1, 2, 1_001]);
    assert_eq!(ids(&Filter { status: &[AttemptOutcome::Timeout], ..failing.clone() }, 3).await, [0_u128; 0]);
    assert_eq!(executions::count(&conn, TENANT, &failing, 100).await.unwrap(), 10);
    assert!(!failing.is_rare());
}

#[tokio::test(flavor = "multi_thread")]
async fn sections_of_a_search_cover_each_attempt_once() {
    let world = history(1_000).await;
    let conn = world.conn().await;
    for oldest_first in [false, true] {
        let worker = Some(WorkerId(Uuid::from_u128(1)));
        let mut filter = Filter { worker, oldest_first, ..Filter::default() };
        assert!(filter.is_rare());
        let (mut found, mut sections) = (Vec::new(), 0);
        loop {
            let end = executions::section_end(&conn, TENANT, &filter, 300).await.unwrap();
            found.extend(executions::list_section(&conn, TENANT, &filter, (end, 10)).await.unwrap());
            sections += 1;
            let Some(end) = end else { break };
            filter.after = Some(end);
        }
        let found: Vec<u128> = found.into_iter().map(|one| one.id.0.as_u128()).collect();
        assert_eq!((found, sections), (vec![7], 4), "oldest first: {oldest_first}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_runs_are_found_without_finished_ones() {
    let world = after_many_runs().await;
    let arguments = format!("'{}', true, true, 5001", Uuid::nil());
    for plan in plans(&world, OPEN, "uuid, boolean, boolean, bigint", &arguments).await {
        for index in ["job_dispatch_waiting_idx", "job_dispatch_line_idx", "job_dispatch_pkey"] {
            assert!(plan.contains(index), "{index}: {plan}");
        }
        assert!(!plan.contains("Seq Scan on job_dispatch"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_runs_are_listed_by_their_state() {
    let world = Fixture::new().await;
    let job = world.job("busy").save().await;
    let narrow = world.job("narrow").save().await;
    world.runs(job.id).count(4).insert().await;
    world.runs(narrow.id).insert().await;
    world
        .sql(
            "UPDATE job_dispatch SET claimable_at = 'infinity' WHERE job_id = (SELECT id FROM scheduled_jobs WHERE name = 'narrow');
             UPDATE scheduled_jobs SET queued_dispatches = 1 WHERE name = 'narrow'",
        )
        .await;
    let worker = world.worker().await;
    let claimed: Vec<DispatchId> =
        world.claim(worker, 2).await.into_iter().map(|claimed| claimed.dispatch_id).collect();
    let mut conn = world.conn().await;
    let mut open = async |status: &'static [DispatchStatus], job| {
        let filter = dispatches::Filter { status, job, ..dispatches::Filter::default() };
        let found = dispatches::list(&mut conn, TENANT, &filter, 10).await.unwrap();
        assert_eq!(dispatches::count(&mut conn, TENANT, &filter, 10).await.unwrap(), found.len());
        assert!(found.is_sorted_by(|one, other| one.row.id > other.row.id), "newest first");
        found.into_iter().map(|one| one.row.id).collect::<Vec<_>>()
    };
    let running = open(&[DispatchStatus::InProgress], None).await;
    assert_eq!(running.len(), 2);
    assert!(running.iter().all(|id| claimed.contains(id)));
    assert_eq!(open(&[DispatchStatus::Pending], None).await.len(), 3);
    assert_eq!(open(&[DispatchStatus::Pending], Some(narrow.id)).await.len(), 1);
    assert_eq!(open(&[DispatchStatus::Pending, DispatchStatus::InProgress], None).await.len(), 5);
    assert_eq!(open(&[DispatchStatus::Failed], None).await.len(), 0);
}

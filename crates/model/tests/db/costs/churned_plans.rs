//! Costs of the hot statements on churned tables, with the plans of early and of stale statistics.
//!
//! The daemons plan a statement once for each connection (`generic_plans`). The plan stays until
//! the statistics of one of its tables change, however much the tables grow until then.

use super::churn::{Cost, Planned, Statement, churned, cost};

/// The queries of `events/stream/page.rs` for a page of the events of a job.
const ENDS_OF_JOB: &str = "
SELECT transaction_id, id, created_at, event_type, payload FROM run_end_events
WHERE tenant_id = $1 AND (transaction_id, id) > ('100'::xid8, 1) AND transaction_id >= '100'::xid8 AND only_job_id = $2
ORDER BY transaction_id DESC, batch_id DESC, id DESC LIMIT $3";
const MIXED_ENDS_OF_JOB: &str = "
SELECT transaction_id, id, created_at, event_type, payload FROM run_end_events
WHERE tenant_id = $1 AND (transaction_id, id) > ('480'::xid8, 1) AND transaction_id >= '480'::xid8 AND only_job_id IS NULL
  AND job_id = $2
ORDER BY transaction_id DESC, batch_id DESC, id DESC LIMIT $3";

const fn most(pages: u64, rows: u64) -> Cost {
    Cost { pages, rows }
}

const STATEMENTS: [Statement; 25] = [
    Statement {
        name: "claim",
        text: concat!(
            include_str!("../../../src/running/claims/claim.sql"),
            include_str!("../../../src/running/claims/claim_end.sql")
        ),
        types: "uuid, bigint, text[], uuid, integer",
        arguments: "md5('live')::uuid, 100, ARRAY['default', 'lone'], 'ffffffff-ffff-ffff-ffff-ffffffffffff', 30000",
        most: most(4_000, 1_000),
    },
    Statement {
        name: "claim of one",
        text: concat!(
            include_str!("../../../src/running/claims/claim_lone.sql"),
            include_str!("../../../src/running/claims/claim_end.sql")
        ),
        types: "uuid, text[], integer",
        arguments: "md5('live')::uuid, ARRAY['lone'], 30000",
        most: most(200, 100),
    },
    Statement {
        name: "claim of limited",
        text: concat!(
            include_str!("../../../src/running/claims/claim_limited.sql"),
            include_str!("../../../src/running/claims/claim_end.sql")
        ),
        types: "uuid, bigint, uuid[], text[], integer",
        arguments: "md5('live')::uuid, 100, ([tenants])[1:1], ARRAY['limited'], 30000",
        most: most(4_500, 1_200),
    },
    Statement {
        name: "ends of attempts",
        text: include_str!("../../../src/running/attempts/attempts_end.sql"),
        types: "uuid[], bigint[], text[], bigint[], boolean[], text[], uuid[], timestamptz[], bigint[], integer[], jsonb[], text[], text[], bigint[], uuid[], boolean[], boolean[], text[], text[], jsonb[]",
        arguments: "[running], [tokens], array_fill('COMPLETED'::text, ARRAY[100]), array_fill(0::bigint, ARRAY[100]), array_fill(false::boolean, ARRAY[100]), array_fill('COMPLETED'::text, ARRAY[100]), [new], [fires], array_fill(1::bigint, ARRAY[100]), array_fill(0::integer, ARRAY[100]), array_fill(NULL::jsonb, ARRAY[100]), array_fill(NULL::text, ARRAY[100]), array_fill(NULL::text, ARRAY[100]), array_fill(0::bigint, ARRAY[100]), array_fill(NULL::uuid, ARRAY[100]), array_fill(false::boolean, ARRAY[100]), array_fill(true::boolean, ARRAY[100]), array_fill('a job'::text, ARRAY[100]), array_fill(NULL::text, ARRAY[100]), array_fill(NULL::jsonb, ARRAY[100])",
        most: most(2_000, 1_000),
    },
    Statement {
        name: "release of claims",
        text: include_str!("../../../src/running/attempts/attempts_release_claims.sql"),
        types: "bigint[]",
        arguments: "[claims]",
        most: most(2_500, 4_000),
    },
    Statement {
        name: "section of events",
        text: concat!(
            include_str!("../../../src/events/section/events_section.sql"),
            include_str!("../../../src/events/section/events_look.sql")
        ),
        types: "bigint, bigint, bigint[], bigint, timestamptz",
        arguments: "490, 0, '{}', 256, now()",
        most: most(200, 600),
    },
    Statement {
        name: "section for notifications",
        text: concat!(
            include_str!("../../../src/events/section/events_section.sql"),
            include_str!("../../../src/events/section/notifications_match.sql")
        ),
        types: "bigint, bigint, bigint[], bigint, text",
        arguments: "490, 0, '{}', 256, 'sched.notify'",
        most: most(300, 600),
    },
    Statement {
        name: "foreign events",
        text: include_str!("../../../src/events/stream/events_settle_foreign.sql"),
        types: "bigint",
        arguments: "5000",
        most: most(60, 400),
    },
    Statement {
        name: "ends of a job",
        text: ENDS_OF_JOB,
        types: "uuid, uuid, bigint",
        arguments: "([tenants])[1], [job], 50",
        most: most(100, 200),
    },
    Statement {
        name: "ends of a job in mixed batches",
        text: MIXED_ENDS_OF_JOB,
        types: "uuid, uuid, bigint",
        arguments: "([tenants])[1], [job], 50",
        most: most(100, 1_500),
    },
    Statement {
        name: "uncounted ends",
        text: include_str!("../../../src/running/job_counters/uncounted_take.sql"),
        types: "bigint",
        arguments: "200",
        most: most(3_000, 4_500),
    },
    Statement {
        name: "whether ends are uncounted",
        text: include_str!("../../../src/running/job_counters/uncounted_exist.sql"),
        types: "float8",
        arguments: "0",
        most: most(50, 100),
    },
    Statement {
        name: "locks of counted jobs",
        text: include_str!("../../../src/running/job_counters/job_counters_lock.sql"),
        types: "uuid[], uuid[]",
        arguments: "[tenants], [jobs]",
        most: most(1_200, 1_000),
    },
    Statement {
        name: "counted ends",
        text: include_str!("../../../src/running/job_counters/job_counters_add.sql"),
        types: "uuid[], uuid[], integer[], timestamptz[], text[]",
        arguments: "[tenants], [jobs], array_fill(1::integer, ARRAY[100]), [fires], array_fill('COMPLETED'::text, ARRAY[100])",
        most: most(3_000, 8_000),
    },
    Statement {
        name: "uncounted ends of due jobs",
        text: include_str!("../../../src/dispatching/tick/tick_uncounted.sql"),
        types: "uuid[], uuid[]",
        arguments: "[tenants], [jobs]",
        most: most(1_200, 3_500),
    },
    Statement {
        name: "jobs to plan ahead",
        text: concat!(
            include_str!("../../../src/dispatching/tick/tick_read_ahead.sql"),
            include_str!("../../../src/dispatching/tick/tick_due_jobs.sql")
        ),
        types: "timestamptz, integer, timestamptz, bigint",
        arguments: "now() - interval '1 hour', 0, now() + interval '1 minute', 100",
        most: most(4_000, 3_000),
    },
    Statement {
        name: "due jobs",
        text: concat!(
            include_str!("../../../src/dispatching/tick/tick_lock_due.sql"),
            include_str!("../../../src/dispatching/tick/tick_due_jobs.sql")
        ),
        types: "timestamptz, bigint, bigint",
        arguments: "now() + interval '1 minute', 100, 0",
        most: most(1_600, 1_000),
    },
    Statement {
        name: "planned fires",
        text: concat!(
            include_str!("../../../src/dispatching/planned/move_planned.sql"),
            include_str!("../../../src/dispatching/insert/insert_dispatches.sql"),
            include_str!("../../../src/dispatching/planned/dispatched_planned.sql")
        ),
        types: "uuid, bigint, uuid[], uuid[], text[], uuid[], text[], integer[], uuid[], uuid[], uuid[], bigint[], timestamptz[], timestamptz[], timestamptz[], timestamptz[], text[], smallint[], timestamptz[], text[]",
        arguments: "md5('leader')::uuid, 1, ([tenants])[1:1], ([sources])[1:1], ARRAY['default'], ([sources])[2:2], ARRAY[[edition]], array_fill(1::integer, ARRAY[100]), [new], [tenants], [jobs], array_fill(1::bigint, ARRAY[100]), [fires], array_fill('2100-01-01'::timestamptz, ARRAY[100]), array_fill('2100-01-01'::timestamptz, ARRAY[100]), [fires], array_fill('default'::text, ARRAY[100]), array_fill(50::smallint, ARRAY[100]), array_fill(NULL::timestamptz, ARRAY[100]), array_fill('2026a'::text, ARRAY[100])",
        most: most(6_500, 1_000),
    },
    Statement {
        // The rows: 100 by 100 without statistics. One request of a batch names at most 100 jobs.
        name: "triggers without a decision",
        text: concat!(
            include_str!("../../../src/dispatching/trigger/trigger_plain.sql"),
            include_str!("../../../src/dispatching/insert/insert_dispatches.sql"),
            include_str!("../../../src/dispatching/trigger/trigger_plain_end.sql")
        ),
        types: "uuid, smallint, uuid[], text[], jsonb[], text[], text[], text[], text[], text[], text[]",
        arguments: "([tenants])[1], 50::smallint, [jobs], array_fill(NULL::text, ARRAY[100]), array_fill(NULL::jsonb, ARRAY[100]), array_fill('api'::text, ARRAY[100]), array_fill('me'::text, ARRAY[100]), array_fill(NULL::text, ARRAY[100]), array_fill('me'::text, ARRAY[100]), array_fill('r'::text, ARRAY[100]), array_fill(NULL::text, ARRAY[100])",
        most: most(5_000, 10_000),
    },
    Statement {
        name: "locks of triggered jobs",
        text: include_str!("../../../src/dispatching/trigger/lock/triggers_lock.sql"),
        types: "uuid, smallint, boolean, uuid[], text[]",
        arguments: "([tenants])[1], 50::smallint, false, [jobs], array_fill(NULL::text, ARRAY[100])",
        most: most(2_000, 1_000),
    },
    Statement {
        name: "lost attempts",
        text: include_str!("../../../src/recovery/dead_workers/recovery_lost_attempts.sql"),
        types: "bigint",
        arguments: "100",
        most: most(5_000, 1_200),
    },
    Statement {
        name: "overdue attempts",
        text: include_str!("../../../src/recovery/dead_workers/recovery_overdue.sql"),
        types: "float8, float8, bigint",
        arguments: "30, 600, 100",
        most: most(400, 4_000),
    },
    Statement {
        name: "claims unknown to their worker",
        text: include_str!("../../../src/recovery/dead_workers/recovery_unknown_claims.sql"),
        types: "uuid, bigint[]",
        arguments: "md5('live')::uuid, [tokens]",
        most: most(3_500, 4_000),
    },
    Statement {
        name: "claims of dead workers",
        text: include_str!("../../../src/recovery/dead_workers/recovery_forget_claims.sql"),
        types: "",
        arguments: "",
        most: most(400, 200),
    },
    Statement {
        name: "runs to hold",
        text: include_str!("../../../src/dispatching/overlap_queue/line_hold.sql"),
        types: "bigint",
        arguments: "500",
        most: most(1_500, 1_000),
    },
];

async fn assert_costs(planned: Planned) {
    let world = churned(planned, &STATEMENTS).await;
    let mut wrong = Vec::new();
    for (number, statement) in STATEMENTS.iter().enumerate() {
        let (found, plan) = cost(&world, number, statement).await;
        if found.pages > statement.most.pages || found.rows > statement.most.rows {
            wrong.push(format!("{}: {found:?}, not {:?}\n{plan}", statement.name, statement.most));
        }
    }
    assert!(wrong.is_empty(), "{planned:?}:\n{}", wrong.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_made_before_use_stay_cheap() {
    assert_costs(Planned::BeforeUse).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_by_statistics_of_empty_tables_stay_cheap() {
    assert_costs(Planned::AnalyzedEmpty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_by_statistics_of_full_tables_stay_cheap() {
    assert_costs(Planned::AnalyzedFull).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_by_statistics_of_idle_tables_stay_cheap() {
    assert_costs(Planned::AnalyzedIdle).await;
}

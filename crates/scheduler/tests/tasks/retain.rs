use std::time::Duration;

use sched_model::cluster::housekeeping::{self, Housekeeping};
use sched_model::domain::ids::DEFAULT_TENANT;
use sched_model::domain::retention::{HistoryExpiry, Retention};
use sched_runtime::driver::{Activation, Report};
use sched_scheduler::tasks::Scope;
use sched_scheduler::tasks::retain::{Ages, Retain};

use crate::leader::{Leader, assert_refused, run};

const AGES: Ages = Ages {
    retention: Retention { finished_days: 30, dead_letter_days: 90, audit_days: 365 },
    idempotency_keys: Duration::from_secs(24 * 3600),
};

const TOLD: Housekeeping = Housekeeping {
    retention: AGES.retention,
    idempotency_keys: AGES.idempotency_keys,
    expiry: HistoryExpiry::Drop,
    stale_scheduler: Duration::from_secs(120),
    stale_worker: Duration::from_secs(3600),
};

fn retain(scope: Scope) -> Retain {
    Retain::new(scope, AGES, 10)
}

/// Inserts `count` finished manual runs, `days` days old, with idempotency keys.
async fn finished(leader: &Leader, count: i32, days: i32) {
    leader
        .sql(&format!(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, created_at, available_at, completed_at, status, queue,
                                       triggered_by, trigger_id, args, idempotency_key)
             SELECT u.id, j.tenant_id, j.id, j.version, u.at, u.at, u.at, u.at, 'COMPLETED', 'default', 'api', u.id, '{{}}', u.id::text
             FROM scheduled_jobs j
             CROSS JOIN LATERAL (
                 SELECT a.at, (lpad(to_hex((extract(epoch FROM a.at) * 1000)::bigint), 12, '0') || '7'
                               || substr(md5(n::text || a.at::text), 1, 3) || '8' || substr(md5(n::text), 1, 15))::uuid AS id
                 FROM generate_series(1, {count}) AS n, LATERAL (SELECT now() - interval '{days} days' AS at) AS a) AS u"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_through_all_that_is_old_and_the_next_finds_nothing() {
    let leader = Leader::new().await;
    leader.job_with_runs("busy", 3).await;
    finished(&leader, 35, 40).await;
    finished(&leader, 25, 5).await;
    leader
        .sql(&format!(
            "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason, recorded_at)
             SELECT '{DEFAULT_TENANT}', id, at, at, 1, 'misfire', at
             FROM scheduled_jobs, generate_series(now() - interval '50 days', now() - interval '10 days', interval '1 day') AS at;
             INSERT INTO events (event_type, created_at) VALUES ('tested', now() - interval '99 days');
             INSERT INTO housekeeping (finished_days, dead_letter_days, audit_days, idempotency_key_seconds, history_expiry,
                                       stale_scheduler_seconds, stale_worker_seconds)
             VALUES (30, 90, 365, 3600, 'drop', 60, 60)"
        ))
        .await;
    let mut retain = retain(leader.scope.clone());
    let report = run(&mut retain).await;
    assert_eq!(report.next_in, None, "all of it in one run");
    let (dispatches, skips) = (&report.counts["dispatches"], &report.counts["skips"]);
    assert_eq!((dispatches, &report.counts["events"]), (&35.into(), &1.into()));
    assert!((20..=21).contains(&skips.as_i64().unwrap()), "{skips}");
    assert!(report.counts["idempotency_keys"].as_i64().unwrap() >= 25, "keys of remaining dispatches");
    assert_eq!(leader.number("SELECT count(*) FROM job_dispatch").await, 28);
    assert_eq!(leader.number("SELECT count(idempotency_key) FROM job_dispatch").await, 0);
    let said = "SELECT ledger_starts_at >= (SELECT max(first_fire_at) FROM skipped_fires) - interval '41 days' FROM scheduled_jobs";
    assert_eq!(leader.records(said).await, ["(t)"]);
    assert_eq!(run(&mut retain).await, Report::idle());
    // These rows expired after the start of the pass.
    finished(&leader, 1, 31).await;
    assert_eq!(run(&mut retain).await.counts["dispatches"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_lead_any_more_removes_nothing() {
    let leader = Leader::new().await;
    leader.job_with_runs("busy", 1).await;
    finished(&leader, 5, 40).await;
    let mut deposed = retain(leader.deposed());
    assert_refused(&deposed.run_once().await);
    assert_eq!(leader.number("SELECT count(*) FROM job_dispatch").await, 6);
    assert_eq!(leader.number("SELECT count(idempotency_key) FROM job_dispatch").await, 5);
    assert_eq!(run(&mut retain(leader.scope.clone())).await.counts["dispatches"], 5, "the leader does");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_leaves_it_to_the_built_in_job_while_that_keeps_up() {
    let leader = Leader::new().await;
    leader.job_with_runs("busy", 1).await;
    finished(&leader, 5, 40).await;
    let mut conn = leader.conn().await;
    housekeeping::store(&mut conn, &TOLD).await.unwrap();
    housekeeping::note_retained(&mut conn).await.unwrap();
    let mut retain = retain(leader.scope.clone());
    assert_eq!(run(&mut retain).await, Report::idle());
    assert_eq!(leader.number("SELECT count(*) FROM job_dispatch").await, 6, "no dispatch was deleted");
    // The built-in job does not delete this.
    leader
        .sql(
            "INSERT INTO live_progress (tenant_id, dispatch_id, claim_token, message)
             SELECT tenant_id, id, 7, 'half of it' FROM job_dispatch",
        )
        .await;
    assert_eq!(run(&mut retain).await, Report::idle());
    assert_eq!(leader.number("SELECT count(*) FROM live_progress").await, 0);
    // A future time is ignored, like one that is too old.
    for mark in ["now() + interval '1 minute'", "now() - interval '61 minutes'"] {
        finished(&leader, 1, 41).await;
        leader.sql(&format!("UPDATE housekeeping SET retained_at = {mark}")).await;
        assert!(run(&mut retain).await.counts["dispatches"].as_i64().is_some_and(|gone| gone > 0), "{mark}");
        retain = self::retain(leader.scope.clone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_sessions_and_old_keys_are_removed() {
    let leader = Leader::new().await;
    leader
        .sql(&format!(
            "INSERT INTO users (id, email, display_name) VALUES ('{DEFAULT_TENANT}', 'u@example.com', 'U');
             INSERT INTO memberships (tenant_id, user_id, role) VALUES ('{DEFAULT_TENANT}', '{DEFAULT_TENANT}', 'viewer');
             INSERT INTO sessions (tenant_id, id, user_id, token_hash, idle_until, expires_at)
             SELECT '{DEFAULT_TENANT}', gen_random_uuid(), '{DEFAULT_TENANT}', sha256(n::text::bytea), now() + n * interval '1 minute',
                    now() + interval '1 hour'
             FROM unnest(ARRAY[-2, -1, 1]) AS n;
             INSERT INTO api_keys (tenant_id, name, key_prefix, key_hash, scopes, created_at, expires_at, revoked_at)
             SELECT '{DEFAULT_TENANT}', k.name, 'sched_test_' || repeat(k.letter, 16), sha256(k.name::bytea), '{{jobs:read}}',
                    now() - interval '99 days', k.expires_at, k.revoked_at
             FROM (VALUES ('valid', 'a', NULL::timestamptz, NULL::timestamptz),
                          ('expires', 'b', now() + interval '1 day', NULL),
                          ('expired', 'c', now() - interval '31 days', NULL),
                          ('revoked', 'd', NULL, now() - interval '31 days'),
                          ('just-expired', 'e', now() - interval '29 days', NULL),
                          ('just-revoked', 'f', NULL, now() - interval '29 days')) AS k (name, letter, expires_at, revoked_at)"
        ))
        .await;
    let mut conn = leader.conn().await;
    // Also while the built-in job does the rest.
    housekeeping::store(&mut conn, &TOLD).await.unwrap();
    housekeeping::note_retained(&mut conn).await.unwrap();
    let mut retain = retain(leader.scope.clone());
    let counts = run(&mut retain).await.counts;
    assert_eq!((&counts["sessions"], &counts["api_keys"]), (&2.into(), &2.into()), "{counts}");
    assert_eq!(leader.number("SELECT count(*) FROM sessions WHERE idle_until > now()").await, 1);
    let left = leader.text("SELECT string_agg(name, ' ' ORDER BY name) FROM api_keys").await;
    assert_eq!(left, "expires just-expired just-revoked valid");
    assert_eq!(run(&mut retain).await, Report::idle());
}

//! The invariants that take more than the product's tables: expected fire times, answers of the API, the end of the faults.
//!
//! They speak about the schema `run`, which `finished` fills.

use crate::checks::Invariant;

/// What a run tells besides its tables.
pub(crate) const OF_RUN: &[Invariant] = &[
    Invariant {
        name: "2: every fire time that the oracle expects has exactly one dispatch or lies in exactly one skip",
        checked: "SELECT count(*) FROM run.fires f JOIN scheduled_jobs j ON j.id = f.job_id WHERE f.at <= j.settled_until",
        broken: "SELECT j.name, f.at, f.version, fates.dispatches, fates.skips, j.settled_until
                 FROM run.fires f JOIN scheduled_jobs j ON j.id = f.job_id
                 CROSS JOIN LATERAL (SELECT
                     (SELECT count(*) FROM job_dispatch d WHERE d.job_id = f.job_id AND d.scheduled_for = f.at AND d.trigger_id IS NULL) AS dispatches,
                     (SELECT count(*) FROM skipped_fires s WHERE s.job_id = f.job_id AND s.trigger_id IS NULL
                      AND f.at BETWEEN s.first_fire_at AND s.last_fire_at) AS skips) fates
                 WHERE f.at <= j.settled_until AND fates.dispatches + fates.skips <> 1",
    },
    Invariant {
        name: "2: every dispatch of a schedule stands at a fire time that the oracle expects",
        checked: "SELECT count(*) FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id AND j.scope = 'project' WHERE d.trigger_id IS NULL",
        broken: "SELECT j.name, d.scheduled_for, d.id FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id AND j.scope = 'project'
                 WHERE d.trigger_id IS NULL
                   AND NOT EXISTS (SELECT FROM run.fires f WHERE f.job_id = d.job_id AND f.at = d.scheduled_for)",
    },
    Invariant {
        name: "2: every skip holds as many expected fire times as it says, from its first to its last",
        checked: "SELECT count(*) FROM skipped_fires s JOIN scheduled_jobs j ON j.id = s.job_id AND j.scope = 'project'
                  WHERE s.trigger_id IS NULL AND s.is_count_exact",
        broken: "SELECT j.name, s.first_fire_at, s.last_fire_at, s.reason, s.fire_count, held.fires
                 FROM skipped_fires s JOIN scheduled_jobs j ON j.id = s.job_id AND j.scope = 'project'
                 -- An excluded one inside another range belongs to it, and is none of the fires that it counts.
                 CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE f.is_excluded = (s.reason = 'calendar')) AS fires, min(f.at) AS first, max(f.at) AS last
                                     FROM run.fires f WHERE f.job_id = s.job_id AND f.at BETWEEN s.first_fire_at AND s.last_fire_at) held
                 WHERE s.trigger_id IS NULL AND s.is_count_exact
                   AND (held.fires, held.first, held.last) IS DISTINCT FROM (s.fire_count, s.first_fire_at, s.last_fire_at)",
    },
    Invariant {
        name: "2: what calendars exclude by the oracle is not dispatched, and nothing else is skipped because of a calendar",
        checked: "SELECT count(*) FROM run.fires f JOIN scheduled_jobs j ON j.id = f.job_id WHERE f.is_excluded AND f.at <= j.settled_until",
        broken: "SELECT f.job_id, f.at, 'dispatched' FROM run.fires f
                 JOIN job_dispatch d ON d.job_id = f.job_id AND d.scheduled_for = f.at AND d.trigger_id IS NULL WHERE f.is_excluded
                 UNION ALL SELECT f.job_id, f.at, 'skipped' FROM run.fires f
                 JOIN skipped_fires s ON s.job_id = f.job_id AND s.trigger_id IS NULL AND f.at BETWEEN s.first_fire_at AND s.last_fire_at
                 WHERE s.reason = 'calendar' AND NOT f.is_excluded",
    },
    Invariant {
        name: "2: books of what fires are settled up to the end of the faults at least",
        checked: "SELECT count(*) FROM scheduled_jobs WHERE scope = 'project' AND next_run_at IS NOT NULL",
        broken: "SELECT j.name, j.next_run_at, q.at FROM scheduled_jobs j CROSS JOIN run.quiet q
                 WHERE j.scope = 'project' AND j.next_run_at < q.at",
    },
    Invariant {
        name: "10: next_run_at is the first fire time, as the oracle expects them, after the last one handled",
        checked: "SELECT count(*) FROM scheduled_jobs WHERE scope = 'project' AND job_type <> 'manual' AND is_enabled",
        broken: "SELECT j.name, j.settled_until, j.next_run_at, next.at FROM scheduled_jobs j
                 CROSS JOIN LATERAL (SELECT min(f.at) AS at FROM run.fires f WHERE f.job_id = j.id AND f.at > j.settled_until AND NOT f.is_excluded) next
                 WHERE j.scope = 'project' AND j.job_type <> 'manual' AND j.is_enabled AND j.next_run_at IS DISTINCT FROM next.at",
    },
    Invariant {
        name: "10: nobody disabled a job but who was asked to, by a version that says so",
        checked: "SELECT count(*) FROM scheduled_jobs WHERE scope = 'project'",
        // A job that is disabled by mistake has no fire times, so that no other rule speaks about it.
        broken: "SELECT j.name, j.version, NULL::timestamptz AS at, coalesce(j.disabled_reason, '') AS reason FROM scheduled_jobs j
                 WHERE j.scope = 'project' AND (j.disabled_reason IS NOT NULL
                    OR (NOT j.is_enabled AND NOT EXISTS (SELECT FROM scheduled_job_versions v WHERE v.tenant_id = j.tenant_id AND v.job_id = j.id
                                                           AND v.version = j.version AND v.settings->>'is_enabled' = 'false')))
                 UNION ALL SELECT j.name, s.version, s.at, 'switched' FROM (
                     SELECT w.*, lag(w.is_enabled) OVER switches AS was_enabled, lag(w.version) OVER switches AS version_before
                     FROM witness.switches w WINDOW switches AS (PARTITION BY w.job_id ORDER BY w.id)) s
                 JOIN scheduled_jobs j ON j.id = s.job_id AND j.scope = 'project'
                 WHERE s.was_enabled AND NOT s.is_enabled AND s.version <= s.version_before",
    },
    Invariant {
        name: "8: what ran when the last fault was over has ended a minute later",
        // What had ended before that is judged by nothing; ten seconds earlier something ran for sure.
        checked: "SELECT count(*) FROM job_execution_log l CROSS JOIN run.quiet q
                  WHERE l.started_at < q.at AND l.completed_at > q.at - interval '10 seconds'",
        broken: "SELECT l.dispatch_id, l.attempt, l.started_at, l.completed_at, l.status FROM job_execution_log l CROSS JOIN run.quiet q
                 WHERE l.started_at < q.at AND l.completed_at > q.at + interval '1 minute'",
    },
    Invariant {
        name: "2: each end after which others run is exactly one dispatch or skip of each of them, and none of these is without one",
        checked: "SELECT count(*) FROM run.followed_ends WHERE is_each_a_run",
        broken: "SELECT j.name, e.dispatch_id, e.at, fates.count FROM run.followed_ends e JOIN scheduled_jobs j ON j.id = e.job_id
                 CROSS JOIN LATERAL (SELECT
                     (SELECT count(*) FROM job_dispatch d WHERE d.job_id = e.job_id AND d.scheduled_for = e.at AND d.trigger_id = e.dispatch_id)
                     + (SELECT count(*) FROM skipped_fires s WHERE s.job_id = e.job_id AND s.first_fire_at = e.at AND s.trigger_id = e.dispatch_id) AS count) fates
                 WHERE e.is_each_a_run AND fates.count <> 1
                 UNION ALL SELECT j.name, r.trigger_id, r.at, 0 FROM (
                     SELECT job_id, trigger_id, scheduled_for AS at FROM job_dispatch WHERE triggered_by = 'dependency'
                     UNION ALL SELECT job_id, trigger_id, first_fire_at FROM skipped_fires WHERE trigger_id IS NOT NULL) r
                 JOIN scheduled_jobs j ON j.id = r.job_id AND j.id IN (SELECT job_id FROM witness.unchanged_jobs)
                 WHERE NOT EXISTS (SELECT FROM run.followed_ends e WHERE e.job_id = r.job_id AND e.dispatch_id = r.trigger_id AND e.at = r.at)",
    },
    Invariant {
        name: "8: nothing is open at the end, and nothing waits to be told to those who come after",
        checked: "SELECT count(*) FROM job_dispatch",
        broken: "SELECT id::text, status, available_at, claimable_at FROM job_dispatch WHERE completed_at IS NULL
                 UNION ALL SELECT dispatch_id::text, status, ended_at, NULL FROM job_ends",
    },
    Invariant {
        name: "11: every trigger that was accepted is a dispatch, with its key",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'trigger' AND status = 202",
        broken: "SELECT a.* FROM run.answers a LEFT JOIN job_dispatch d ON d.id = a.id
                 WHERE a.action = 'trigger' AND a.status = 202 AND d.idempotency_key IS DISTINCT FROM a.key",
    },
    Invariant {
        name: "11: one key is one dispatch, however often it was sent and whatever became of the answers",
        checked: "SELECT count(DISTINCT key) FROM run.answers WHERE action = 'trigger'",
        broken: "SELECT key, count(DISTINCT id) FROM (
                     SELECT key, id FROM run.answers WHERE action = 'trigger' AND status = 202
                     UNION ALL SELECT idempotency_key, id FROM job_dispatch WHERE idempotency_key IS NOT NULL) k
                 GROUP BY key HAVING count(DISTINCT id) <> 1",
    },
    Invariant {
        name: "11: every job whose creation was accepted is there",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'create' AND status = 201",
        broken: "SELECT a.* FROM run.answers a LEFT JOIN scheduled_jobs j ON j.id = a.id AND j.name = a.target AND j.deleted_at IS NULL
                 WHERE a.action = 'create' AND a.status = 201 AND j.id IS NULL",
    },
    Invariant {
        name: "11: every version that was answered to a change is one, and no later than its job's",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'change' AND status = 200 AND version IS NOT NULL",
        broken: "SELECT a.* FROM run.answers a JOIN scheduled_jobs j ON j.id = a.id
                 LEFT JOIN scheduled_job_versions v ON v.job_id = a.id AND v.version = a.version
                 WHERE a.action = 'change' AND a.status = 200 AND a.version IS NOT NULL AND (v.version IS NULL OR j.version < a.version)",
    },
    Invariant {
        name: "11: every manifest that was accepted is in effect, or was replaced by a later one",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'apply' AND status = 200",
        broken: "SELECT a.* FROM run.answers a WHERE a.action = 'apply' AND a.status = 200
                   AND NOT EXISTS (SELECT FROM scheduled_jobs j JOIN scheduled_job_versions v ON v.tenant_id = j.tenant_id AND v.job_id = j.id
                                   WHERE j.name = a.target AND v.settings->'schedule_config' @> a.state::jsonb)",
    },
    Invariant {
        name: "11: what was answered to be cancelled is, and what was to be stopped has ended",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'cancel' AND state IN ('cancelled', 'requested')",
        broken: "SELECT a.*, d.status FROM run.answers a LEFT JOIN job_dispatch d ON d.id = a.id
                 WHERE a.action = 'cancel' AND ((a.state = 'cancelled' AND d.status IS DISTINCT FROM 'CANCELLED')
                    OR (a.state = 'requested' AND (d.cancel_requested_at IS NULL OR d.completed_at IS NULL)))",
    },
    Invariant {
        name: "11: every dead letter that was run again names its dispatch",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'retry' AND status = 202",
        broken: "SELECT a.* FROM run.answers a LEFT JOIN job_dispatch d ON d.id = a.id AND d.retry_of = a.target::uuid
                 WHERE a.action = 'retry' AND a.status = 202 AND d.id IS NULL",
    },
    Invariant {
        name: "12: no answer shows anything of another tenant",
        // Lists that show something, and what belongs to others, which is not there for whoever asks.
        checked: "SELECT count(*) FROM run.answers WHERE action = 'peek' AND ((state = 'items' AND status = 200) OR (state = 'foreign' AND status = 404))",
        broken: "SELECT * FROM run.answers WHERE action = 'peek'
                   AND (is_foreign OR (state = 'foreign' AND status BETWEEN 200 AND 499 AND status NOT IN (404, 429)))",
    },
    Invariant {
        name: "12: dispatches, attempts and skips belong to the tenant of their job",
        checked: "SELECT count(*) FROM job_dispatch d JOIN tenants t ON t.id = d.tenant_id AND t.slug <> 'default'",
        broken: "SELECT r.id, r.tenant_id, j.tenant_id FROM (
                     SELECT id::text, tenant_id, job_id FROM job_dispatch UNION ALL SELECT id::text, tenant_id, job_id FROM job_execution_log
                     UNION ALL SELECT id::text, tenant_id, job_id FROM skipped_fires) r
                 JOIN scheduled_jobs j ON j.id = r.job_id WHERE r.tenant_id <> j.tenant_id",
    },
    Invariant {
        name: "1: no two schedulers held themselves for the leader within a second",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'roles'",
        broken: "SELECT * FROM run.doubled WHERE NOT is_excused",
    },
    Invariant {
        name: "8: no attempt was lost but by a fault of its worker or of the database, or by the end of its worker",
        checked: "SELECT count(*) FROM run.lost",
        // From ten seconds before it began: the lease of a worker, and what a busy machine needs. Neither who holds a snapshot nor a wrong clock is a cause.
        broken: "SELECT l.* FROM run.lost l WHERE NOT EXISTS (
                     SELECT FROM run.faults f
                     WHERE f.kind NOT IN ('left-out', 'start', 'snapshot', 'clock', 'rolling-same-build', 'rolling-other-build')
                       AND f.began <= l.completed_at AND f.ended >= l.started_at - interval '10 seconds'
                       AND (f.target IN ('postgres', 'database', l.worker) OR f.process = l.process_id
                            OR (f.target = 'pgbouncer' AND l.worker IN (SELECT name FROM run.pooled))))",
    },
    Invariant {
        name: "8: a worker that was told to drain claims nothing until that is taken back",
        checked: "SELECT count(*) FROM run.faults WHERE kind = 'drain'",
        // What runs and is to be cancelled goes on in its state. A claim that was under way when the request was answered has its own snapshot. A process that registers anew drains on.
        broken: "SELECT f.target, f.began, f.ended, t.dispatch_id, t.at
                 FROM run.faults f JOIN witness.workers w ON w.process_id = f.process JOIN witness.transitions t
                   ON t.worker_id = w.worker_id AND t.became = 'IN_PROGRESS' AND t.was <> 'IN_PROGRESS' AND t.at > f.began + interval '500 milliseconds' AND t.at < f.ended
                 WHERE f.kind = 'drain'",
    },
];

/// What the follower of the stream of events tells.
pub(crate) const OF_STREAM: &[Invariant] = &[
    Invariant {
        name: "events: whoever follows the stream, over restarts of the API, is told every event that was committed",
        checked: "SELECT count(*) FROM run.told",
        broken: "SELECT e.transaction_id, e.id, e.created_at, e.event_type FROM run.followed f
                 JOIN events e ON (e.transaction_id::text::bigint, e.id) > (f.from_transaction, f.from_id)
                              AND (e.transaction_id::text::bigint, e.id) <= (f.until_transaction, f.until_id)
                 WHERE (e.tenant_id IS NULL OR e.tenant_id = (SELECT id FROM tenants WHERE slug = 'default'))
                   AND NOT EXISTS (SELECT FROM run.told t WHERE t.transaction_id = e.transaction_id::text::bigint AND t.id = e.id
                                     AND t.event_type = e.event_type)",
    },
    Invariant {
        name: "events: none is told twice, none that is not there, and none of another tenant",
        checked: "SELECT count(*) FROM run.told",
        broken: "SELECT t.transaction_id, t.id, t.event_type, count(*) FROM run.told t GROUP BY 1, 2, 3
                 HAVING count(*) > 1 OR NOT EXISTS (SELECT FROM events e WHERE e.transaction_id = t.transaction_id::text::xid8 AND e.id = t.id
                     AND (e.tenant_id IS NULL OR e.tenant_id = (SELECT id FROM tenants WHERE slug = 'default')))",
    },
    Invariant {
        name: "events: they are told in the order of the transactions that wrote them",
        checked: "SELECT count(*) FROM run.told",
        broken: "SELECT * FROM (SELECT t.*, lag((t.transaction_id, t.id)) OVER (ORDER BY t.line) AS before FROM run.told t) o
                 WHERE (o.transaction_id, o.id) < o.before",
    },
    Invariant {
        name: "events: the stream goes on where it was, on either API, and is never begun anew",
        checked: "SELECT greatest(max(connection), 0)::bigint FROM run.stream",
        broken: "SELECT * FROM run.stream WHERE message = 'reset'",
    },
];

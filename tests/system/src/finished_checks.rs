//! The invariants that need data besides the tables of the product: expected fire times, answers of
//! the API, the end of the faults. They read the schema `run`, which `finished` fills.

use crate::invariant::Invariant;

pub(crate) const OF_RUN: &[Invariant] = &[
    Invariant {
        name: "2: every fire time of the oracle has exactly one dispatch or is in exactly one skip",
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
        name: "2: every dispatch of a schedule has a fire time of the oracle",
        checked: "SELECT count(*) FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id AND j.scope = 'project' WHERE d.trigger_id IS NULL",
        broken: "SELECT j.name, d.scheduled_for, d.id FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id AND j.scope = 'project'
                 WHERE d.trigger_id IS NULL
                   AND NOT EXISTS (SELECT FROM run.fires f WHERE f.job_id = d.job_id AND f.at = d.scheduled_for)",
    },
    Invariant {
        name: "2: every skip has the recorded number of fire times of the oracle, from its first to its last",
        checked: "SELECT count(*) FROM skipped_fires s JOIN scheduled_jobs j ON j.id = s.job_id AND j.scope = 'project'
                  WHERE s.trigger_id IS NULL AND s.is_count_exact",
        broken: "SELECT j.name, s.first_fire_at, s.last_fire_at, s.reason, s.fire_count, held.fires
                 FROM skipped_fires s JOIN scheduled_jobs j ON j.id = s.job_id AND j.scope = 'project'
                 -- An excluded fire time inside another range is not one of the fires that the
                 -- range counts.
                 CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE f.is_excluded = (s.reason = 'calendar')) AS fires, min(f.at) AS first, max(f.at) AS last
                                     FROM run.fires f WHERE f.job_id = s.job_id AND f.at BETWEEN s.first_fire_at AND s.last_fire_at) held
                 WHERE s.trigger_id IS NULL AND s.is_count_exact
                   AND (held.fires, held.first, held.last) IS DISTINCT FROM (s.fire_count, s.first_fire_at, s.last_fire_at)",
    },
    Invariant {
        name: "2: a fire time is skipped because of a calendar exactly if the oracle excludes it",
        checked: "SELECT count(*) FROM run.fires f JOIN scheduled_jobs j ON j.id = f.job_id WHERE f.is_excluded AND f.at <= j.settled_until",
        broken: "SELECT f.job_id, f.at, 'dispatched' FROM run.fires f
                 JOIN job_dispatch d ON d.job_id = f.job_id AND d.scheduled_for = f.at AND d.trigger_id IS NULL WHERE f.is_excluded
                 UNION ALL SELECT f.job_id, f.at, 'skipped' FROM run.fires f
                 JOIN skipped_fires s ON s.job_id = f.job_id AND s.trigger_id IS NULL AND f.at BETWEEN s.first_fire_at AND s.last_fire_at
                 WHERE s.reason = 'calendar' AND NOT f.is_excluded",
    },
    Invariant {
        name: "2: fire times are handled at least up to the end of the faults",
        checked: "SELECT count(*) FROM scheduled_jobs WHERE scope = 'project' AND next_run_at IS NOT NULL",
        broken: "SELECT j.name, j.next_run_at, q.at FROM scheduled_jobs j CROSS JOIN run.quiet q
                 WHERE j.scope = 'project' AND j.next_run_at < q.at",
    },
    Invariant {
        name: "10: next_run_at is the first fire time of the oracle after the last handled one",
        checked: "SELECT count(*) FROM scheduled_jobs WHERE scope = 'project' AND job_type <> 'manual' AND is_enabled",
        broken: "SELECT j.name, j.settled_until, j.next_run_at, next.at FROM scheduled_jobs j
                 CROSS JOIN LATERAL (SELECT min(f.at) AS at FROM run.fires f WHERE f.job_id = j.id AND f.at > j.settled_until AND NOT f.is_excluded) next
                 WHERE j.scope = 'project' AND j.job_type <> 'manual' AND j.is_enabled AND j.next_run_at IS DISTINCT FROM next.at",
    },
    Invariant {
        name: "10: a job is disabled only by a request, with a version that records it",
        checked: "SELECT count(*) FROM scheduled_jobs WHERE scope = 'project'",
        // A job that is disabled by mistake has no fire times, so no other rule covers it.
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
        name: "8: attempts that ran at the end of the faults have ended a minute later",
        // Earlier ends are not checked; some attempts ran ten seconds before the end of the faults.
        checked: "SELECT count(*) FROM job_execution_log l CROSS JOIN run.quiet q
                  WHERE l.started_at < q.at AND l.completed_at > q.at - interval '10 seconds'",
        broken: "SELECT l.dispatch_id, l.attempt, l.started_at, l.completed_at, l.status FROM job_execution_log l CROSS JOIN run.quiet q
                 WHERE l.started_at < q.at AND l.completed_at > q.at + interval '1 minute'",
    },
    Invariant {
        name: "2: each end has exactly one dispatch or skip of each dependent job, and no dependent dispatch lacks an end",
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
        name: "8: no dispatch is open at the end, and no end waits for its dependent jobs",
        checked: "SELECT count(*) FROM job_dispatch",
        broken: "SELECT id::text, status, available_at, claimable_at FROM job_dispatch WHERE completed_at IS NULL
                 UNION ALL SELECT dispatch_id::text, status, ended_at, NULL FROM job_ends",
    },
    Invariant {
        name: "5: each batch of ends is counted exactly once",
        checked: "SELECT count(*) FROM witness.counts",
        broken: "SELECT b.id, b.created_at, c.batch_id, c.times, u.batch_id AS waiting FROM run_end_batches b
                 FULL JOIN (SELECT batch_id, count(*) AS times FROM witness.counts GROUP BY 1) c ON c.batch_id = b.id
                 LEFT JOIN uncounted_ends u ON u.batch_id = b.id
                 WHERE b.id IS NULL OR coalesce(c.times, 0) + (u.batch_id IS NOT NULL)::integer <> 1",
    },
    Invariant {
        name: "5: no end and no opened run waits to be counted at the end",
        checked: "SELECT count(*) FROM witness.counts",
        broken: "SELECT batch_id, created_at, 'end' FROM uncounted_ends
                 UNION ALL SELECT id, opened_at, 'run' FROM uncounted_openings",
    },
    Invariant {
        name: "5: total_run_count is the number of runs",
        checked: "SELECT count(*) FROM scheduled_jobs",
        broken: "SELECT j.name, j.total_run_count, coalesce(d.runs, 0) FROM scheduled_jobs j
                 LEFT JOIN (SELECT job_id, count(*) AS runs FROM job_dispatch GROUP BY job_id) d ON d.job_id = j.id
                 WHERE j.total_run_count <> coalesce(d.runs, 0)",
    },
    Invariant {
        name: "5: last_run_at is the begin of the last attempt in the history",
        checked: "SELECT count(*) FROM scheduled_jobs WHERE last_run_at IS NOT NULL",
        // An attempt that was released at once has not begun.
        broken: "SELECT j.name, j.last_run_at, l.at FROM scheduled_jobs j
                 LEFT JOIN (SELECT job_id, max(started_at) AS at
                            FROM (SELECT job_id, started_at, status, duration_ms FROM job_execution_log
                                  UNION ALL SELECT job_id, started_at, status, duration_ms FROM maintenance.job_execution_log) a
                            WHERE status <> 'EXPIRED' AND (status <> 'RELEASED' OR duration_ms > 0) GROUP BY 1) l ON l.job_id = j.id
                 WHERE j.last_run_at IS DISTINCT FROM l.at",
    },
    Invariant {
        name: "11: every accepted trigger is a dispatch, with its key",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'trigger' AND status = 202",
        broken: "SELECT a.* FROM run.answers a LEFT JOIN job_dispatch d ON d.id = a.id
                 WHERE a.action = 'trigger' AND a.status = 202 AND (d.id IS NULL OR d.idempotency_key IS DISTINCT FROM a.key)",
    },
    Invariant {
        name: "11: one key is one dispatch, also when it was sent several times",
        checked: "SELECT count(DISTINCT key) FROM run.answers WHERE action = 'trigger'",
        broken: "SELECT key, count(DISTINCT id) FROM (
                     SELECT key, id FROM run.answers WHERE action = 'trigger' AND status = 202 AND key IS NOT NULL
                     UNION ALL SELECT idempotency_key, id FROM job_dispatch WHERE idempotency_key IS NOT NULL) k
                 GROUP BY key HAVING count(DISTINCT id) <> 1",
    },
    Invariant {
        name: "11: every job with an accepted creation exists",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'create' AND status = 201",
        broken: "SELECT a.* FROM run.answers a LEFT JOIN scheduled_jobs j ON j.id = a.id AND j.name = a.target AND j.deleted_at IS NULL
                 WHERE a.action = 'create' AND a.status = 201 AND j.id IS NULL",
    },
    Invariant {
        name: "11: every version in the answer to a change exists, and is not later than that of the job",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'change' AND status = 200 AND version IS NOT NULL",
        broken: "SELECT a.* FROM run.answers a JOIN scheduled_jobs j ON j.id = a.id
                 LEFT JOIN scheduled_job_versions v ON v.job_id = a.id AND v.version = a.version
                 WHERE a.action = 'change' AND a.status = 200 AND a.version IS NOT NULL AND (v.version IS NULL OR j.version < a.version)",
    },
    Invariant {
        name: "11: every accepted manifest is in effect, or a later one has replaced it",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'apply' AND status = 200",
        broken: "SELECT a.* FROM run.answers a WHERE a.action = 'apply' AND a.status = 200
                   AND NOT EXISTS (SELECT FROM scheduled_jobs j JOIN scheduled_job_versions v ON v.tenant_id = j.tenant_id AND v.job_id = j.id
                                   WHERE j.name = a.target AND v.settings->'schedule_config' @> a.state::jsonb)",
    },
    Invariant {
        name: "11: every run that an answer calls cancelled is, and every run with a cancel request has ended",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'cancel' AND state IN ('cancelled', 'requested')",
        broken: "SELECT a.*, d.status FROM run.answers a LEFT JOIN job_dispatch d ON d.id = a.id
                 WHERE a.action = 'cancel' AND ((a.state = 'cancelled' AND d.status IS DISTINCT FROM 'CANCELLED')
                    OR (a.state = 'requested' AND (d.cancel_requested_at IS NULL OR d.completed_at IS NULL)))",
    },
    Invariant {
        name: "11: every retried dead letter names its dispatch",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'retry' AND status = 202",
        broken: "SELECT a.* FROM run.answers a LEFT JOIN job_dispatch d ON d.id = a.id AND d.retry_of = a.target::uuid
                 WHERE a.action = 'retry' AND a.status = 202 AND d.id IS NULL",
    },
    Invariant {
        name: "12: no answer contains data of another tenant",
        // Lists with items, and resources of another tenant, which do not exist for the user.
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
        name: "1: no two schedulers reported leadership within a second",
        checked: "SELECT count(*) FROM run.answers WHERE action = 'roles'",
        broken: "SELECT * FROM run.doubled WHERE NOT is_excused",
    },
    Invariant {
        name: "8: attempts are lost only by a fault of the worker or of the database, or by the end of the worker",
        checked: "SELECT count(*) FROM run.lost",
        // Ten seconds before the begin cover the lease of a worker and a busy machine. Neither a
        // snapshot nor a wrong clock is a cause.
        broken: "SELECT l.* FROM run.lost l WHERE NOT EXISTS (
                     SELECT FROM run.faults f
                     WHERE f.kind NOT IN ('left-out', 'start', 'snapshot', 'clock', 'rolling-same-build', 'rolling-other-build')
                       AND f.began <= l.completed_at AND f.ended >= l.started_at - interval '10 seconds'
                       AND (f.target IN ('postgres', 'database', l.worker) OR f.process = l.process_id
                            OR (f.target = 'pgbouncer' AND l.worker IN (SELECT name FROM run.pooled))))",
    },
    Invariant {
        name: "8: a draining worker claims nothing until the drain is revoked",
        checked: "SELECT count(*) FROM run.faults WHERE kind = 'drain'",
        // A running dispatch with a cancel request keeps its state. A claim in progress at the
        // answer has its own snapshot. A process that registers again keeps the drain.
        broken: "SELECT f.target, f.began, f.ended, t.dispatch_id, t.at
                 FROM run.faults f JOIN witness.workers w ON w.process_id = f.process JOIN witness.transitions t
                   ON t.worker_id = w.worker_id AND t.became = 'IN_PROGRESS' AND t.was <> 'IN_PROGRESS' AND t.at > f.began + interval '500 milliseconds' AND t.at < f.ended
                 WHERE f.kind = 'drain'",
    },
];

pub(crate) const OF_STREAM: &[Invariant] = &[
    Invariant {
        name: "events: a follower of the stream gets every committed event, across restarts of the API",
        checked: "SELECT count(*) FROM run.told",
        broken: "SELECT e.transaction_id, e.id, e.created_at, e.event_type FROM run.followed f
                 JOIN event_stream e ON (e.transaction_id::text::bigint, e.id) > (f.from_transaction, f.from_id)
                              AND (e.transaction_id::text::bigint, e.id) <= (f.until_transaction, f.until_id)
                 WHERE (e.tenant_id IS NULL OR e.tenant_id = (SELECT id FROM tenants WHERE slug = 'default'))
                   AND NOT EXISTS (SELECT FROM run.told t WHERE t.transaction_id = e.transaction_id::text::bigint AND t.id = e.id
                                     AND t.event_type = e.event_type)",
    },
    Invariant {
        name: "events: a follower gets no event twice, no missing event and none of another tenant",
        checked: "SELECT count(*) FROM run.told",
        broken: "SELECT t.transaction_id, t.id, t.event_type, t.times FROM (
                     SELECT transaction_id, id, event_type, count(*) AS times FROM run.told GROUP BY 1, 2, 3) t
                 LEFT JOIN event_stream e ON e.transaction_id::text::bigint = t.transaction_id AND e.id = t.id
                     AND (e.tenant_id IS NULL OR e.tenant_id = (SELECT id FROM tenants WHERE slug = 'default'))
                 WHERE t.times > 1 OR e.id IS NULL",
    },
    Invariant {
        name: "events: a follower gets them in the order of their transactions",
        checked: "SELECT count(*) FROM run.told",
        broken: "SELECT * FROM (SELECT t.*, lag((t.transaction_id, t.id)) OVER (ORDER BY t.line) AS before FROM run.told t) o
                 WHERE (o.transaction_id, o.id) < o.before",
    },
    Invariant {
        name: "events: the stream has one start of each attempt, and no other start",
        checked: "SELECT count(*) FROM run_start_events",
        broken: "SELECT * FROM (
                     SELECT dispatch_id, attempt FROM job_execution_log WHERE status <> 'EXPIRED'
                     UNION ALL SELECT dispatch_id, attempt FROM maintenance.job_execution_log WHERE status <> 'EXPIRED'
                     UNION ALL SELECT id, attempt FROM job_dispatch WHERE status = 'IN_PROGRESS') a
                 FULL JOIN (SELECT dispatch_id, (payload ->> 'attempt')::integer AS attempt, count(*) AS times
                            FROM run_start_events GROUP BY 1, 2) e USING (dispatch_id, attempt)
                 WHERE a.attempt IS NULL OR e.times IS DISTINCT FROM 1",
    },
    Invariant {
        name: "events: the stream has one end of each attempt in the history, and no other end",
        checked: "SELECT count(*) FROM run_end_events",
        // A lost attempt has its own event, and a release ends nothing unless its run was cancelled.
        broken: "SELECT * FROM (
                     SELECT dispatch_id, attempt, id, status FROM job_execution_log
                     UNION ALL SELECT dispatch_id, attempt, id, status FROM maintenance.job_execution_log) a
                 FULL JOIN (SELECT dispatch_id, (payload ->> 'attempt')::integer AS attempt, count(*) AS times,
                                   min(payload ->> 'execution_id')::uuid AS id, min(payload ->> 'status') AS status
                            FROM run_end_events GROUP BY 1, 2) e USING (dispatch_id, attempt)
                 WHERE CASE a.status WHEN 'LOST' THEN e.times IS NOT NULL
                                     WHEN 'EXPIRED' THEN e.times IS NOT NULL
                                     WHEN 'RELEASED' THEN e.times > 1
                                     ELSE e.times IS DISTINCT FROM 1 OR (a.id, a.status) IS DISTINCT FROM (e.id, e.status) END",
    },
    Invariant {
        name: "events: the stream has one loss of each lost attempt in the history, and no other loss",
        checked: "SELECT count(*) FROM job_execution_log",
        broken: "SELECT * FROM (
                     SELECT dispatch_id, attempt, id FROM job_execution_log WHERE status = 'LOST'
                     UNION ALL SELECT dispatch_id, attempt, id FROM maintenance.job_execution_log WHERE status = 'LOST') a
                 FULL JOIN (SELECT dispatch_id, (payload ->> 'attempt')::integer AS attempt, count(*) AS times
                            FROM event_stream WHERE event_type = 'schedule_execution_lost' GROUP BY 1, 2) e USING (dispatch_id, attempt)
                 WHERE a.id IS NULL OR e.times IS DISTINCT FROM 1",
    },
    Invariant {
        name: "events: the start of an attempt precedes its end or loss",
        checked: "SELECT count(*) FROM run_end_events",
        // The order of attempts of one run is not checked: a claim may have taken its transaction id
        // before it saw the end of the previous attempt.
        broken: "SELECT * FROM (
                     SELECT dispatch_id, payload ->> 'attempt' AS attempt, array_agg(event_type ORDER BY transaction_id, id) AS events
                     FROM event_stream
                     WHERE event_type IN ('schedule_execution_started', 'schedule_execution_completed', 'schedule_execution_lost',
                                          'dispatch_dead_letter')
                     GROUP BY 1, 2) a
                 WHERE events[1] <> 'schedule_execution_started' AND 'schedule_execution_started' = ANY (events)",
    },
    Invariant {
        name: "events: the stream continues at its position, on either API, and is never reset",
        checked: "SELECT greatest(max(connection), 0)::bigint FROM run.stream",
        broken: "SELECT * FROM run.stream WHERE message = 'reset'",
    },
];

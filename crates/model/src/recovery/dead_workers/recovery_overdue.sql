-- Claims of live workers with runs that exceed their limit plus a margin. If several claims of the
-- worker name a run, the latest one is current. No run is read before its claim shows that it may
-- be overdue.
WITH input AS (SELECT $1::float8 AS margin_seconds, $2::float8 AS unknown_limit_seconds, $3::bigint AS max_rows),
running AS (
    SELECT DISTINCT ON (u.id, c.worker_id) u.id, c.worker_id, c.claimed_at, u.limit_seconds
    FROM worker_claims c
    JOIN worker_registration w ON w.worker_id = c.worker_id AND w.status <> 'OFFLINE'
    CROSS JOIN LATERAL unnest(c.dispatch_ids, c.limit_seconds) AS u (id, limit_seconds)
    ORDER BY u.id, c.worker_id, c.id DESC
)
SELECT d.id, d.tenant_id, j.project_id, d.job_id, j.name, d.claim_token, d.attempt, d.retry_count, d.lost_count, d.claimed_at,
       clock_timestamp(), d.worker_id, coalesce(j.retry_policy, f.retry_policy), j.scope = 'backup_infrastructure', allowed.seconds
FROM input
JOIN running r ON r.claimed_at < clock_timestamp() - (coalesce(r.limit_seconds, 0) + input.margin_seconds) * interval '1 second'
-- OFFSET 0: see recovery_lost_attempts.sql.
CROSS JOIN LATERAL (SELECT s.* FROM job_dispatch s
                    WHERE s.id = r.id AND s.worker_id = r.worker_id AND s.status = 'IN_PROGRESS' OFFSET 0) AS d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
CROSS JOIN LATERAL (
    -- Claims of older releases have no limit: then the current settings apply, and at least the
    -- default.
    SELECT coalesce(r.limit_seconds::float8,
                    greatest(coalesce(j.timeout_seconds, f.default_timeout_seconds), input.unknown_limit_seconds)) AS seconds
) AS allowed
WHERE d.claimed_at < clock_timestamp() - (allowed.seconds + input.margin_seconds) * interval '1 second'
ORDER BY d.id
LIMIT (SELECT max_rows FROM input)

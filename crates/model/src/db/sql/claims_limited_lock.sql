-- Some of the limited queues in which something is due: all of them unless they are many, then others every time. Waits for whoever is
-- claiming from one of them, which is over soon.
WITH input AS (SELECT $1::text[] AS queues),
limited AS MATERIALIZED (
    SELECT q.tenant_id, q.name, false AS has_quota
    FROM queues q, input
    WHERE q.name = ANY (input.queues) AND (q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL) AND NOT q.is_paused
      AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = q.tenant_id AND (t.is_paused OR t.quotas ? 'running_dispatches'))
    UNION ALL
    -- A quota of what runs limits all queues of its tenant.
    SELECT q.tenant_id, q.name, true
    FROM input
    CROSS JOIN tenants t
    JOIN queues q ON q.tenant_id = t.id
    WHERE t.quotas ? 'running_dispatches' AND NOT t.is_paused AND q.name = ANY (input.queues) AND NOT q.is_paused
),
waiting AS MATERIALIZED (
    SELECT q.tenant_id, q.name, q.has_quota
    FROM limited q
    -- As in claim: what waits for its time is leapt over.
    CROSS JOIN LATERAL (
        WITH RECURSIVE found (priority) AS (
            SELECT 32767::smallint
            UNION ALL
            SELECT d.priority
            FROM found
            CROSS JOIN LATERAL (SELECT w.priority FROM job_dispatch w
                                WHERE w.queue = q.name AND w.tenant_id = q.tenant_id AND w.priority < found.priority
                                  AND w.claimable_at < 'infinity'
                                ORDER BY w.priority DESC LIMIT 1) AS d
        )
        SELECT 1
        FROM found
        CROSS JOIN LATERAL (SELECT 1 FROM job_dispatch w
                            WHERE w.queue = q.name AND w.tenant_id = q.tenant_id AND w.priority = found.priority
                              AND w.claimable_at <= now() AND w.claimable_at < 'infinity'
                            ORDER BY w.claimable_at DESC LIMIT 1) AS w
        LIMIT 1
    ) AS w
    ORDER BY random()
    LIMIT 100
)
SELECT u.tenant_id, u.queue, (SELECT bool_or(w.has_quota) FROM waiting w WHERE w.tenant_id = u.tenant_id)
FROM queue_usage u
WHERE (u.tenant_id, u.queue) IN (SELECT tenant_id, name FROM waiting)
ORDER BY u.tenant_id, u.queue
FOR UPDATE

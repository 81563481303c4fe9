-- Some of the limited queues with due runs: all of them unless there are many, then a random choice
-- each time. Queues with own limits are few and are checked one after another. Any number
-- of tenants may have a quota: a skip scan over the waiting runs finds the tenants, as in claim,
-- from a random start, and their quota is checked when they have waiting runs.
WITH RECURSIVE input AS MATERIALIZED (SELECT $1::text[] AS queues, gen_random_uuid() AS below),
turn (tenant_id, lap, steps) AS (
    SELECT input.below, 0, 0 FROM input WHERE EXISTS (SELECT 1 FROM tenants x WHERE x.quotas ? 'running_dispatches')
    UNION ALL
    SELECT n.tenant_id, n.lap, t.steps + 1
    FROM turn t
    CROSS JOIN input
    CROSS JOIN LATERAL (
        SELECT f.tenant_id, CASE WHEN f.tenant_id < t.tenant_id THEN t.lap ELSE 1 END AS lap
        FROM (SELECT coalesce(
            (SELECT w.tenant_id
             FROM unnest(input.queues) AS s (queue)
             CROSS JOIN LATERAL (SELECT d.tenant_id FROM job_dispatch d
                                 WHERE d.queue = s.queue AND d.tenant_id < t.tenant_id AND d.claimable_at < 'infinity'
                                 ORDER BY d.tenant_id DESC LIMIT 1) AS w
             ORDER BY w.tenant_id DESC LIMIT 1),
            CASE WHEN t.lap = 0 THEN
                (SELECT w.tenant_id
                 FROM unnest(input.queues) AS s (queue)
                 CROSS JOIN LATERAL (SELECT d.tenant_id FROM job_dispatch d
                                     WHERE d.queue = s.queue AND d.tenant_id >= input.below AND d.claimable_at < 'infinity'
                                     ORDER BY d.tenant_id DESC LIMIT 1) AS w
                 ORDER BY w.tenant_id DESC LIMIT 1) END) AS tenant_id
            OFFSET 0) AS f
    ) AS n
    WHERE t.steps < 1000 AND n.tenant_id IS NOT NULL AND (n.lap = 0 OR n.tenant_id >= input.below)
),
limited AS MATERIALIZED (
    SELECT q.tenant_id, q.name, false AS has_quota
    FROM queues q, input
    WHERE q.name = ANY (input.queues) AND (q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL) AND NOT q.is_paused
      AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = q.tenant_id AND (t.is_paused OR t.quotas ? 'running_dispatches'))
    UNION ALL
    -- A quota of running runs limits all queues of its tenant.
    SELECT t.tenant_id, s.queue, true
    FROM turn t
    CROSS JOIN input
    CROSS JOIN unnest(input.queues) AS s (queue)
    WHERE t.steps > 0
      AND EXISTS (SELECT 1 FROM tenants x WHERE x.id = t.tenant_id AND x.quotas ? 'running_dispatches' AND NOT x.is_paused)
      AND EXISTS (SELECT 1 FROM queues q WHERE q.tenant_id = t.tenant_id AND q.name = s.queue AND NOT q.is_paused)
)
SELECT q.tenant_id, q.name, q.has_quota
FROM limited q
-- As in claim: the skip scan passes over runs that are not due.
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

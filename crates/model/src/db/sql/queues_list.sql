-- What runs is counted only where a limit needs it, and once for all.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::text AS after, $3::text AS only),
page AS MATERIALIZED (
    SELECT q.*
    FROM input
    JOIN queues q ON q.tenant_id = input.tenant_id AND q.name > input.after AND (input.only IS NULL OR q.name = input.only)
    ORDER BY q.name
    LIMIT $4
),
running AS MATERIALIZED (
    SELECT d.tenant_id, d.queue, count(DISTINCT d.id) AS count
    FROM worker_claims c
    CROSS JOIN LATERAL unnest(c.dispatch_ids) AS i (id)
    JOIN job_dispatch d ON d.id = i.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
    WHERE EXISTS (SELECT 1 FROM page q WHERE q.max_running IS NOT NULL)
      AND (d.tenant_id, d.queue) IN (SELECT q.tenant_id, q.name FROM page q WHERE q.max_running IS NOT NULL)
    GROUP BY d.tenant_id, d.queue
)
SELECT q.name, q.description, q.is_paused, q.pause_reason, q.max_running, q.rate_limit_count, q.rate_limit_period_seconds,
       q.default_priority, q.created_at, q.updated_at,
       CASE WHEN q.max_running IS NOT NULL THEN coalesce(r.count, 0) END,
       CASE WHEN q.rate_limit_count IS NOT NULL THEN
           (SELECT coalesce(sum(e.claimed), 0)
            FROM queue_usage u
            CROSS JOIN LATERAL unnest(u.claimed_at, u.claimed) AS e (claimed_at, claimed)
            WHERE u.tenant_id = q.tenant_id AND u.queue = q.name
              AND e.claimed_at > clock_timestamp() - q.rate_limit_period_seconds * interval '1 second') END
FROM page q
LEFT JOIN running r ON r.tenant_id = q.tenant_id AND r.queue = q.name
ORDER BY q.name

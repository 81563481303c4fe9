-- Queues by name, with limits, usage and workers. Running runs are counted only for a limit that
-- needs them.
WITH input AS (SELECT $1::uuid AS tenant_id, clock_timestamp() AS now),
-- The tenant's quota of running runs, and its running runs in all queues together.
quota AS MATERIALIZED (
    SELECT (t.quotas ->> 'running_dispatches')::bigint AS most,
           (SELECT count(DISTINCT d.id)
            FROM worker_claims c
            CROSS JOIN LATERAL unnest(c.dispatch_ids) AS i (id)
            JOIN job_dispatch d ON d.id = i.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
            WHERE d.tenant_id = t.id) AS running
    FROM input
    JOIN tenants t ON t.id = input.tenant_id
    WHERE t.quotas ? 'running_dispatches'
)
SELECT u.queue, coalesce(q.is_paused, false), q.pause_reason, q.max_running,
       CASE WHEN q.max_running IS NOT NULL THEN
           (SELECT count(DISTINCT d.id)
            FROM worker_claims c
            CROSS JOIN LATERAL unnest(c.dispatch_ids) AS i (id)
            JOIN job_dispatch d ON d.id = i.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
            WHERE d.tenant_id = q.tenant_id AND d.queue = q.name) END,
       q.rate_limit_count, q.rate_limit_period_seconds, used.claimed, used.first + q.rate_limit_period_seconds * interval '1 second',
       served.workers, served.slots, served.busy, served.draining, s.since, quota.most, quota.running
FROM input
CROSS JOIN (SELECT DISTINCT n.queue FROM unnest($2::text[]) AS n (queue)) AS u
LEFT JOIN queues q ON q.tenant_id = input.tenant_id AND q.name = u.queue
LEFT JOIN unserved_queues s ON s.queue = u.queue
CROSS JOIN LATERAL (
    SELECT coalesce(sum(e.claimed), 0)::bigint AS claimed, min(e.claimed_at) AS first
    FROM queue_usage g
    CROSS JOIN LATERAL unnest(g.claimed_at, g.claimed) AS e (claimed_at, claimed)
    WHERE g.tenant_id = q.tenant_id AND g.queue = q.name
      AND e.claimed_at > input.now - q.rate_limit_period_seconds * interval '1 second'
) AS used
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE r.status IN ('IDLE', 'BUSY')) AS workers,
           coalesce(sum(r.concurrency) FILTER (WHERE r.status IN ('IDLE', 'BUSY')), 0)::bigint AS slots,
           coalesce(sum(least(r.running, r.concurrency)) FILTER (WHERE r.status IN ('IDLE', 'BUSY')), 0)::bigint AS busy,
           count(*) FILTER (WHERE r.status = 'DRAINING') AS draining
    FROM worker_registration r
    WHERE u.queue = ANY (r.queues)
) AS served
LEFT JOIN quota ON true
ORDER BY u.queue

-- What runs is counted once for all queues with limits, and not once for each: a hundred of them cost no more than one.
CREATE OR REPLACE VIEW queue_limits WITH (security_invoker = true) AS
SELECT q.tenant_id, q.name AS queue, q.max_running, coalesce(r.running, 0) AS running,
       q.rate_limit_count, q.rate_limit_period_seconds,
       (SELECT coalesce(sum(e.claimed), 0)
        FROM queue_usage u
        CROSS JOIN LATERAL unnest(u.claimed_at, u.claimed) AS e (claimed_at, claimed)
        WHERE u.tenant_id = q.tenant_id AND u.queue = q.name
          AND e.claimed_at > clock_timestamp() - q.rate_limit_period_seconds * interval '1 second') AS claimed_in_period
FROM queues q
LEFT JOIN (SELECT d.tenant_id, d.queue, count(DISTINCT d.id) AS running
           FROM worker_claims c
           CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
           JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
           GROUP BY d.tenant_id, d.queue) AS r ON r.tenant_id = q.tenant_id AND r.queue = q.name
WHERE q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL;

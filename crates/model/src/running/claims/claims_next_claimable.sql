-- Bounded: reads one index entry for each queue, tenant and priority, and at most 200 of these,
-- for any number of waiting runs. A missed earlier run costs the difference up to the poll
-- interval and nothing else.
WITH RECURSIVE lane (queue, tenant_id, priority) AS (
    SELECT s.queue, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid, 32767::smallint FROM unnest($1::text[]) AS s (queue)
    UNION ALL
    SELECT l.queue, n.tenant_id, n.priority
    FROM lane l
    CROSS JOIN LATERAL (SELECT d.tenant_id, d.priority FROM job_dispatch d
                        WHERE d.queue = l.queue AND (d.tenant_id, d.priority) < (l.tenant_id, l.priority) AND d.claimable_at < 'infinity'
                        ORDER BY d.tenant_id DESC, d.priority DESC LIMIT 1) AS n
)
SELECT (extract(epoch FROM min(waiting.claimable_at) - now()) * 1000)::bigint
FROM (SELECT * FROM lane LIMIT 200) AS l
CROSS JOIN LATERAL (SELECT d.claimable_at FROM job_dispatch d
                    WHERE d.queue = l.queue AND d.tenant_id = l.tenant_id AND d.priority = l.priority
                      AND d.claimable_at > now() AND d.claimable_at < 'infinity'
                    ORDER BY d.claimable_at LIMIT 1) AS waiting

-- Queues get their row when something is first claimed from them under a limit, of their own or of their tenant.
WITH input AS (SELECT $1::text[] AS queues)
INSERT INTO queue_usage (tenant_id, queue)
SELECT q.tenant_id, q.name
FROM (SELECT l.tenant_id, l.name
      FROM queues l, input
      WHERE l.name = ANY (input.queues) AND (l.max_running IS NOT NULL OR l.rate_limit_count IS NOT NULL)
      UNION
      SELECT l.tenant_id, l.name
      FROM input
      CROSS JOIN tenants t
      JOIN queues l ON l.tenant_id = t.id
      WHERE t.quotas ? 'running_dispatches' AND l.name = ANY (input.queues)) AS q
WHERE NOT EXISTS (SELECT 1 FROM queue_usage u WHERE u.tenant_id = q.tenant_id AND u.queue = q.name)
ORDER BY q.tenant_id, q.name
ON CONFLICT DO NOTHING

-- Queues get their row when something is first claimed from them under a limit.
INSERT INTO queue_usage (tenant_id, queue)
SELECT q.tenant_id, q.name
FROM queues q
WHERE q.name = ANY ($1::text[]) AND (q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM queue_usage u WHERE u.tenant_id = q.tenant_id AND u.queue = q.name)
ORDER BY q.tenant_id, q.name
ON CONFLICT DO NOTHING

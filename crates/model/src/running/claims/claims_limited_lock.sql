-- Waits for a claim that holds one of these rows. The wait is short: a claim waits for nothing but
-- other claims.
SELECT u.tenant_id, u.queue
FROM unnest($1::uuid[], $2::text[]) AS l (tenant_id, queue)
JOIN queue_usage u ON u.tenant_id = l.tenant_id AND u.queue = l.queue
ORDER BY u.tenant_id, u.queue
FOR UPDATE OF u

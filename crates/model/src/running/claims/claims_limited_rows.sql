-- A queue gets its row at the first claim under a limit, of the queue or of its tenant.
INSERT INTO queue_usage (tenant_id, queue)
SELECT q.tenant_id, q.name
FROM unnest($1::uuid[], $2::text[]) AS l (tenant_id, queue)
JOIN queues q ON q.tenant_id = l.tenant_id AND q.name = l.queue
WHERE NOT EXISTS (SELECT 1 FROM queue_usage u WHERE u.tenant_id = q.tenant_id AND u.queue = q.name)
ORDER BY q.tenant_id, q.name
ON CONFLICT DO NOTHING

SELECT tenant_id, id
FROM scheduled_jobs
WHERE is_cursor_stale AND (tenant_id, id) > ($1, $2)
ORDER BY tenant_id, id
LIMIT $3

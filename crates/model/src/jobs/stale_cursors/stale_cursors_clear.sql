UPDATE scheduled_jobs j
SET is_cursor_stale = false
FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id)
WHERE j.tenant_id = u.tenant_id AND j.id = u.id AND j.is_cursor_stale
RETURNING j.id

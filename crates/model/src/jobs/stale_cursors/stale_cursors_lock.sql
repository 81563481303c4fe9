-- A locked job is left for the next pass: its writer may compute the cursor.
SELECT j.tenant_id, j.id
FROM scheduled_jobs j
WHERE (j.tenant_id, j.id) IN (SELECT u.tenant_id, u.id FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id))
  AND j.is_cursor_stale
ORDER BY j.tenant_id, j.id
FOR NO KEY UPDATE SKIP LOCKED

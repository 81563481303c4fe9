UPDATE scheduled_jobs j
SET dispatch_lock_until = u.until
FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS u (tenant_id, id, until)
WHERE j.tenant_id = u.tenant_id AND j.id = u.id
RETURNING j.id

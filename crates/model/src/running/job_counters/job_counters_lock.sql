-- In order, as every transaction that locks jobs.
SELECT j.id
FROM scheduled_jobs j
WHERE (j.tenant_id, j.id) IN (SELECT u.tenant_id, u.id FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id))
ORDER BY j.tenant_id, j.id
FOR NO KEY UPDATE

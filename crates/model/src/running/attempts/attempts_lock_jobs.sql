-- The columns of a locked job stay valid until the transaction ends.
SELECT j.tenant_id, j.id, j.project_id, j.scope = 'backup_infrastructure', j.has_dependents, j.name
FROM scheduled_jobs j
WHERE (j.tenant_id, j.id) IN (SELECT u.tenant_id, u.id FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id))
ORDER BY j.tenant_id, j.id
FOR NO KEY UPDATE

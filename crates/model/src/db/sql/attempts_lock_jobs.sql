SELECT j.id
FROM scheduled_jobs j
WHERE (j.tenant_id, j.id) IN (SELECT d.tenant_id, d.job_id FROM job_dispatch d WHERE d.id = ANY ($1::uuid[]))
ORDER BY j.tenant_id, j.id
FOR NO KEY UPDATE

SELECT d.tenant_id, d.job_id, d.after_job_id, d.condition, d.since, d.met_by, d.met_at
FROM job_dependencies d
WHERE (d.tenant_id, d.job_id) IN (SELECT u.tenant_id, u.id FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id))

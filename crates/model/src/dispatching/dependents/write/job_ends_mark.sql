UPDATE job_dependencies d
SET met_by = u.met_by, met_at = u.met_at
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::timestamptz[]) AS u (tenant_id, job_id, after_job_id, met_by, met_at)
WHERE d.tenant_id = u.tenant_id AND d.job_id = u.job_id AND d.after_job_id = u.after_job_id
RETURNING d.job_id

INSERT INTO scheduled_job_versions (tenant_id, job_id, version, change, settings, changed_at, changed_src)
SELECT u.tenant_id, u.job_id, u.version, 'disabled', u.settings, u.changed_at, 'scheduler'
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::jsonb[], $5::timestamptz[]) AS u (tenant_id, job_id, version, settings, changed_at)

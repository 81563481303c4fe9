-- The trigger gave a rescheduled job a new version, and its source.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::jsonb AS settings, $4::timestamptz AS changed_at)
INSERT INTO scheduled_job_versions (tenant_id, job_id, version, change, settings, changed_at, changed_src)
SELECT j.tenant_id, j.id, j.version,
       CASE WHEN EXISTS (SELECT FROM scheduled_job_versions v WHERE v.tenant_id = j.tenant_id AND v.job_id = j.id)
            THEN 'updated' ELSE 'created' END,
       i.settings, i.changed_at, j.updated_src
FROM input i
JOIN scheduled_jobs j ON j.tenant_id = i.tenant_id AND j.id = i.job_id
ON CONFLICT (tenant_id, job_id, version) DO NOTHING

-- In the given order. A missing project is read from the job.
INSERT INTO events (tenant_id, project_id, job_id, dispatch_id, event_type, payload)
SELECT u.tenant_id, coalesce(u.project_id, j.project_id), u.job_id, u.dispatch_id, u.event_type, u.payload
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::jsonb[])
    WITH ORDINALITY AS u (tenant_id, project_id, job_id, dispatch_id, event_type, payload, number)
LEFT JOIN scheduled_jobs j ON j.tenant_id = u.tenant_id AND j.id = u.job_id
ORDER BY u.number

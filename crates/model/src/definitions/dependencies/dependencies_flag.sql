-- The caller holds the locks on the jobs, so no dependency changes between the read and the write.
WITH input AS (SELECT $1::uuid AS tenant_id, u.id FROM unnest($2::uuid[]) AS u (id)),
found AS (
    SELECT i.tenant_id, i.id,
           EXISTS (SELECT 1 FROM job_dependencies d WHERE d.tenant_id = i.tenant_id AND d.after_job_id = i.id) AS has_dependents
    FROM input i
)
UPDATE scheduled_jobs j
SET has_dependents = f.has_dependents
FROM found f
WHERE j.tenant_id = f.tenant_id AND j.id = f.id AND j.has_dependents <> f.has_dependents
RETURNING j.id

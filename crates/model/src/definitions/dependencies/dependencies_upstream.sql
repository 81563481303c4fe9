-- All jobs upstream, at any distance. UNION visits each dependency once, for any number of paths to
-- it.
WITH RECURSIVE upstream AS (
    SELECT d.tenant_id, d.job_id, d.after_job_id
    FROM job_dependencies d
    WHERE (d.tenant_id, d.job_id) IN (SELECT $1::uuid, u.id FROM unnest($2::uuid[]) AS u (id))
    UNION
    SELECT d.tenant_id, d.job_id, d.after_job_id
    FROM upstream u
    JOIN job_dependencies d ON d.tenant_id = u.tenant_id AND d.job_id = u.after_job_id
)
SELECT job_id, after_job_id FROM upstream

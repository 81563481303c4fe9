-- The oldest ends that no other transaction has locked, limited by the number of dependents that
-- one transaction should take. The first one is taken in any case.
WITH taken AS (
    SELECT e.id, e.tenant_id, e.job_id, e.dispatch_id, e.status, e.ended_at
    FROM job_ends e
    ORDER BY e.id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
weighed AS (
    SELECT t.*, sum(f.dependents) OVER (ORDER BY t.id) - f.dependents AS dependents_before
    FROM taken t
    CROSS JOIN LATERAL (SELECT count(*) AS dependents FROM job_dependencies d
                        WHERE d.tenant_id = t.tenant_id AND d.after_job_id = t.job_id) AS f
)
SELECT w.id, w.tenant_id, w.job_id, coalesce(j.name, ''), w.dispatch_id, w.status, w.ended_at
FROM weighed w
LEFT JOIN scheduled_jobs j ON j.tenant_id = w.tenant_id AND j.id = w.job_id
WHERE w.dependents_before < $2::bigint
ORDER BY w.id

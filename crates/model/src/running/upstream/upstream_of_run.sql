-- A retry follows the run that its first run followed.
WITH RECURSIVE earlier AS (
    SELECT d.tenant_id, d.triggered_by, d.trigger_id, d.retry_of FROM job_dispatch d WHERE d.tenant_id = $1 AND d.id = $2
    UNION ALL
    SELECT d.tenant_id, d.triggered_by, d.trigger_id, d.retry_of
    FROM earlier e
    JOIN job_dispatch d ON d.tenant_id = e.tenant_id AND d.id = e.retry_of
    WHERE e.triggered_by = 'retry'
)
SELECT u.id, u.job_id, coalesce(j.name, ''), u.status, u.attempt, u.claimed_at
FROM earlier e
JOIN job_dispatch u ON u.tenant_id = e.tenant_id AND u.id = e.trigger_id
LEFT JOIN scheduled_jobs j ON j.tenant_id = u.tenant_id AND j.id = u.job_id
WHERE e.triggered_by = 'dependency'
LIMIT 1

SELECT l.result
FROM (
    SELECT tenant_id, job_id, dispatch_id, attempt, id, result FROM job_execution_log
    UNION ALL
    SELECT tenant_id, job_id, dispatch_id, attempt, id, result FROM maintenance.job_execution_log
) l
WHERE l.tenant_id = $1 AND l.job_id = $2 AND l.dispatch_id = $3 AND l.attempt = $4 AND l.id >= $5
ORDER BY l.id
LIMIT 1

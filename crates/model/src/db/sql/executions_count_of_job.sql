-- As executions_of_job, counted up to a bound.
SELECT count(*) FROM (
    SELECT 1
    FROM (
        SELECT l.tenant_id, l.job_id, l.dispatch_id, l.status, l.started_at FROM job_execution_log l
        UNION ALL
        SELECT l.tenant_id, l.job_id, l.dispatch_id, l.status, l.started_at FROM maintenance.job_execution_log l
    ) AS p
    WHERE p.tenant_id = $1
      AND p.job_id = $2
      AND p.started_at >= coalesce($3::timestamptz, '-infinity')
      AND p.started_at < coalesce($4::timestamptz, 'infinity')
      AND coalesce(p.status = $5::text, true)
      AND coalesce(p.dispatch_id = $6::uuid, true)
    LIMIT $7
) AS counted

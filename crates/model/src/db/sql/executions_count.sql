-- As executions_list, counted up to a bound.
SELECT count(*) FROM (
    SELECT 1
    FROM (
        SELECT l.tenant_id, l.job_id, l.dispatch_id, l.status, l.started_at FROM job_execution_log l
        UNION ALL
        SELECT l.tenant_id, l.job_id, l.dispatch_id, l.status, l.started_at FROM maintenance.job_execution_log l
    ) AS p
    WHERE p.tenant_id = $1
      AND p.started_at >= coalesce($2::timestamptz, '-infinity')
      AND p.started_at < coalesce($3::timestamptz, 'infinity')
      AND coalesce(p.status = $4::text, true)
      AND coalesce(p.dispatch_id = $5::uuid, true)
    LIMIT $6
) AS counted

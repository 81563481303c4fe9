-- As executions_unsuccessful, counted up to a bound.
SELECT count(*) FROM (
    SELECT 1
    FROM (
        SELECT l.id, l.tenant_id, l.project_id, l.job_id, l.dispatch_id, l.status, l.started_at, l.worker_id, l.triggered_by
        FROM job_execution_log l
        UNION ALL
        SELECT l.id, l.tenant_id, l.project_id, l.job_id, l.dispatch_id, l.status, l.started_at, l.worker_id, l.triggered_by
        FROM maintenance.job_execution_log l
    ) AS p
    LEFT JOIN scheduled_jobs j ON j.tenant_id = p.tenant_id AND j.id = p.job_id
    WHERE p.tenant_id = $1
      AND p.status = ANY ($2::text[])
      AND p.status <> 'COMPLETED'
      AND p.id > $3
      AND p.id < $4
      AND p.started_at >= coalesce($5::timestamptz, '-infinity')
      AND p.started_at < coalesce($6::timestamptz, 'infinity')
      AND CASE WHEN coalesce(p.dispatch_id = $7::uuid, true)
                AND coalesce(coalesce(p.worker_id::text, '') = $8::uuid::text, true)
                AND coalesce(coalesce(p.project_id::text, '') = $9::uuid::text, true)
                AND coalesce(coalesce(j.task_function_id::text, '') = $10::uuid::text, true)
                AND coalesce(p.triggered_by = $11::text, true)
          THEN true ELSE false END
    LIMIT $12
) AS counted

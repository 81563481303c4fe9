-- In the lock order of jobs. The columns that decide are read from the rows after they are locked.
SELECT j.tenant_id, j.id, j.after_mode, j.version,
       CASE WHEN NOT j.is_version_stored THEN j.task_args END, coalesce(j.queue, f.queue), coalesce(j.priority, q.default_priority),
       j.start_within_seconds, j.overlap_policy, j.max_instances, j.active_dispatches, j.queued_dispatches,
       CASE WHEN t.is_paused THEN 'paused_tenant'
            WHEN p.is_paused THEN 'paused_project'
            WHEN q.is_paused THEN 'paused_queue'
            WHEN f.is_paused THEN 'paused_function'
            WHEN j.is_paused AND (clock_timestamp() < j.paused_until) IS NOT FALSE THEN 'paused_job' END,
       j.is_enabled, f.is_active, j.deleted_at IS NOT NULL
FROM scheduled_jobs j
JOIN tenants t ON t.id = j.tenant_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
WHERE (j.tenant_id, j.id) IN (SELECT d.tenant_id, d.job_id
                              FROM unnest($1::uuid[], $2::uuid[]) AS e (tenant_id, job_id)
                              JOIN job_dependencies d ON d.tenant_id = e.tenant_id AND d.after_job_id = e.job_id)
ORDER BY j.tenant_id, j.id
FOR NO KEY UPDATE OF j

-- What a count of an earlier minute or day says is over. A dispatch that was claimed again by the same worker may be named by two of its
-- claims.
WITH input AS (SELECT $1::uuid AS tenant_id, date_trunc('minute', clock_timestamp() + interval '1 second') AS minute,
                      (clock_timestamp() AT TIME ZONE 'UTC')::date AS today)
SELECT t.quotas,
       (SELECT count(*)
        FROM scheduled_jobs j
        WHERE j.tenant_id = t.id AND j.deleted_at IS NULL
          AND (j.scope = 'project' OR NOT EXISTS (SELECT 1 FROM task_functions f
                                                  WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_system))),
       CASE WHEN t.quotas ? 'dispatches_per_minute' THEN
           coalesce((SELECT u.dispatched FROM tenant_usage u WHERE u.tenant_id = t.id AND u.minute >= input.minute), 0) END,
       (SELECT count(DISTINCT d.id)
        FROM worker_claims c
        CROSS JOIN LATERAL unnest(c.dispatch_ids) AS i (id)
        JOIN job_dispatch d ON d.id = i.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
        WHERE d.tenant_id = t.id),
       CASE WHEN t.quotas ? 'log_bytes' THEN
           coalesce((SELECT u.kept_bytes FROM tenant_log_usage u WHERE u.tenant_id = t.id AND u.day >= input.today), 0) END,
       CASE WHEN t.quotas ? 'log_bytes' THEN
           coalesce((SELECT u.dropped_bytes FROM tenant_log_usage u WHERE u.tenant_id = t.id AND u.day >= input.today), 0) END,
       input.today
FROM input
JOIN tenants t ON t.id = input.tenant_id

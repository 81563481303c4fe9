-- Jobs that will be due, after a position in the due order, without locks. Leaves out jobs that only
-- the ordinary tick decides about. The edition names the row versions of the switches and defaults
-- that hold for a job: each change of one of these rows changes it.
--
-- The joins: see tick_due_jobs.sql.
--
-- A job with the same position as the last one of the previous page is left out; the tick takes it.
WITH due AS MATERIALIZED (
    SELECT j.*, concat_ws(' ', t.xmin, f.xmin, q.xmin, p.xmin) AS edition
    FROM (
        SELECT *
        FROM scheduled_jobs
        WHERE next_run_at IS NOT NULL
          AND (greatest(next_run_at, dispatch_lock_until), burst_order) > ($1, $2)
          AND greatest(next_run_at, dispatch_lock_until) <= $3
          AND is_enabled AND NOT is_paused AND dispatch_lock_until IS NULL
          AND max_runs IS NULL AND start_within_seconds IS NULL AND calendars = '{}'
        ORDER BY greatest(next_run_at, dispatch_lock_until), burst_order
        LIMIT $4
    ) AS j
    JOIN tenants t ON t.id = j.tenant_id
    LEFT JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    LEFT JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
    LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
)

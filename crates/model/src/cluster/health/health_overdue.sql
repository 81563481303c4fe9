-- The leader runs this every minute. The waiting runs are found by skip scan, as in
-- health_fleet.sql: one entry for each queue, tenant and priority. Paused runs wait on purpose, so
-- they are not overdue. Where a tenant has a paused project or function, the oldest thousand runs of
-- a lane are read.
WITH RECURSIVE input AS (SELECT clock_timestamp() - $1::float8 * interval '1 second' AS before),
pauses AS MATERIALIZED (
    SELECT ARRAY(SELECT o.tenant_id FROM projects o WHERE o.is_paused UNION SELECT f.tenant_id FROM task_functions f WHERE f.is_paused) AS tenants
),
lane AS (
    (SELECT d.queue, d.tenant_id, d.priority
     FROM job_dispatch d
     WHERE d.claimable_at < 'infinity'
     ORDER BY d.queue, d.tenant_id, d.priority, d.claimable_at LIMIT 1)
    UNION ALL
    SELECT n.queue, n.tenant_id, n.priority
    FROM lane l
    CROSS JOIN LATERAL (
        SELECT d.queue, d.tenant_id, d.priority
        FROM job_dispatch d
        WHERE d.claimable_at < 'infinity' AND (d.queue, d.tenant_id, d.priority) > (l.queue, l.tenant_id, l.priority)
        ORDER BY d.queue, d.tenant_id, d.priority, d.claimable_at LIMIT 1
    ) AS n
),
waiting AS (
    SELECT min(w.claimable_at) AS since
    FROM lane l
    CROSS JOIN LATERAL (
        SELECT o.claimable_at
        FROM (SELECT d.claimable_at, d.tenant_id, d.job_id
              FROM job_dispatch d
              WHERE d.queue = l.queue AND d.tenant_id = l.tenant_id AND d.priority = l.priority
                AND d.claimable_at <= (SELECT before FROM input) AND d.claimable_at < 'infinity'
              ORDER BY d.claimable_at
              LIMIT 1000) AS o
        WHERE o.tenant_id <> ALL ((SELECT tenants FROM pauses)::uuid[])
           OR NOT EXISTS (SELECT 1
                          FROM scheduled_jobs j
                          JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
                          LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
                          WHERE j.tenant_id = o.tenant_id AND j.id = o.job_id AND (f.is_paused OR p.is_paused))
        ORDER BY o.claimable_at
        LIMIT 1
    ) AS w
    WHERE NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = l.tenant_id AND t.is_paused)
      -- Runs of a queue with limits wait by design.
      AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.tenant_id = l.tenant_id AND q.name = l.queue
                      AND (q.is_paused OR q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL))
),
-- The first entry of scheduled_jobs_due_idx; a held job sorts at the end of its hold.
due AS (
    SELECT greatest(j.next_run_at, j.dispatch_lock_until) AS since
    FROM scheduled_jobs j
    WHERE j.next_run_at IS NOT NULL
    ORDER BY greatest(j.next_run_at, j.dispatch_lock_until), j.burst_order
    LIMIT 1
)
SELECT (SELECT extract(epoch FROM clock_timestamp() - due.since)::float8 FROM due, input WHERE due.since <= input.before),
       (SELECT extract(epoch FROM clock_timestamp() - waiting.since)::float8 FROM waiting)

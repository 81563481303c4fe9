-- Dispatches of the built-in job, one for each message that waits. No quota counts them: they are the installation's.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::text AS job_name),
job AS MATERIALIZED (
    SELECT j.tenant_id, j.id, coalesce(j.queue, f.queue) AS queue, coalesce(j.priority, q.default_priority, 50) AS priority, clock_timestamp() AS at
    FROM input i
    JOIN scheduled_jobs j ON j.tenant_id = i.tenant_id AND j.name = i.job_name AND j.deleted_at IS NULL
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_system
    LEFT JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
),
made AS (
    UPDATE notification_deliveries d
    SET status = 'sending', dispatch_id = u.dispatch_id, updated_at = job.at
    FROM job, unnest($3::uuid[], $4::uuid[], $5::uuid[]) AS u (tenant_id, id, dispatch_id)
    WHERE d.tenant_id = u.tenant_id AND d.id = u.id AND d.status = 'waiting'
    RETURNING d.tenant_id, d.id, d.dispatch_id
),
counted AS (
    UPDATE scheduled_jobs j
    SET total_run_count = j.total_run_count + m.dispatched,
        active_dispatches = j.active_dispatches + m.dispatched,
        last_dispatched_at = job.at
    FROM job, (SELECT count(*)::integer AS dispatched FROM made) AS m
    WHERE j.tenant_id = job.tenant_id AND j.id = job.id AND m.dispatched > 0
)
INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, priority, triggered_by, triggered_by_user,
                          trigger_id, args)
SELECT m.dispatch_id, job.tenant_id, job.id, job.at, job.at, job.at, job.queue, job.priority, 'api', 'notifications', m.dispatch_id,
       jsonb_build_object('tenant', m.tenant_id, 'delivery', m.id)
FROM made m, job
RETURNING queue

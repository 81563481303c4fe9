-- Marks waiting deliveries as being sent, and names the built-in job whose runs send them. No quota
-- counts these runs, because they belong to the installation. Nothing is marked if the job is missing.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::text AS job_name),
job AS MATERIALIZED (
    SELECT j.id, j.version, coalesce(j.queue, f.queue) AS queue,
           coalesce(j.priority, q.default_priority, 50::smallint) AS priority, clock_timestamp() AS at
    FROM input i
    JOIN scheduled_jobs j ON j.tenant_id = i.tenant_id AND j.name = i.job_name AND j.deleted_at IS NULL
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_system
    LEFT JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
)
UPDATE notification_deliveries d
SET status = 'sending', dispatch_id = u.dispatch_id, updated_at = job.at
FROM job CROSS JOIN unnest($3::uuid[], $4::uuid[], $5::uuid[]) AS u (tenant_id, id, dispatch_id)
WHERE d.tenant_id = u.tenant_id AND d.id = u.id AND d.status = 'waiting'
RETURNING d.tenant_id, d.id, d.dispatch_id, job.id, job.queue, job.priority, job.version, job.at

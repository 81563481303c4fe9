-- Runs that can be retried: finished, not successful, of a job and a function that run. A retry has
-- the fire time and the arguments of its run, and the queue and the priority that the job has now.
-- Arguments that the present version of the job has too are NULL. The caller has locked the jobs. Of
-- one job the oldest fire times come first: they take its room.
WITH input AS (SELECT $1::uuid AS tenant_id, clock_timestamp() AS now)
SELECT d.id, md5('retry of ' || d.id)::uuid, d.job_id, d.scheduled_for,
       j.version,
       -- As text, because jsonb takes 1 and 1.0 for equal.
       CASE WHEN coalesce(d.args, v.settings -> 'task_args')::text IS DISTINCT FROM CASE WHEN j.is_version_stored THEN j.task_args::text END
            THEN coalesce(d.args, v.settings -> 'task_args') END,
       d.is_catch_up, d.traceparent,
       coalesce(j.queue, f.queue), coalesce(j.priority, q.default_priority, 50::smallint),
       j.start_within_seconds, j.overlap_policy, j.max_instances, j.active_dispatches,
       j.queued_dispatches, i.now
FROM input i
CROSS JOIN unnest($2::uuid[]) AS u (id)
JOIN job_dispatch d ON d.id = u.id AND d.tenant_id = i.tenant_id
    AND d.status IN ('FAILED', 'TIMEOUT', 'CANCELLED', 'DEAD_LETTER')
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
    AND j.deleted_at IS NULL AND j.is_enabled
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_active
LEFT JOIN scheduled_job_versions v
    ON d.args IS NULL AND d.job_version <> j.version
    AND v.tenant_id = d.tenant_id AND v.job_id = d.job_id AND v.version = d.job_version
LEFT JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
ORDER BY d.job_id, d.scheduled_for, d.id

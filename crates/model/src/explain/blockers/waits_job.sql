-- The context of a job. A quota that is not a number counts as no quota, as in the tick.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::timestamptz AS minute)
SELECT t.is_paused, CASE WHEN p.is_paused THEN p.name END, p.pause_reason, f.is_active, CASE WHEN f.is_paused THEN f.name END,
       f.pause_reason, coalesce(j.queue, f.queue),
       greatest(j.active_dispatches - j.queued_dispatches, 0)::bigint,
       CASE WHEN jsonb_typeof(t.quotas -> 'dispatches_per_minute') = 'number'
            THEN greatest(least((t.quotas ->> 'dispatches_per_minute')::numeric, 1000000000)::bigint, 0) END,
       coalesce((SELECT g.dispatched FROM tenant_usage g WHERE g.tenant_id = t.id AND g.minute >= input.minute), 0)::bigint,
       (SELECT extract(epoch FROM clock_timestamp() - s.last_heartbeat)::float8 FROM scheduler_instances s WHERE s.is_leader)
FROM input
JOIN scheduled_jobs j ON j.tenant_id = input.tenant_id AND j.id = input.job_id
JOIN tenants t ON t.id = j.tenant_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id

-- Everything that decides the fires of the jobs of `due`, which the statement before it defines.
--
-- Foreign keys prove that function and queue exist. LEFT JOIN keeps the function before its queue:
-- without statistics, the planner may join every job with all queues of its tenant first.
SELECT j.tenant_id, j.id, j.project_id, j.name, j.next_run_at, j.created_at,
       j.job_type, j.schedule_config, j.timezone, j.dst_gap, j.dst_overlap,
       j.start_at, j.end_at, j.max_runs, j.jitter_seconds, j.calendars, j.calendar_roll, j.settled_until, j.fired_count,
       j.misfire_policy, j.misfire_grace_seconds, j.misfire_cap, j.max_instances, j.overlap_policy, j.active_dispatches, j.queued_dispatches,
       j.last_fire_at, j.dispatch_lock_until,
       CASE WHEN NOT j.is_version_stored THEN j.task_args END, coalesce(j.queue, f.queue),
       coalesce(j.priority, q.default_priority), j.start_within_seconds, j.version,
       j.is_enabled, f.is_active,
       CASE WHEN t.is_paused THEN 'paused_tenant'
            WHEN p.is_paused THEN 'paused_project'
            WHEN q.is_paused THEN 'paused_queue'
            WHEN f.is_paused THEN 'paused_function'
            -- A pause that has ended holds the fires before its end, however late the tick reads
            -- them.
            WHEN j.is_paused AND (j.next_run_at < j.paused_until) IS NOT FALSE THEN 'paused_job' END,
       j.paused_until,
       CASE WHEN jsonb_typeof(t.quotas -> 'dispatches_per_minute') = 'number'
            THEN greatest(least((t.quotas ->> 'dispatches_per_minute')::numeric, 1000000000)::bigint, 0) END,
       j.task_function_id, j.burst_order, j.edition
FROM due j
JOIN tenants t ON t.id = j.tenant_id
LEFT JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
LEFT JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
ORDER BY greatest(j.next_run_at, j.dispatch_lock_until), j.burst_order

-- The columns of tick_lock_due.sql. A job that is due by now belongs to the tick.
WITH input AS (SELECT $1::timestamptz AS now, $2::text AS tzdata_version)
SELECT j.tenant_id, j.id, j.project_id, j.name, j.next_run_at, j.created_at,
       j.job_type, j.schedule_config, j.timezone, j.dst_gap, j.dst_overlap,
       j.start_at, j.end_at, j.max_runs, j.jitter_seconds, j.calendars, j.calendar_roll, j.settled_until, j.fired_count,
       j.misfire_policy, j.misfire_grace_seconds, j.misfire_cap, j.max_instances, j.overlap_policy, j.active_dispatches, j.queued_dispatches,
       j.last_fire_at, j.dispatch_lock_until,
       j.task_args, coalesce(j.queue, f.queue), coalesce(j.priority, q.default_priority), j.start_within_seconds, j.version,
       j.is_enabled, f.is_active,
       CASE WHEN t.is_paused THEN 'paused_tenant'
            WHEN p.is_paused THEN 'paused_project'
            WHEN q.is_paused THEN 'paused_queue'
            WHEN f.is_paused THEN 'paused_function'
            -- A pause that has ended holds the fires before its end, however late they are read.
            WHEN j.is_paused AND (j.next_run_at < j.paused_until) IS NOT FALSE THEN 'paused_job' END,
       j.paused_until,
       CASE WHEN jsonb_typeof(t.quotas -> 'dispatches_per_minute') = 'number'
            THEN greatest(least((t.quotas ->> 'dispatches_per_minute')::numeric, 1000000000)::bigint, 0) END
FROM input
CROSS JOIN scheduled_jobs j
JOIN tenants t ON t.id = j.tenant_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
WHERE (j.tenant_id, j.id) IN (SELECT u.tenant_id, u.id FROM unnest($3::uuid[], $4::uuid[]) AS u (tenant_id, id))
  AND j.next_run_at > input.now AND j.tzdata_version <> input.tzdata_version
ORDER BY j.tenant_id, j.id
FOR NO KEY UPDATE OF j SKIP LOCKED

-- What the API needs of row-level security to keep quotas, to delete queues and to do what operators of the installation ask for.
SELECT isolate_tenants('tenant_log_usage');
GRANT SELECT ON tenant_log_usage TO sched_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenant_log_usage TO sched_daemon;
-- Triggers count against the quota of their tenant.
GRANT INSERT, UPDATE ON tenant_usage TO sched_api;
GRANT DELETE ON queues TO sched_api;

GRANT UPDATE (is_active) ON scheduler_job_types TO sched_api;
CREATE POLICY operated ON scheduler_job_types FOR UPDATE TO sched_api USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
GRANT UPDATE (drain_requested_at) ON worker_registration TO sched_api;
CREATE POLICY operated ON worker_registration FOR UPDATE TO sched_api USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));

-- A door: who operates the installation is told how much a tenant uses, and sees no row of it for that.
-- What a count of an earlier minute or day says is over. A dispatch that was claimed again by the same worker may be named by two of its claims.
CREATE FUNCTION find_usage(
    tenant uuid, OUT quotas jsonb, OUT jobs bigint, OUT dispatches bigint, OUT running bigint, OUT log_bytes bigint, OUT log_bytes_dropped bigint, OUT day date
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT t.quotas,
           (SELECT count(*)
            FROM scheduled_jobs j
            WHERE j.tenant_id = t.id AND j.deleted_at IS NULL
              AND (j.scope = 'project' OR NOT EXISTS (SELECT 1 FROM task_functions f
                                                      WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_system))),
           CASE WHEN t.quotas ? 'dispatches_per_minute' THEN
               coalesce((SELECT u.dispatched FROM tenant_usage u WHERE u.tenant_id = t.id AND u.minute >= i.minute), 0) END,
           (SELECT count(DISTINCT d.id)
            FROM worker_claims c
            CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
            JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
            WHERE d.tenant_id = t.id),
           CASE WHEN t.quotas ? 'log_bytes' THEN
               coalesce((SELECT u.kept_bytes FROM tenant_log_usage u WHERE u.tenant_id = t.id AND u.day >= i.today), 0) END,
           CASE WHEN t.quotas ? 'log_bytes' THEN
               coalesce((SELECT u.dropped_bytes FROM tenant_log_usage u WHERE u.tenant_id = t.id AND u.day >= i.today), 0) END,
           i.today
    FROM (SELECT date_trunc('minute', clock_timestamp() + interval '1 second') AS minute,
                 (clock_timestamp() AT TIME ZONE 'UTC')::date AS today) AS i
    CROSS JOIN tenants t
    WHERE t.id = find_usage.tenant
      AND (t.id = NULLIF(current_setting('sched.tenant', true), '')::uuid OR coalesce(current_setting('sched.system', true), '') = 'on');
END;
COMMENT ON FUNCTION find_usage(uuid) IS 'How much of its quotas a tenant uses, for itself and for who operates the installation.';
REVOKE EXECUTE ON FUNCTION find_usage(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_usage(uuid) TO sched_api, sched_daemon;

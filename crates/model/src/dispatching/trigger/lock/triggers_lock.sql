-- Finds the jobs of triggers and locks them in the order of their ids. A job that another
-- transaction has locked is skipped, not waited for. CASE: see trigger_plain.sql.
--
-- is_alone: the caller triggers one job and already holds its lock. Only then the arguments of the
-- job and their schema are read. In a batch, a job whose arguments have a schema is skipped too, as
-- if it were locked: its triggers are decided one by one.
WITH input AS (
    SELECT $1::uuid AS tenant_id, $2::smallint AS standard_priority, $3::boolean AS is_alone
),
asked AS MATERIALIZED (
    SELECT u.place, coalesce(
        (SELECT j.id FROM scheduled_jobs j
         WHERE j.tenant_id = i.tenant_id AND j.id = u.id
           AND CASE WHEN j.deleted_at IS NULL THEN true ELSE false END),
        (SELECT j.id FROM scheduled_jobs j
         WHERE j.tenant_id = i.tenant_id AND j.name = u.name AND j.deleted_at IS NULL)
    ) AS job_id
    FROM input i CROSS JOIN unnest($4::uuid[], $5::text[]) WITH ORDINALITY AS u (id, name, place)
),
locked AS MATERIALIZED (
    SELECT j.id, j.task_function_id, j.queue, j.priority, j.start_within_seconds, j.version,
           j.overlap_policy, j.max_instances, j.active_dispatches, j.queued_dispatches,
           CASE WHEN (SELECT is_alone FROM input) THEN j.task_args END AS task_args,
           CASE WHEN NOT j.is_version_stored THEN j.task_args END AS unstored_args
    FROM scheduled_jobs j
    WHERE j.tenant_id = (SELECT tenant_id FROM input)
      AND j.id = ANY (ARRAY(SELECT job_id FROM asked))
      AND CASE WHEN j.deleted_at IS NULL THEN true ELSE false END
      AND ((SELECT is_alone FROM input)
           OR NOT EXISTS (
              SELECT FROM task_functions f
              WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id
                AND f.args_schema IS NOT NULL))
    ORDER BY j.id
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT a.job_id, f.name, f.is_system, f.is_active,
       CASE WHEN i.is_alone THEN f.args_schema END, coalesce(l.queue, f.queue),
       coalesce(l.priority, q.default_priority, i.standard_priority),
       l.overlap_policy, l.max_instances, l.active_dispatches, l.queued_dispatches,
       l.start_within_seconds, l.version, l.task_args, l.unstored_args,
       (t.quotas ->> 'dispatches_per_minute')::bigint, clock_timestamp()
FROM input i
CROSS JOIN asked a
LEFT JOIN tenants t ON t.id = i.tenant_id
LEFT JOIN locked l ON l.id = a.job_id
LEFT JOIN task_functions f ON f.tenant_id = i.tenant_id AND f.id = l.task_function_id
LEFT JOIN queues q ON q.tenant_id = i.tenant_id AND q.name = coalesce(l.queue, f.queue)
ORDER BY a.place

-- Finds the jobs that triggers are for, and locks them in the order of their ids. A job that somebody else holds is not waited for.
-- How much room a job has is not said of one that takes any number at once. One whose arguments are to be held against a schema is left out too:
-- its triggers are judged one by one.
WITH input AS (
    SELECT $1::uuid AS tenant_id, $2::smallint AS standard_priority
),
asked AS MATERIALIZED (
    SELECT u.place, coalesce(
        (SELECT j.id FROM scheduled_jobs j WHERE j.tenant_id = i.tenant_id AND j.id = u.id AND j.deleted_at IS NULL),
        (SELECT j.id FROM scheduled_jobs j WHERE j.tenant_id = i.tenant_id AND j.name = u.name AND j.deleted_at IS NULL)
    ) AS job_id
    FROM input i CROSS JOIN unnest($3::uuid[], $4::text[]) WITH ORDINALITY AS u (id, name, place)
),
locked AS MATERIALIZED (
    SELECT j.id, j.task_function_id, j.queue, j.priority, j.start_within_seconds,
           CASE WHEN j.overlap_policy <> 'allow' THEN j.max_instances - (j.active_dispatches - j.queued_dispatches) END AS room
    FROM scheduled_jobs j
    WHERE j.tenant_id = (SELECT tenant_id FROM input) AND j.id = ANY (ARRAY(SELECT job_id FROM asked)) AND j.deleted_at IS NULL
      AND NOT EXISTS (
          SELECT FROM task_functions f WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.args_schema IS NOT NULL
      )
    ORDER BY j.id
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT a.job_id, f.name, f.is_system, f.is_active, coalesce(l.queue, f.queue), coalesce(l.priority, q.default_priority, i.standard_priority),
       l.room, l.start_within_seconds, (t.quotas ->> 'dispatches_per_minute')::bigint, clock_timestamp()
FROM input i
CROSS JOIN asked a
JOIN tenants t ON t.id = i.tenant_id
LEFT JOIN locked l ON l.id = a.job_id
LEFT JOIN task_functions f ON f.tenant_id = i.tenant_id AND f.id = l.task_function_id
LEFT JOIN queues q ON q.tenant_id = i.tenant_id AND q.name = coalesce(l.queue, f.queue)
ORDER BY a.place

-- Runs finished dispatches again, each as a dispatch of its own with the fire time and the arguments of the first one, in the queue and with
-- the priority that its job has now. The caller has locked the jobs. The key makes each dispatch one retry, however often it is asked for.
WITH input AS (
    SELECT $1::uuid AS tenant_id, $2::text AS by, $3::text AS traceparent, clock_timestamp() AS at
),
source AS (
    SELECT u.new_id, d.id, d.tenant_id, d.job_id, d.scheduled_for, d.args, d.is_catch_up, d.traceparent,
           coalesce(j.queue, f.queue) AS queue, coalesce(j.priority, q.default_priority, 50) AS priority, j.start_within_seconds,
           j.overlap_policy <> 'allow'
               AND j.active_dispatches - j.queued_dispatches
                   + row_number() OVER (PARTITION BY d.job_id ORDER BY d.scheduled_for, d.id) > j.max_instances AS is_in_line
    FROM input
    CROSS JOIN unnest($4::uuid[], $5::uuid[]) AS u (id, new_id)
    JOIN job_dispatch d ON d.id = u.id AND d.tenant_id = input.tenant_id AND d.status IN ('FAILED', 'TIMEOUT', 'CANCELLED', 'DEAD_LETTER')
    JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id AND j.deleted_at IS NULL AND j.is_enabled
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_active
    LEFT JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
),
created AS (
    INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, priority, args, is_catch_up,
                              expires_at, triggered_by, triggered_by_user, trigger_id, retry_of, traceparent)
    SELECT s.new_id, s.tenant_id, s.job_id, s.scheduled_for, input.at, CASE WHEN s.is_in_line THEN 'infinity' ELSE input.at END,
           s.queue, s.priority, s.args, s.is_catch_up, input.at + make_interval(secs => s.start_within_seconds), 'retry', input.by,
           md5('retry of ' || s.id)::uuid, s.id, coalesce(input.traceparent, s.traceparent)
    FROM source s, input
    ORDER BY s.new_id
    ON CONFLICT (job_id, scheduled_for, trigger_id) DO NOTHING
    RETURNING id, tenant_id, job_id, retry_of, queue, claimable_at = 'infinity' AS is_in_line
),
counted AS (
    UPDATE scheduled_jobs j
    SET total_run_count = j.total_run_count + c.created,
        active_dispatches = j.active_dispatches + c.created,
        queued_dispatches = j.queued_dispatches + c.in_line,
        last_dispatched_at = c.at
    FROM (SELECT n.tenant_id, n.job_id, count(*)::integer AS created, (count(*) FILTER (WHERE n.is_in_line))::integer AS in_line, input.at
          FROM created n, input GROUP BY n.tenant_id, n.job_id, input.at) AS c
    WHERE j.tenant_id = c.tenant_id AND j.id = c.job_id
),
settled AS (
    UPDATE dead_letters l
    SET settled_as = 'retried', settled_at = input.at, settled_by = input.by, settled_reason = NULL, retried_as = c.id
    FROM created c, input
    WHERE l.tenant_id = c.tenant_id AND l.dispatch_id = c.retry_of
)
SELECT retry_of, id, job_id, queue FROM created ORDER BY id

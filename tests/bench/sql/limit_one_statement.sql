-- pgbench: limit.sql as one statement, which sends nothing to the client and back. A scheduler
-- cannot work like this, because it computes the next fire outside of the database. This is the
-- upper bound.
WITH due AS MATERIALIZED (
    SELECT tenant_id, id, project_id, task_function_id, next_run_at, queue, priority, task_args, last_fire_at, is_paused
    FROM scheduled_jobs
    WHERE next_run_at IS NOT NULL AND greatest(next_run_at, dispatch_lock_until) <= :due::timestamptz
    ORDER BY greatest(next_run_at, dispatch_lock_until), burst_order
    LIMIT 1000
    FOR NO KEY UPDATE SKIP LOCKED
), batch AS MATERIALIZED (
    -- Time-ordered identifiers, random for the batch and counted within it: as cheap as the daemons' own.
    SELECT left(bench.time_ordered(clock_timestamp())::text, 24) AS prefix
), work AS MATERIALIZED (
    SELECT (batch.prefix || lpad(to_hex(row_number() OVER ()), 12, '0'))::uuid AS id, j.tenant_id, j.id AS job_id,
           j.next_run_at AS fire, j.next_run_at + interval '1 hour' AS next, coalesce(j.queue, f.queue) AS queue,
           coalesce(j.priority, q.default_priority) AS priority, j.task_args AS args, j.last_fire_at AS follows
    FROM batch, due AS j
    JOIN tenants AS t ON t.id = j.tenant_id
    JOIN task_functions AS f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    JOIN queues AS q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
    LEFT JOIN projects AS p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
    WHERE NOT (t.is_paused OR q.is_paused OR f.is_paused OR j.is_paused OR coalesce(p.is_paused, false))
), made AS (
    INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, priority, args,
                              is_catch_up, triggered_by, scheduler_instance_id, term, follows)
    SELECT id, tenant_id, job_id, 1, fire, fire, fire, queue, priority, NULL, false, 'scheduler',
           '00000000-0000-7000-9000-000000000001', 1, follows
    FROM work
    ON CONFLICT (job_id, scheduled_for, trigger_id) DO NOTHING
)
UPDATE scheduled_jobs AS j
SET next_run_at = work.next, settled_until = greatest(j.settled_until, work.fire), fired_count = j.fired_count + 1,
    last_dispatched_at = clock_timestamp(), total_run_count = j.total_run_count + 1,
    active_dispatches = j.active_dispatches + 1, last_fire_at = work.fire
FROM work
WHERE j.tenant_id = work.tenant_id AND j.id = work.job_id AND j.next_run_at = work.fire;

-- pgbench: what limit.sql does, as one statement: nothing travels to the client and back. A scheduler cannot work like this,
-- because it computes the next fire outside of the database; it is the ceiling.
WITH due AS MATERIALIZED (
    SELECT j.tenant_id, j.id, j.next_run_at, coalesce(j.queue, f.queue) AS queue, j.task_args, j.last_fire_at,
           coalesce(j.priority, q.default_priority) AS priority
    FROM scheduled_jobs AS j
    JOIN tenants AS t ON t.id = j.tenant_id
    JOIN task_functions AS f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    JOIN queues AS q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
    LEFT JOIN projects AS p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
    WHERE j.next_run_at IS NOT NULL AND greatest(j.next_run_at, j.dispatch_lock_until) <= :due::timestamptz
          AND NOT (t.is_paused OR q.is_paused OR f.is_paused OR j.is_paused OR coalesce(p.is_paused, false))
    ORDER BY greatest(j.next_run_at, j.dispatch_lock_until), j.burst_order
    LIMIT 1000
    FOR NO KEY UPDATE OF j SKIP LOCKED
), made AS (
    INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, priority, args,
                              is_catch_up, triggered_by, scheduler_instance_id, term, follows)
    SELECT bench.time_ordered(clock_timestamp()), tenant_id, id, next_run_at, next_run_at, next_run_at, queue, priority,
           task_args, false, 'scheduler', '00000000-0000-7000-9000-000000000001', 1, last_fire_at
    FROM due
    ON CONFLICT (job_id, scheduled_for, trigger_id) DO NOTHING
)
UPDATE scheduled_jobs AS j
SET next_run_at = due.next_run_at + interval '1 hour', settled_until = greatest(j.settled_until, due.next_run_at),
    fired_count = j.fired_count + 1, last_dispatched_at = clock_timestamp(), total_run_count = j.total_run_count + 1,
    active_dispatches = j.active_dispatches + 1, last_fire_at = due.next_run_at
FROM due
WHERE j.tenant_id = due.tenant_id AND j.id = due.id AND j.next_run_at = due.next_run_at;

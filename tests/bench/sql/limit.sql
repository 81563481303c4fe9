-- pgbench: one batch of 1,000 due jobs, written by hand. It has the same joins, written columns,
-- keys, checks and indexes as the tick of the scheduler, and sends the arrays to the client and
-- back like the tick. It does not compute the next fire of each schedule (it adds an hour), read
-- the settings for a decision, prove leadership, or notify workers. It locks the jobs before all
-- joins. So the planner reads them from the index in order, independent of its estimate of their
-- number, also in the first executions of a connection.
BEGIN;
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
)
SELECT array_agg(id) AS ids, array_agg(tenant_id) AS tenants, array_agg(job_id) AS jobs, array_agg(fire) AS fires,
       array_agg(next) AS nexts, array_agg(queue) AS queues, array_agg(priority) AS priorities, array_agg(args) AS args,
       array_agg(follows) AS follows
FROM work
\gset
INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, priority, args, is_catch_up,
                          triggered_by, scheduler_instance_id, term, follows)
SELECT u.id, u.tenant_id, u.job_id, 1, u.fire, u.fire, u.fire, u.queue, u.priority, NULL, false,
       'scheduler', '00000000-0000-7000-9000-000000000001', 1, u.follows
FROM unnest(:ids::uuid[], :tenants::uuid[], :jobs::uuid[], :fires::timestamptz[], :queues::text[], :priorities::smallint[],
            :args::jsonb[], :follows::timestamptz[]) AS u (id, tenant_id, job_id, fire, queue, priority, args, follows)
ON CONFLICT (job_id, scheduled_for, trigger_id) DO NOTHING;
UPDATE scheduled_jobs AS j
SET next_run_at = u.next, settled_until = greatest(j.settled_until, u.fire), fired_count = j.fired_count + 1,
    last_dispatched_at = clock_timestamp(), total_run_count = j.total_run_count + 1,
    active_dispatches = j.active_dispatches + 1, last_fire_at = u.fire
FROM unnest(:tenants::uuid[], :jobs::uuid[], :fires::timestamptz[], :nexts::timestamptz[]) AS u (tenant_id, id, fire, next)
WHERE j.tenant_id = u.tenant_id AND j.id = u.id AND j.next_run_at = u.fire;
COMMIT;

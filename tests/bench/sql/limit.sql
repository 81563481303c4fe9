-- pgbench: one batch of 1,000 due jobs, as somebody would write it by hand. The same joins, the same columns written, the
-- same keys, checks and indexes as the scheduler's tick; the arrays go to the client and back, as the tick's do.
-- What it does not do: compute the next fire of each schedule (it adds an hour), fetch the settings a decision needs, prove
-- its leadership, or tell the workers.
BEGIN;
SELECT array_agg(bench.time_ordered(clock_timestamp())) AS ids, array_agg(tenant_id) AS tenants, array_agg(id) AS jobs,
       array_agg(next_run_at) AS fires, array_agg(next_run_at + interval '1 hour') AS nexts, array_agg(queue) AS queues,
       array_agg(priority) AS priorities, array_agg(task_args) AS args, array_agg(last_fire_at) AS follows
FROM (SELECT j.tenant_id, j.id, j.next_run_at, coalesce(j.queue, f.queue) AS queue, j.task_args, j.last_fire_at,
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
      FOR NO KEY UPDATE OF j SKIP LOCKED) AS due
\gset
INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, priority, args, is_catch_up,
                          triggered_by, scheduler_instance_id, term, follows)
SELECT u.id, u.tenant_id, u.job_id, u.fire, u.fire, u.fire, u.queue, u.priority, u.args, false,
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

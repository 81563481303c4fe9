-- Temporary: remove this folder when the API creates runs with its own statement.
--
-- Triggers several jobs of a tenant in one statement, which is its own transaction: one round trip.
-- It first sets the API's role and the tenant, as every transaction of the API does, so that
-- row-level security applies.
CREATE FUNCTION trigger_jobs(
    of_tenant uuid, standard_priority smallint, made_by text, asked_ids uuid[], asked_names text[],
    may_run_built_in boolean[], asking_users text[], own_args jsonb[], traceparents text[],
    actors text[], requests text[], addresses text[],
    OUT fate text, OUT of_job uuid, OUT made uuid, OUT waits_in text, OUT of_function text)
    RETURNS SETOF record
    LANGUAGE plpgsql
    AS $$
DECLARE
    now_is timestamptz;
BEGIN
    -- Until the end of the transaction, which is this call.
    PERFORM set_config('role', 'sched_api', true),
            set_config('sched.tenant', of_tenant::text, true), set_config('sched.system', '', true),
            set_config('plan_cache_mode', 'force_generic_plan', true);
    -- A tenant with a quota of runs needs the transaction that charges the quota.
    IF EXISTS (SELECT FROM tenants t
               WHERE t.id = of_tenant AND t.quotas ? 'dispatches_per_minute') THEN
        RETURN QUERY SELECT 'quota', NULL::uuid, NULL::uuid, NULL::text, NULL::text;
        RETURN;
    END IF;
    now_is := clock_timestamp();
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT u.*, coalesce(
            (SELECT j.id FROM scheduled_jobs j
             WHERE j.tenant_id = of_tenant AND j.id = u.id AND j.deleted_at IS NULL),
            (SELECT j.id FROM scheduled_jobs j
             WHERE j.tenant_id = of_tenant AND j.name = u.name AND j.deleted_at IS NULL)
        ) AS job_id
        FROM unnest(asked_ids, asked_names, may_run_built_in, asking_users, own_args, traceparents,
                    actors, requests, addresses)
            WITH ORDINALITY
            AS u (id, name, may, asking, args, traceparent, actor, request, address, place)
    ),
    -- In the order of their ids. A job that another transaction has locked is skipped, not waited
    -- for. room is NULL for a job without a limit.
    locked AS MATERIALIZED (
        SELECT j.id, j.task_function_id, j.queue, j.priority, j.start_within_seconds, j.task_args,
               CASE WHEN j.overlap_policy <> 'allow'
                    THEN j.max_instances - (j.active_dispatches - j.queued_dispatches) END AS room
        FROM scheduled_jobs j
        WHERE j.tenant_id = of_tenant AND j.id = ANY (ARRAY(SELECT a.job_id FROM asked a))
          AND j.deleted_at IS NULL
        ORDER BY j.id
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    -- A job whose arguments have a schema is busy too: only a program can check them. The first
    -- triggers of a job take its free instances, the rest are queued. An id is ordered by time
    -- (UUID version 7, RFC 9562): milliseconds, then random bits except for the version.
    judged AS MATERIALIZED (
        SELECT d.*,
               coalesce(row_number() OVER (PARTITION BY d.job_id, d.fate ORDER BY d.place)
                        > d.room, false) AS is_in_line,
               CASE WHEN d.fate = 'created' THEN
                   encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
                       PLACING substring(int8send(floor(extract(epoch FROM now_is) * 1000)::bigint)
                                         FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
               END AS id
        FROM (
            SELECT a.place, a.job_id, a.asking, a.args, a.traceparent, a.actor, a.request,
                   a.address, f.name AS function, coalesce(l.queue, f.queue) AS queue,
                   coalesce(l.priority, q.default_priority, standard_priority) AS priority,
                   l.room, l.start_within_seconds, l.task_args,
                   CASE WHEN a.job_id IS NULL THEN 'no_such_job'
                        WHEN l.id IS NULL OR f.args_schema IS NOT NULL THEN 'busy'
                        WHEN f.is_system AND NOT a.may THEN 'built_in'
                        WHEN NOT f.is_active THEN 'inactive'
                        ELSE 'created' END AS fate
            FROM asked a
            LEFT JOIN locked l ON l.id = a.job_id
            LEFT JOIN task_functions f
                ON f.tenant_id = of_tenant AND f.id = l.task_function_id
            LEFT JOIN queues q
                ON q.tenant_id = of_tenant AND q.name = coalesce(l.queue, f.queue)
        ) AS d
    ),
    counted AS (
        UPDATE scheduled_jobs j
        SET total_run_count = j.total_run_count + c.triggers,
            active_dispatches = j.active_dispatches + c.triggers,
            queued_dispatches = j.queued_dispatches + c.in_line,
            last_dispatched_at = now_is
        FROM (
            SELECT c.job_id, count(*)::integer AS triggers,
                   count(*) FILTER (WHERE c.is_in_line)::integer AS in_line
            FROM judged c
            WHERE c.id IS NOT NULL
            GROUP BY c.job_id
        ) AS c
        WHERE j.tenant_id = of_tenant AND j.id = c.job_id
    ),
    dispatched AS (
        INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at,
                                  expires_at, queue, priority, triggered_by, triggered_by_user,
                                  trigger_id, args, traceparent)
        SELECT c.id, of_tenant, c.job_id, now_is, now_is,
               CASE WHEN c.is_in_line THEN 'infinity' ELSE now_is END,
               now_is + make_interval(secs => c.start_within_seconds), c.queue, c.priority, made_by,
               c.asking, c.id, coalesce(c.args, c.task_args), c.traceparent
        FROM judged c
        WHERE c.id IS NOT NULL
    ),
    noted AS (
        INSERT INTO audit_log (tenant_id, actor, action, target_type, target_id, after, request_id,
                               address)
        SELECT of_tenant, c.actor, 'trigger_job', 'job', c.job_id::text,
               jsonb_build_object('dispatch_id', c.id, 'has_own_args', c.args IS NOT NULL),
               c.request, c.address
        FROM judged c
        WHERE c.id IS NOT NULL
    )
    SELECT j.fate, j.job_id, j.id, j.queue, j.function
    FROM judged j
    ORDER BY j.place;
END
$$;
COMMENT ON FUNCTION trigger_jobs(uuid, smallint, text, uuid[], text[], boolean[], text[], jsonb[],
    text[], text[], text[], text[]) IS
    'Triggers jobs of a tenant without a quota of runs, by id or name, each with an audit event. '
    'Returns the outcome of each trigger, in their order.';

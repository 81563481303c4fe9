-- The runs of triggers that need no decision beyond this statement: the job allows any number of
-- runs, its function is active, not built-in and without a schema of arguments, and its tenant has
-- no quota of runs. The other triggers are left to the caller.
--
-- FOR KEY SHARE conflicts with FOR UPDATE only, which the deletion of a job and the change of its
-- overlap policy take: a job that either holds is skipped, and one that either has changed is read
-- again. Ticks, counts and other triggers hold FOR NO KEY UPDATE at most.
--
-- CASE hides the predicate of the index of names from the planner. While the table is small it
-- prefers that index, and its plan would then read all jobs of the tenant for each trigger.
--
-- The statement is sent before the answer to the begin of its transaction. Without a begin, the
-- setting of the tenant is absent, and nothing is written.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::smallint AS standard_priority),
asked AS MATERIALIZED (
    SELECT u.*, coalesce(
        (SELECT j.id FROM scheduled_jobs j
         WHERE j.tenant_id = i.tenant_id AND j.id = u.id
           AND CASE WHEN j.deleted_at IS NULL THEN true ELSE false END),
        (SELECT j.id FROM scheduled_jobs j
         WHERE j.tenant_id = i.tenant_id AND j.name = u.name AND j.deleted_at IS NULL)
    ) AS job_id
    FROM input i
    CROSS JOIN unnest($3::uuid[], $4::text[], $5::jsonb[], $6::text[], $7::text[], $8::text[],
                      $9::text[], $10::text[], $11::text[])
        WITH ORDINALITY AS u (id, name, args, triggered_by, triggered_by_user, traceparent, actor,
                              request_id, address, place)
),
locked AS MATERIALIZED (
    SELECT j.id, j.task_function_id, j.queue, j.priority, j.start_within_seconds, j.version,
           j.task_args, CASE WHEN NOT j.is_version_stored THEN j.task_args END AS unstored_args
    FROM scheduled_jobs j
    WHERE j.tenant_id = (SELECT tenant_id FROM input)
      AND j.id = ANY (ARRAY(SELECT job_id FROM asked))
      AND CASE WHEN j.deleted_at IS NULL THEN true ELSE false END AND j.overlap_policy = 'allow'
      AND current_setting('sched.tenant', true) = (SELECT tenant_id::text FROM input)
    ORDER BY j.id
    FOR KEY SHARE SKIP LOCKED
),
new AS MATERIALIZED (
    SELECT n.*, n.id AS trigger_id, n.scheduled_for AS available_at, false AS is_queued,
           n.scheduled_for + n.start_within_seconds * interval '1 second' AS expires_at,
           false AS is_catch_up, NULL::timestamptz AS follows, NULL::uuid AS retry_of, NULL::text AS idempotency_key,
           NULL::uuid AS scheduler_instance_id, NULL::bigint AS term
    FROM (
        -- A UUID of version 7: its first 48 bits are the milliseconds of scheduled_for.
        SELECT t.*,
               encode(set_bit(set_bit(overlay(
                   uuid_send(gen_random_uuid())
                   PLACING substring(int8send(floor(
                       extract(epoch FROM t.scheduled_for) * 1000)::bigint) FROM 3)
                   FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid AS id
        FROM (
            SELECT a.place, i.tenant_id, l.id AS job_id, clock_timestamp() AS scheduled_for,
                   l.start_within_seconds, q.name AS queue,
                   coalesce(l.priority, q.default_priority, i.standard_priority) AS priority,
                   l.version AS job_version, a.args IS NOT NULL AS has_own_args,
                   -- As text, because jsonb takes 1 and 1.0 for equal.
                   CASE WHEN a.args::text <> l.task_args::text THEN a.args
                        ELSE l.unstored_args END AS args,
                   a.triggered_by, a.triggered_by_user, a.traceparent, a.actor, a.request_id, a.address
            FROM input i
            JOIN tenants t ON t.id = i.tenant_id
            CROSS JOIN asked a
            JOIN locked l ON l.id = a.job_id
            JOIN task_functions f ON f.tenant_id = i.tenant_id AND f.id = l.task_function_id
            JOIN queues q ON q.tenant_id = i.tenant_id AND q.name = coalesce(l.queue, f.queue)
            WHERE f.is_active AND NOT f.is_system AND f.args_schema IS NULL
              AND NOT t.quotas ? 'dispatches_per_minute'
            ORDER BY a.place
        ) AS t
    ) AS n
)

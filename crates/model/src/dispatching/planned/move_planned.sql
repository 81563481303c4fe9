-- Dispatches fires that the leader has computed ahead: moves each cursor by compare-and-set and
-- defines the runs of the moved jobs as `new`.
--
-- Every condition that the plan relied on is compared in this statement. A job that differs in any
-- of them is not moved, and the ordinary tick decides about it: other settings (version), another
-- position (next_run_at, last_fire_at, settled_until), a pause, a hold, no room, or a changed row
-- of its tenant, project, function or queue (edition). The database's clock decides whether a fire
-- is due and on time.
--
-- `deleted_at IS NULL` as such is the predicate of the index of names. The planner prefers that index
-- while the table is small, and its plan would then read all jobs of the tenant for each fire.
--
-- There is no SKIP LOCKED: an UPDATE waits for a locked job, then compares again. The timeout
-- bounds the wait and is set before the first lock, because `leader` reads `patience`.
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true)),
leader AS MATERIALIZED (
    SELECT i.id AS instance_id, i.term, clock_timestamp() AS now
    FROM patience
    CROSS JOIN scheduler_instances i
    WHERE i.id = $1 AND i.is_leader AND i.term = $2
    FOR KEY SHARE OF i
),
-- An array, because the planner cannot estimate the parameters and might join them by a nested loop.
sources AS MATERIALIZED (
    SELECT array_agg(concat_ws(' ', t.xmin, f.xmin, q.xmin, p.xmin) = s.edition ORDER BY s.place) AS are_same
    FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::uuid[], $7::text[])
        WITH ORDINALITY AS s (tenant_id, function_id, queue, project_id, edition, place)
    LEFT JOIN tenants t ON t.id = s.tenant_id
    LEFT JOIN task_functions f ON f.tenant_id = s.tenant_id AND f.id = s.function_id
    LEFT JOIN queues q ON q.tenant_id = s.tenant_id AND q.name = s.queue
    LEFT JOIN projects p ON p.tenant_id = s.tenant_id AND p.id = s.project_id
),
moved AS (
    UPDATE scheduled_jobs j
    SET next_run_at = w.next_run_at,
        settled_until = w.fire,
        fired_count = j.fired_count + 1,
        tzdata_version = w.tzdata_version,
        last_dispatched_at = clock_timestamp(),
        total_run_count = j.total_run_count + 1,
        active_dispatches = j.active_dispatches + 1,
        last_fire_at = w.fire
    FROM leader l
    CROSS JOIN unnest(
        $8::integer[], $9::uuid[], $10::uuid[], $11::uuid[], $12::bigint[], $13::timestamptz[],
        $14::timestamptz[], $15::timestamptz[], $16::timestamptz[], $17::text[], $18::smallint[],
        $19::timestamptz[], $20::text[])
        AS w (source, id, tenant_id, job_id, version, fire, valid_until, next_run_at, available_at,
              queue, priority, follows, tzdata_version)
    WHERE j.tenant_id = w.tenant_id AND j.id = w.job_id
      AND j.next_run_at = w.fire
      AND j.version = w.version
      AND j.last_fire_at IS NOT DISTINCT FROM w.follows
      AND j.settled_until < w.fire
      AND l.now BETWEEN w.fire AND w.valid_until
      AND j.is_enabled AND NOT j.is_paused
      AND CASE WHEN j.deleted_at IS NULL THEN true ELSE false END
      AND j.dispatch_lock_until IS NULL
      AND (j.overlap_policy = 'allow' OR j.active_dispatches < j.max_instances)
      AND ((SELECT s.are_same FROM sources s))[w.source]
    RETURNING w.id, w.tenant_id, w.job_id, w.fire, w.available_at, w.queue, w.priority, w.follows,
              j.version, CASE WHEN NOT j.is_version_stored THEN j.task_args END AS args,
              l.instance_id, l.term
),
new AS (
    SELECT m.id, m.tenant_id, m.job_id, m.fire AS scheduled_for, m.available_at, false AS is_queued,
           NULL::timestamptz AS expires_at, m.queue, m.priority, m.args,
           m.version AS job_version, false AS is_catch_up, m.follows,
           NULL::text AS triggered_by_user, NULL::uuid AS trigger_id, NULL::uuid AS retry_of,
           NULL::text AS idempotency_key, NULL::text AS traceparent, 'scheduler' AS triggered_by,
           m.instance_id AS scheduler_instance_id, m.term
    FROM moved m
)

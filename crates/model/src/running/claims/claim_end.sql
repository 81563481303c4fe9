-- The end of every claim: claim.sql, claim_limited.sql and claim_lone.sql are heads, each followed
-- by this text in one statement. A head selects and locks the runs. This text takes them, writes the
-- claim and the started events, and returns the runs to the worker. A head defines:
--
-- - `input (worker_id, at, lease_ms)`: one row. `at` is the instant of the claim; NULL means the
--   instant of each row's write. `lease_ms` is the lease to announce with the first run; NULL means
--   no renewal.
-- - `picked (at, id)`: the locked rows of job_dispatch, by ctid and id.
-- - `answer (shared_by, last, has_limited, room_in_ms, tenants_with_quota, next_claimable_ms)`: one
--   row, the fields of `ClaimOutcome`. An array, even an empty one, means that each run counts
--   against the limit of its queue, or against the quota of its tenant if the array contains it.
--   NULL means no limit.
--   MATERIALIZED unless it is constant: otherwise it is computed again for each run.
--
-- A head has all parameters, and ends with a comma. It may name `claimed` after WITH RECURSIVE.
claimed AS (
    UPDATE job_dispatch d
    SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = coalesce(input.at, clock_timestamp()), worker_id = input.worker_id,
        claim_token = nextval('claim_token_seq'), attempt = d.attempt + 1
    FROM picked, input
    -- Found by its locked ctid, for any row count that the planner expects. A row that changed while it
    -- was being locked is left for the next claim.
    WHERE d.ctid = ANY (ARRAY(SELECT p.at FROM picked p)) AND d.ctid = picked.at AND d.id = picked.id AND d.status = 'PENDING'
    RETURNING d.id, d.tenant_id, d.job_id, d.claim_token, d.attempt, d.retry_count, d.lost_count, d.scheduled_for, d.created_at,
              d.available_at, d.claimed_at, d.priority, d.queue, d.triggered_by, d.is_catch_up, d.job_version, d.args,
              d.traceparent, d.triggered_by_user
),
-- Job and function are read once: the result contains them, and worker_claims stores the time
-- limit.
described AS (
    SELECT c.*, j.project_id, j.scope = 'backup_infrastructure' AS is_apart, j.name AS job_name, f.handler_type, f.handler_config,
           coalesce(j.timeout_seconds, f.default_timeout_seconds) AS timeout_seconds,
           coalesce(j.retry_policy, f.retry_policy) AS retry_policy,
           -- Two lookups by key, only for handlers that need them: a native function requests them in
           -- its configuration.
           CASE WHEN f.handler_type <> 'native' OR f.handler_config -> 'context' = 'true' THEN jsonb_build_object(
               'tenant', (SELECT t.slug FROM tenants t WHERE t.id = c.tenant_id),
               'project', (SELECT p.name FROM projects p WHERE p.tenant_id = j.tenant_id AND p.id = j.project_id),
               'queue', c.queue, 'user', c.triggered_by_user, 'schedule_config', j.schedule_config) END AS details,
           -- Changed arguments of a job always have a new version.
           coalesce(c.args, CASE WHEN j.version = c.job_version THEN j.task_args END,
                    (SELECT v.settings -> 'task_args' FROM scheduled_job_versions v
                     WHERE v.tenant_id = c.tenant_id AND v.job_id = c.job_id AND v.version = c.job_version)) AS run_args
    FROM claimed c
    JOIN scheduled_jobs j ON j.tenant_id = c.tenant_id AND j.id = c.job_id
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
),
started AS (
    -- The claim begins the attempt: the worker starts the work at once, or releases it within a
    -- second.
    INSERT INTO run_start_batches (tenant_id, project_id, job_id, worker_id, size, dispatch_ids, job_ids, job_names, attempts, scheduled_for)
    SELECT d.tenant_id, d.project_id, CASE WHEN (array_agg(d.job_id))[1] = ALL (array_agg(d.job_id)) THEN (array_agg(d.job_id))[1] END,
           input.worker_id, count(*), array_agg(d.id), array_agg(d.job_id), array_agg(d.job_name), array_agg(d.attempt), array_agg(d.scheduled_for)
    FROM described d, input
    GROUP BY d.tenant_id, d.project_id, input.worker_id
),
noted AS (
    -- The grace as the worker reads it: 10 where the function has none, at most 300.
    INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds)
    SELECT input.worker_id, array_agg(d.id),
           array_agg(least(d.timeout_seconds, 1000000000) + CASE WHEN jsonb_typeof(d.handler_config -> 'grace_seconds') = 'number'
               THEN greatest(least((d.handler_config ->> 'grace_seconds')::numeric, 300), 0)::integer ELSE 10 END)
    FROM described d, input
    GROUP BY input.worker_id
    RETURNING id
),
-- Without runs the announced lease stays, and a recent renewal is not repeated, because after one
-- notification many workers claim without success. An OFFLINE worker has lost its lease.
renewed AS (
    UPDATE worker_registration r
    SET last_heartbeat = clock_timestamp(), lease_ms = CASE WHEN EXISTS (SELECT 1 FROM claimed) THEN input.lease_ms ELSE r.lease_ms END
    FROM input
    WHERE r.worker_id = input.worker_id AND r.status <> 'OFFLINE' AND input.lease_ms IS NOT NULL
      AND (EXISTS (SELECT 1 FROM claimed)
           OR r.last_heartbeat < clock_timestamp() - input.lease_ms / 4 * interval '1 millisecond')
    RETURNING r.worker_id
)
-- At least one row: the result contains what the head found even if it took nothing.
SELECT noted.id, c.id, c.tenant_id, c.job_id, c.project_id, c.is_apart, c.job_name, c.claim_token, c.attempt, c.retry_count, c.lost_count,
       c.scheduled_for, c.created_at, c.available_at, c.claimed_at, c.triggered_by, c.is_catch_up,
       c.run_args, c.traceparent, c.handler_type, c.handler_config, c.timeout_seconds, c.retry_policy, c.details,
       -- If a tenant has a quota, the end of the attempt makes room in any of its queues.
       CASE WHEN c.tenant_id = ANY (answer.tenants_with_quota) THEN '' WHEN answer.tenants_with_quota IS NOT NULL THEN c.queue END,
       answer.shared_by, answer.last, answer.has_limited, answer.room_in_ms, answer.next_claimable_ms, EXISTS (SELECT 1 FROM renewed)
FROM answer
LEFT JOIN (described c CROSS JOIN noted) ON true
ORDER BY c.priority, c.available_at, c.id

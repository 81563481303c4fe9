-- One run, for an idle worker that received a notification: the run that is alone in all queues of
-- the worker, so no other tenant has an earlier turn. Much of the cost of claim is the start of
-- such a large statement. This statement takes no run that claim would skip, and
-- none with a limit. The next claim finds the runs that it leaves. `claimable_at < 'infinity'` is
-- the predicate of job_dispatch_waiting_idx. `status = 'PENDING'` is tested again on the locked
-- row.
WITH input AS (SELECT $1::uuid AS worker_id, $2::text[] AS queues),
line AS MATERIALIZED (
    SELECT w.*
    FROM input
    CROSS JOIN unnest(input.queues) AS s (queue)
    -- From the end of the index, which holds live entries; its head is full of dead entries of
    -- just-claimed runs.
    CROSS JOIN LATERAL (SELECT d.ctid AS at, d.id, d.tenant_id, d.job_id, d.queue
                        FROM job_dispatch d
                        WHERE d.queue = s.queue AND d.claimable_at < 'infinity'
                        ORDER BY d.tenant_id DESC, d.priority DESC, d.claimable_at DESC, d.id DESC
                        LIMIT 2) AS w
    LIMIT 2
),
picked AS MATERIALIZED (
    SELECT l.at, l.id, j.project_id, j.name AS job_name, f.handler_type, f.handler_config,
           coalesce(j.timeout_seconds, f.default_timeout_seconds) AS timeout_seconds,
           coalesce(j.retry_policy, f.retry_policy) AS retry_policy
    FROM input
    CROSS JOIN line l
    JOIN job_dispatch w ON w.ctid = l.at AND w.id = l.id
    JOIN tenants t ON t.id = l.tenant_id
    JOIN scheduled_jobs j ON j.tenant_id = l.tenant_id AND j.id = l.job_id
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    LEFT JOIN queues q ON q.tenant_id = l.tenant_id AND q.name = l.queue
    LEFT JOIN projects o ON o.tenant_id = j.tenant_id AND o.id = j.project_id
    JOIN worker_registration r ON r.worker_id = input.worker_id AND r.status <> 'OFFLINE' AND r.drain_requested_at IS NULL
    WHERE (SELECT count(*) FROM line) = 1 AND w.claimable_at <= now()
      AND (w.expires_at IS NULL OR w.attempt > w.unstarted_count OR w.expires_at > now())
      AND (t.is_paused OR o.is_paused OR f.is_paused OR q.is_paused) IS NOT TRUE
      AND (t.quotas ? 'running_dispatches' OR q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL) IS NOT TRUE
    FOR UPDATE OF w SKIP LOCKED
),
claimed AS (
    UPDATE job_dispatch d
    SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = clock_timestamp(), worker_id = input.worker_id,
        claim_token = nextval('claim_token_seq'), attempt = d.attempt + 1
    FROM picked, input
    WHERE d.ctid = ANY (ARRAY(SELECT p.at FROM picked p)) AND d.ctid = picked.at AND d.id = picked.id AND d.status = 'PENDING'
    RETURNING d.id, d.tenant_id, d.job_id, d.claim_token, d.attempt, d.retry_count, d.lost_count, d.scheduled_for, d.created_at,
              d.available_at, d.claimed_at, d.triggered_by, d.is_catch_up, d.args, d.traceparent
),
started AS (
    INSERT INTO events (tenant_id, project_id, job_id, dispatch_id, event_type, payload)
    SELECT c.tenant_id, picked.project_id, c.job_id, c.id, 'schedule_execution_started',
           jsonb_build_object('job_name', picked.job_name, 'attempt', c.attempt, 'worker_id', input.worker_id, 'scheduled_for', c.scheduled_for)
    FROM claimed c, picked, input
),
noted AS (
    INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds)
    SELECT input.worker_id, ARRAY[c.id],
           ARRAY[least(picked.timeout_seconds, 1000000000) + CASE WHEN jsonb_typeof(picked.handler_config -> 'grace_seconds') = 'number'
               THEN greatest(least((picked.handler_config ->> 'grace_seconds')::numeric, 300), 0)::integer ELSE 10 END]
    FROM claimed c, picked, input
    RETURNING id
)
SELECT noted.id, c.id, c.tenant_id, c.job_id, picked.job_name, c.claim_token, c.attempt, c.retry_count, c.lost_count,
       c.scheduled_for, c.created_at, c.available_at, c.claimed_at, c.triggered_by, c.is_catch_up,
       c.args, c.traceparent, picked.handler_type, picked.handler_config, picked.timeout_seconds, picked.retry_policy, NULL::text,
       1::bigint, c.tenant_id, false, NULL::bigint
FROM claimed c, picked, noted

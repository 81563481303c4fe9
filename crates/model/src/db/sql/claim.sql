-- `claimable_at <= now()` implies the predicate of job_dispatch_waiting_idx; each queue is read in its order and only as
-- far as needed. `status = 'PENDING'` is tested again on the locked row.
WITH input AS (SELECT $1::uuid AS worker_id, $2::bigint AS free),
picked AS (
    SELECT d.at, d.id
    FROM input
    CROSS JOIN unnest($3::text[]) AS served (queue)
    CROSS JOIN LATERAL (
        SELECT w.ctid AS at, w.id, w.priority, w.claimable_at
        FROM job_dispatch w
        WHERE w.queue = served.queue AND w.claimable_at <= now()
          -- Only a first attempt can come too late.
          AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > now())
          AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.tenant_id = w.tenant_id AND q.name = w.queue AND q.is_paused)
          AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = w.tenant_id AND t.is_paused)
          -- Asked for each dispatch only while some project is paused.
          AND (NOT EXISTS (SELECT 1 FROM projects WHERE is_paused)
               OR NOT EXISTS (SELECT 1 FROM scheduled_jobs j JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
                              WHERE j.tenant_id = w.tenant_id AND j.id = w.job_id AND p.is_paused))
        ORDER BY w.priority, w.claimable_at, w.id
        LIMIT input.free
        FOR UPDATE SKIP LOCKED
    ) AS d
    WHERE EXISTS (SELECT 1 FROM worker_registration r WHERE r.worker_id = input.worker_id AND r.status <> 'OFFLINE')
    ORDER BY d.priority, d.claimable_at, d.id
    LIMIT (SELECT free FROM input)
),
claimed AS (
    UPDATE job_dispatch d
    SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = clock_timestamp(), worker_id = input.worker_id,
        claim_token = nextval('claim_token_seq'), attempt = d.attempt + 1
    FROM picked, input
    -- Found where it was locked. One that was changed while it was being locked is left for the next claim.
    WHERE d.ctid = picked.at AND d.id = picked.id AND d.status = 'PENDING'
    RETURNING d.id, d.tenant_id, d.job_id, d.claim_token, d.attempt, d.retry_count, d.lost_count, d.scheduled_for, d.created_at,
              d.available_at, d.claimed_at, d.priority, d.triggered_by, d.is_catch_up, d.args, d.traceparent
),
-- What each is run with, read once: the answer says it, and the note how long it may run.
described AS (
    SELECT c.*, j.name AS job_name, f.handler_type, f.handler_config,
           coalesce(j.timeout_seconds, f.default_timeout_seconds) AS timeout_seconds,
           coalesce(j.retry_policy, f.retry_policy) AS retry_policy
    FROM claimed c
    JOIN scheduled_jobs j ON j.tenant_id = c.tenant_id AND j.id = c.job_id
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
),
noted AS (
    -- The grace as the worker reads it: 10 where the function does not say, at most 300.
    INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds)
    SELECT input.worker_id, array_agg(d.id),
           array_agg(least(d.timeout_seconds, 1000000000) + CASE WHEN jsonb_typeof(d.handler_config -> 'grace_seconds') = 'number'
               THEN greatest(least((d.handler_config ->> 'grace_seconds')::numeric, 300), 0)::integer ELSE 10 END)
    FROM described d, input
    GROUP BY input.worker_id
    RETURNING id
)
SELECT noted.id, c.id, c.tenant_id, c.job_id, c.job_name, c.claim_token, c.attempt, c.retry_count, c.lost_count,
       c.scheduled_for, c.created_at, c.available_at, c.claimed_at, c.triggered_by, c.is_catch_up,
       c.args, c.traceparent, c.handler_type, c.handler_config, c.timeout_seconds, c.retry_policy
FROM described c
CROSS JOIN noted
ORDER BY c.priority, c.available_at, c.id

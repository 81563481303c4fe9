-- Head of a claim; claim_end.sql follows it in the same statement and explains the two parts.
--
-- One run, for an idle worker that received a notification: the run that is alone in all queues of
-- the worker, so no other tenant has an earlier turn. Much of the cost of claim is the start of
-- such a large statement. This statement takes no run that claim would skip: while anything is
-- paused or limited anywhere, it takes none. The next claim finds the runs that it leaves.
-- `claimable_at < 'infinity'` is the predicate of job_dispatch_waiting_idx. `status = 'PENDING'` is
-- tested again on the locked row.
WITH input AS (SELECT $1::uuid AS worker_id, $2::text[] AS queues, $3::integer AS lease_ms, NULL::timestamptz AS at),
line AS MATERIALIZED (
    SELECT w.*
    FROM input
    CROSS JOIN unnest(input.queues) AS s (queue)
    -- From the end of the index, which holds live entries; its head is full of dead entries of
    -- just-claimed runs.
    CROSS JOIN LATERAL (SELECT d.ctid AS at, d.id
                        FROM job_dispatch d
                        WHERE d.queue = s.queue AND d.claimable_at < 'infinity'
                        ORDER BY d.tenant_id DESC, d.priority DESC, d.claimable_at DESC, d.id DESC
                        LIMIT 2) AS w
    LIMIT 2
),
picked AS MATERIALIZED (
    SELECT l.at, l.id
    FROM input
    CROSS JOIN line l
    JOIN job_dispatch w ON w.ctid = l.at AND w.id = l.id
    JOIN worker_registration r ON r.worker_id = input.worker_id AND r.status <> 'OFFLINE' AND r.drain_requested_at IS NULL
    JOIN claim_restrictions a ON NOT a.is_restricted
    WHERE (SELECT count(*) FROM line) = 1 AND w.claimable_at <= now()
      AND (w.expires_at IS NULL OR w.attempt > w.unstarted_count OR w.expires_at > now())
    FOR UPDATE OF w SKIP LOCKED
),
answer AS (
    SELECT 1::bigint AS shared_by, NULL::uuid AS last, false AS has_limited, NULL::bigint AS room_in_ms, NULL::uuid[] AS tenants_with_quota,
           NULL::bigint AS next_claimable_ms
),

-- Head of a claim; claim_end.sql follows it in the same statement and explains the two parts.
--
-- Fair between tenants, by skip scan: `turn` reads from the index of waiting runs which tenants
-- have work, one descent for each. It starts below the last tenant of the previous claim and wraps
-- around. A share of the free slots comes from each tenant, in its order. The scan goes downwards:
-- the end of a tenant's part of the index holds live entries, and its head is full of dead entries
-- of just-claimed runs. The priorities are scanned in the same way: behind the due runs of each
-- priority are runs that are not due, which may be many and are not read. `claimable_at <
-- 'infinity'` is the predicate of job_dispatch_waiting_idx. `status = 'PENDING'` is tested again on
-- the locked row.
WITH RECURSIVE input AS (
    SELECT $1::uuid AS worker_id, $2::bigint AS free, $3::text[] AS queues, $4::uuid AS below, $5::integer AS lease_ms, NULL::timestamptz AS at
),
-- The few queues that this statement skips. claim_limited claims from the limited ones.
apart AS MATERIALIZED (
    SELECT q.tenant_id, q.name AS queue, NOT q.is_paused AS is_limited
    FROM queues q
    WHERE q.name = ANY ((SELECT queues FROM input)::text[]) AND (q.is_paused OR q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL)
),
pauses AS MATERIALIZED (
    SELECT ARRAY(SELECT o.tenant_id FROM projects o WHERE o.is_paused UNION SELECT f.tenant_id FROM task_functions f WHERE f.is_paused) AS tenants
),
-- A quota of running runs limits all queues of its tenant: claim_limited serves those too. Whether
-- a tenant with work has a quota is checked at its turn, so the number of quotas costs nothing.
turn (tenant_id, lap, steps, places, queues, priorities, is_limited) AS (
    SELECT input.below, 0, 0, least(input.free, 100), NULL::text[], NULL::smallint[], false FROM input
    UNION ALL
    SELECT n.tenant_id, n.lap, t.steps + 1, t.places - (n.queues IS NOT NULL)::integer, n.queues, n.priorities, n.is_limited
    FROM turn t
    CROSS JOIN input
    CROSS JOIN LATERAL (
        SELECT f.tenant_id, CASE WHEN f.tenant_id < t.tenant_id THEN t.lap ELSE 1 END AS lap,
               CASE WHEN NOT due.has_quota THEN due.queues END AS queues, CASE WHEN NOT due.has_quota THEN due.priorities END AS priorities,
               due.has_quota AND due.queues IS NOT NULL AS is_limited
        FROM (SELECT coalesce(
            (SELECT w.tenant_id
             FROM unnest(input.queues) AS s (queue)
             CROSS JOIN LATERAL (SELECT d.tenant_id FROM job_dispatch d
                                 WHERE d.queue = s.queue AND d.tenant_id < t.tenant_id AND d.claimable_at < 'infinity'
                                 ORDER BY d.tenant_id DESC LIMIT 1) AS w
             ORDER BY w.tenant_id DESC LIMIT 1),
            CASE WHEN t.lap = 0 THEN
                (SELECT w.tenant_id
                 FROM unnest(input.queues) AS s (queue)
                 CROSS JOIN LATERAL (SELECT d.tenant_id FROM job_dispatch d
                                     WHERE d.queue = s.queue AND d.tenant_id >= input.below AND d.claimable_at < 'infinity'
                                     ORDER BY d.tenant_id DESC LIMIT 1) AS w
                 ORDER BY w.tenant_id DESC LIMIT 1) END) AS tenant_id
            -- OFFSET 0 keeps the planner from evaluating this for every use above.
            OFFSET 0) AS f
        -- The queues with due runs, and the priorities of these runs.
        CROSS JOIN LATERAL (
            SELECT array_agg(s.queue ORDER BY p.priority) AS queues, array_agg(p.priority ORDER BY p.priority) AS priorities,
                   EXISTS (SELECT 1 FROM tenants x WHERE x.id = f.tenant_id AND x.quotas ? 'running_dispatches') AS has_quota
            FROM unnest(input.queues) AS s (queue)
            CROSS JOIN LATERAL (
                WITH RECURSIVE found (priority) AS (
                    SELECT 32767::smallint
                    UNION ALL
                    SELECT d.priority
                    FROM found
                    CROSS JOIN LATERAL (SELECT w.priority FROM job_dispatch w
                                        WHERE w.queue = s.queue AND w.tenant_id = f.tenant_id AND w.priority < found.priority
                                          AND w.claimable_at < 'infinity'
                                        ORDER BY w.priority DESC LIMIT 1) AS d
                )
                SELECT found.priority
                FROM found
                CROSS JOIN LATERAL (SELECT 1 FROM job_dispatch w
                                    WHERE w.queue = s.queue AND w.tenant_id = f.tenant_id AND w.priority = found.priority
                                      AND w.claimable_at <= now() AND w.claimable_at < 'infinity'
                                    ORDER BY w.claimable_at DESC LIMIT 1) AS w
            ) AS p
            WHERE NOT EXISTS (SELECT 1 FROM tenants x WHERE x.id = f.tenant_id AND x.is_paused)
              AND (f.tenant_id, s.queue) NOT IN (SELECT a.tenant_id, a.queue FROM apart a)
        ) AS due
        OFFSET 0
    ) AS n
    -- A thousand tenants without due runs, or with only paused queues, delay the rest by at most
    -- one claim.
    WHERE t.places > 0 AND t.steps < 1000 AND n.tenant_id IS NOT NULL AND (n.lap = 0 OR n.tenant_id >= input.below)
),
share AS MATERIALIZED (
    SELECT greatest(count(t.queues), 1) AS tenants, count(t.queues) AS open,
           (array_agg(t.tenant_id ORDER BY t.steps DESC))[1] AS last,
           -- If all slots are taken, not every tenant had its turn.
           coalesce(bool_or(t.is_limited), false)
           OR (min(t.places) <= 0 AND EXISTS (SELECT 1 FROM tenants x WHERE x.quotas ? 'running_dispatches'))
           OR EXISTS (SELECT 1
                   FROM apart a
                   CROSS JOIN LATERAL (
                       WITH RECURSIVE found (priority) AS (
                           SELECT 32767::smallint
                           UNION ALL
                           SELECT d.priority
                           FROM found
                           CROSS JOIN LATERAL (SELECT w.priority FROM job_dispatch w
                                               WHERE w.queue = a.queue AND w.tenant_id = a.tenant_id AND w.priority < found.priority
                                                 AND w.claimable_at < 'infinity'
                                               ORDER BY w.priority DESC LIMIT 1) AS d
                       )
                       SELECT 1
                       FROM found
                       CROSS JOIN LATERAL (SELECT 1 FROM job_dispatch w
                                           WHERE w.queue = a.queue AND w.tenant_id = a.tenant_id AND w.priority = found.priority
                                             AND w.claimable_at <= now() AND w.claimable_at < 'infinity'
                                           ORDER BY w.claimable_at DESC LIMIT 1) AS w
                       LIMIT 1
                   ) AS w
                   WHERE a.is_limited) AS has_limited
    FROM turn t
),
picked AS MATERIALIZED (
    SELECT r.at, r.id
    FROM (
        SELECT d.*, row_number() OVER (PARTITION BY t.tenant_id ORDER BY d.priority, d.claimable_at, d.id) AS nth
        FROM input
        CROSS JOIN share
        CROSS JOIN turn t
        CROSS JOIN LATERAL (SELECT l.queue, array_agg(l.priority ORDER BY l.priority) AS priorities
                            FROM unnest(t.queues, t.priorities) AS l (queue, priority) GROUP BY l.queue) AS s
        CROSS JOIN LATERAL (
            -- One priority after another, and none that is not needed.
            SELECT w.*
            FROM unnest(s.priorities) AS p (priority)
            CROSS JOIN LATERAL (
                SELECT w.ctid AS at, w.id, w.priority, w.claimable_at
                FROM job_dispatch w
                WHERE w.queue = s.queue AND w.tenant_id = t.tenant_id AND w.priority = p.priority
                  AND w.claimable_at <= now() AND w.claimable_at < 'infinity'
                  -- Only a run that has not started can expire.
                  AND (w.expires_at IS NULL OR w.attempt > w.unstarted_count OR w.expires_at > now())
                  -- Checked for each run only of tenants with a paused project or function.
                  AND (w.tenant_id <> ALL ((SELECT tenants FROM pauses)::uuid[])
                       OR NOT EXISTS (SELECT 1
                                      FROM scheduled_jobs j
                                      JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
                                      LEFT JOIN projects o ON o.tenant_id = j.tenant_id AND o.id = j.project_id
                                      WHERE j.tenant_id = w.tenant_id AND j.id = w.job_id AND (f.is_paused OR o.is_paused)))
                ORDER BY w.claimable_at, w.id
                LIMIT (input.free + share.tenants - 1) / share.tenants
                FOR UPDATE SKIP LOCKED
            ) AS w
            LIMIT (input.free + share.tenants - 1) / share.tenants
        ) AS d
        WHERE EXISTS (SELECT 1 FROM worker_registration r WHERE r.worker_id = input.worker_id AND r.status <> 'OFFLINE'
                        AND r.drain_requested_at IS NULL)
    ) AS r, input, share
    WHERE r.nth <= (input.free + share.tenants - 1) / share.tenants
    -- The equal share of every tenant comes first; the rest goes by priority.
    ORDER BY r.nth > input.free / share.tenants, r.priority, r.claimable_at, r.id
    LIMIT (SELECT free FROM input)
),
answer AS MATERIALIZED (
    SELECT share.open AS shared_by, share.last, share.has_limited, NULL::bigint AS room_in_ms, NULL::uuid[] AS tenants_with_quota,
           -- A hint for a worker with free slots. Bounded: reads one index entry for each queue, tenant and
           -- priority, and at most 200 of these, for any number of waiting runs. A missed earlier run costs
           -- the difference up to the poll interval and nothing else.
           CASE WHEN (SELECT count(*) FROM picked) < input.free THEN (
               WITH RECURSIVE lane (queue, tenant_id, priority) AS (
                   SELECT s.queue, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid, 32767::smallint FROM unnest(input.queues) AS s (queue)
                   UNION ALL
                   SELECT l.queue, n.tenant_id, n.priority
                   FROM lane l
                   CROSS JOIN LATERAL (SELECT d.tenant_id, d.priority FROM job_dispatch d
                                       WHERE d.queue = l.queue AND (d.tenant_id, d.priority) < (l.tenant_id, l.priority)
                                         AND d.claimable_at < 'infinity'
                                       ORDER BY d.tenant_id DESC, d.priority DESC LIMIT 1) AS n
               )
               SELECT (extract(epoch FROM min(waiting.claimable_at) - now()) * 1000)::bigint
               FROM (SELECT * FROM lane LIMIT 200) AS l
               CROSS JOIN LATERAL (SELECT d.claimable_at FROM job_dispatch d
                                   WHERE d.queue = l.queue AND d.tenant_id = l.tenant_id AND d.priority = l.priority
                                     AND d.claimable_at > now() AND d.claimable_at < 'infinity'
                                   ORDER BY d.claimable_at LIMIT 1) AS waiting
           ) END AS next_claimable_ms
    FROM share, input
),

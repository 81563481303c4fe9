-- Head of a claim; claim_end.sql follows it in the same statement and explains the two parts.
--
-- As claim, for queues with limits. The caller has locked their rows in queue_usage, and the
-- tenants with a quota, in earlier statements: so the snapshot of this statement contains every
-- earlier claim from them. The running runs are counted, never kept in a counter that could drift.
-- The rate is kept by tenths of its period, each at the time of its last claim, so no stretch of
-- time as long as the period has more claims than the rate allows.
-- RECURSIVE only so that `used` may name `claimed`, which follows it.
WITH RECURSIVE input AS MATERIALIZED (
    SELECT $1::uuid AS worker_id, $2::bigint AS free, $3::uuid[] AS tenants, $4::text[] AS queues, $5::integer AS lease_ms, clock_timestamp() AS at
),
asked AS MATERIALIZED (
    SELECT q.*, (t.quotas ->> 'running_dispatches')::bigint AS quota
    FROM input
    CROSS JOIN unnest(input.tenants, input.queues) AS l (tenant_id, queue)
    JOIN queues q ON q.tenant_id = l.tenant_id AND q.name = l.queue
    JOIN tenants t ON t.id = q.tenant_id
    WHERE NOT q.is_paused
),
-- Counted once for all of them, because other claims wait for it. Two claims of the same worker
-- may name a run that this worker claimed again.
running AS MATERIALIZED (
    SELECT d.tenant_id, d.queue, count(DISTINCT d.id) AS count
    FROM worker_claims c
    CROSS JOIN LATERAL unnest(c.dispatch_ids) AS i (id)
    -- With OFFSET 0 the planner reads each run by its key. A join may read all runs.
    CROSS JOIN LATERAL (SELECT r.id, r.tenant_id, r.queue FROM job_dispatch r
                        WHERE r.id = i.id AND r.worker_id = c.worker_id AND r.status = 'IN_PROGRESS' OFFSET 0) AS d
    WHERE EXISTS (SELECT 1 FROM asked q WHERE q.max_running IS NOT NULL OR q.quota IS NOT NULL)
      AND ((d.tenant_id, d.queue) IN (SELECT q.tenant_id, q.name FROM asked q WHERE q.max_running IS NOT NULL)
           OR d.tenant_id IN (SELECT q.tenant_id FROM asked q WHERE q.quota IS NOT NULL))
    GROUP BY d.tenant_id, d.queue
),
-- The rest of the quotas of tenants.
tenant_room AS MATERIALIZED (
    SELECT a.tenant_id, a.quota - coalesce((SELECT sum(r.count) FROM running r WHERE r.tenant_id = a.tenant_id), 0) AS room
    FROM (SELECT DISTINCT q.tenant_id, q.quota FROM asked q WHERE q.quota IS NOT NULL) AS a
),
pauses AS MATERIALIZED (
    SELECT ARRAY(SELECT o.tenant_id FROM projects o WHERE o.is_paused UNION SELECT f.tenant_id FROM task_functions f WHERE f.is_paused) AS tenants
),
lane AS MATERIALIZED (
    SELECT q.tenant_id, q.name AS queue, q.rate_limit_period_seconds AS period,
           -- NULL means no limit.
           least(input.free, q.max_running - running.count, q.rate_limit_count - used.count, o.room) AS room,
           o.room AS tenant_room,
           CASE WHEN used.count >= q.rate_limit_count AND (running.count >= q.max_running OR o.room <= 0) IS NOT TRUE
                THEN used.first + q.rate_limit_period_seconds * interval '1 second' - input.at END AS wait
    FROM input
    CROSS JOIN asked q
    JOIN queue_usage u ON u.tenant_id = q.tenant_id AND u.queue = q.name
    LEFT JOIN running r ON r.tenant_id = q.tenant_id AND r.queue = q.name
    LEFT JOIN tenant_room o ON o.tenant_id = q.tenant_id
    CROSS JOIN LATERAL (SELECT CASE WHEN q.max_running IS NOT NULL THEN coalesce(r.count, 0) END AS count) AS running
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(e.claimed), 0) AS count, min(e.claimed_at) AS first
        FROM unnest(u.claimed_at, u.claimed) AS e (claimed_at, claimed)
        WHERE e.claimed_at > input.at - q.rate_limit_period_seconds * interval '1 second'
    ) AS used
),
share AS MATERIALIZED (
    SELECT greatest(count(*) FILTER (WHERE l.room > 0), 1) AS lanes, count(*) FILTER (WHERE l.room > 0) AS open, min(l.wait) AS wait
    FROM lane l
),
picked AS MATERIALIZED (
    SELECT r.at, r.id
    FROM (
        SELECT q.*, row_number() OVER (PARTITION BY q.tenant_id ORDER BY q.priority, q.claimable_at, q.id) AS nth_of_tenant
        FROM (
            SELECT d.*, l.tenant_id, l.tenant_room,
                   row_number() OVER (PARTITION BY l.tenant_id, l.queue ORDER BY d.priority, d.claimable_at, d.id) AS nth
            FROM input
            CROSS JOIN share
            CROSS JOIN lane l
            CROSS JOIN LATERAL (
                WITH RECURSIVE found (priority) AS (
                    SELECT 32767::smallint
                    UNION ALL
                    SELECT d.priority
                    FROM found
                    CROSS JOIN LATERAL (SELECT w.priority FROM job_dispatch w
                                        WHERE w.queue = l.queue AND w.tenant_id = l.tenant_id AND w.priority < found.priority
                                          AND w.claimable_at < 'infinity'
                                        ORDER BY w.priority DESC LIMIT 1) AS d
                )
                SELECT array_agg(found.priority ORDER BY found.priority) AS priorities FROM found
            ) AS s
            CROSS JOIN LATERAL (
                SELECT w.*
                FROM unnest(s.priorities) AS p (priority)
                CROSS JOIN LATERAL (
                    SELECT w.ctid AS at, w.id, w.priority, w.claimable_at
                    FROM job_dispatch w
                    WHERE w.queue = l.queue AND w.tenant_id = l.tenant_id AND w.priority = p.priority
                      AND w.claimable_at <= now() AND w.claimable_at < 'infinity'
                      AND (w.expires_at IS NULL OR w.attempt > w.unstarted_count OR w.expires_at > now())
                      AND (w.tenant_id <> ALL ((SELECT tenants FROM pauses)::uuid[])
                           OR NOT EXISTS (SELECT 1
                                          FROM scheduled_jobs j
                                          JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
                                          LEFT JOIN projects o ON o.tenant_id = j.tenant_id AND o.id = j.project_id
                                          WHERE j.tenant_id = w.tenant_id AND j.id = w.job_id AND (f.is_paused OR o.is_paused)))
                    ORDER BY w.claimable_at, w.id
                    LIMIT least(l.room, (input.free + share.lanes - 1) / share.lanes)
                    FOR UPDATE SKIP LOCKED
                ) AS w
                LIMIT least(l.room, (input.free + share.lanes - 1) / share.lanes)
            ) AS d
            WHERE l.room > 0
              AND EXISTS (SELECT 1 FROM worker_registration r WHERE r.worker_id = input.worker_id AND r.status <> 'OFFLINE'
                        AND r.drain_requested_at IS NULL)
        ) AS q
    ) AS r, input, share
    WHERE (r.nth_of_tenant <= r.tenant_room) IS NOT FALSE
    ORDER BY r.nth > input.free / share.lanes, r.priority, r.claimable_at, r.id
    LIMIT (SELECT free FROM input)
),
answer AS MATERIALIZED (
    SELECT share.open AS shared_by, NULL::uuid AS last, true AS has_limited,
           CASE WHEN share.wait IS NOT NULL THEN greatest(ceil(extract(epoch FROM share.wait) * 1000), 0)::bigint END AS room_in_ms,
           ARRAY(SELECT o.tenant_id FROM tenant_room o) AS tenants_with_quota, NULL::bigint AS next_claimable_ms
    FROM share
),
-- Counts the runs that the end of the statement takes into the rates.
used AS (
    UPDATE queue_usage u
    SET claimed_at = kept.claimed_at, claimed = kept.claimed
    FROM input
    CROSS JOIN (SELECT l.tenant_id, l.queue, l.period, count(*) AS count
                FROM claimed c JOIN lane l ON l.tenant_id = c.tenant_id AND l.queue = c.queue
                WHERE l.period IS NOT NULL
                GROUP BY l.tenant_id, l.queue, l.period) AS n
    JOIN queue_usage o ON o.tenant_id = n.tenant_id AND o.queue = n.queue
    CROSS JOIN LATERAL (
        SELECT array_agg(t.claimed_at ORDER BY t.claimed_at) AS claimed_at, array_agg(t.claimed ORDER BY t.claimed_at) AS claimed
        FROM (SELECT max(e.claimed_at) AS claimed_at, sum(e.claimed)::integer AS claimed
              FROM (SELECT * FROM unnest(o.claimed_at, o.claimed) UNION ALL SELECT input.at, n.count) AS e (claimed_at, claimed)
              WHERE e.claimed_at > input.at - n.period * interval '1 second'
              GROUP BY floor(extract(epoch FROM e.claimed_at) * 10 / n.period)) AS t
    ) AS kept
    WHERE u.tenant_id = n.tenant_id AND u.queue = n.queue
),

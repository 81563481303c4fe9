-- Running runs are counted from the claims, once for all queues. Waiting runs are counted up to a
-- bound, so that a queue with millions costs no more than one with thousands;
-- queued runs are counted by their jobs. A skip scan over priorities finds the oldest run, as in
-- claims.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::text AS after, $3::text AS only, $4::text AS prefix, $5::boolean AS paused),
page AS MATERIALIZED (
    SELECT q.*
    FROM input
    JOIN queues q ON q.tenant_id = input.tenant_id AND q.name > input.after AND (input.only IS NULL OR q.name = input.only)
    WHERE (input.prefix IS NULL OR starts_with(q.name, input.prefix)) AND (input.paused IS NULL OR q.is_paused = input.paused)
    ORDER BY q.name
    LIMIT $6
),
running AS MATERIALIZED (
    SELECT d.tenant_id, d.queue, count(DISTINCT d.id) AS count
    FROM worker_claims c
    CROSS JOIN LATERAL unnest(c.dispatch_ids) AS i (id)
    JOIN job_dispatch d ON d.id = i.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
    WHERE (d.tenant_id, d.queue) IN (SELECT q.tenant_id, q.name FROM page q)
    GROUP BY d.tenant_id, d.queue
),
in_line AS MATERIALIZED (
    SELECT coalesce(j.queue, f.queue) AS queue, sum(j.queued_dispatches)::bigint AS in_line
    FROM input
    JOIN scheduled_jobs j ON j.tenant_id = input.tenant_id AND j.queued_dispatches > 0
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    GROUP BY 1
)
SELECT q.name, q.description, q.is_paused, q.pause_reason, q.max_running, q.rate_limit_count, q.rate_limit_period_seconds,
       q.default_priority, q.created_at, q.updated_at,
       coalesce(r.count, 0),
       CASE WHEN q.rate_limit_count IS NOT NULL THEN
           (SELECT coalesce(sum(e.claimed), 0)
            FROM queue_usage u
            CROSS JOIN LATERAL unnest(u.claimed_at, u.claimed) AS e (claimed_at, claimed)
            WHERE u.tenant_id = q.tenant_id AND u.queue = q.name
              AND e.claimed_at > clock_timestamp() - q.rate_limit_period_seconds * interval '1 second') END,
       w.waiting + coalesce((SELECT l.in_line FROM in_line l WHERE l.queue = q.name), 0), w.waiting = 10000,
       CASE WHEN w.waiting > 0 THEN
           (WITH RECURSIVE found (priority) AS (
                SELECT 32767::smallint
                UNION ALL
                SELECT d.priority
                FROM found
                CROSS JOIN LATERAL (SELECT d.priority FROM job_dispatch d
                                    WHERE d.queue = q.name AND d.tenant_id = q.tenant_id AND d.priority < found.priority
                                      AND d.claimable_at < 'infinity'
                                    ORDER BY d.priority DESC LIMIT 1) AS d
            )
            SELECT min(d.claimable_at)
            FROM found
            CROSS JOIN LATERAL (SELECT d.claimable_at FROM job_dispatch d
                                WHERE d.queue = q.name AND d.tenant_id = q.tenant_id AND d.priority = found.priority
                                  AND d.claimable_at < 'infinity'
                                ORDER BY d.claimable_at LIMIT 1) AS d) END,
       (SELECT count(*) FROM worker_registration r WHERE q.name = ANY (r.queues) AND r.status IN ('IDLE', 'BUSY'))
FROM page q
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting
    FROM (SELECT 1 FROM job_dispatch d
          WHERE d.queue = q.name AND d.tenant_id = q.tenant_id AND d.claimable_at < 'infinity' LIMIT 10000) AS d
) AS w
LEFT JOIN running r ON r.tenant_id = q.tenant_id AND r.queue = q.name
ORDER BY q.name

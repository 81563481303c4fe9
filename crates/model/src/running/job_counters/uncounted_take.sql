-- Takes uncounted batches, oldest first, and sums their ends by job. Concurrent transactions take
-- different batches. The rows are deleted in the transaction that counts them, so each batch is
-- counted exactly once. An attempt that was released at once has not started. The same ends are added
-- to the minutes of the attempts, in the order of the keys, so that two transactions cannot wait for
-- each other. Processes have few slots, and a transaction waits for another one of its slot.
--
-- Also returns the jobs of the oldest uncounted runs, which the caller takes when it holds the locks
-- on the jobs (job_counters_add.sql).
--
-- With LIMIT 1 the planner reads each batch by its key. A new month has no statistics, and a join
-- may read all of it.
WITH input AS (SELECT $1::bigint AS page),
taken AS MATERIALIZED (
    DELETE FROM uncounted_ends u
    WHERE u.ctid = ANY (ARRAY(SELECT o.ctid FROM uncounted_ends o ORDER BY o.batch_id LIMIT (SELECT page FROM input) FOR UPDATE SKIP LOCKED))
    RETURNING u.tenant_id, u.transaction_id, u.batch_id, u.created_at
),
opened AS MATERIALIZED (
    SELECT tenant_id, job_id FROM uncounted_openings ORDER BY id LIMIT (SELECT page * 10 FROM input)
),
ends AS (
    SELECT t.tenant_id, e.job_id, coalesce(e.dispatch_status, e.outcome, 'COMPLETED') AS status, e.started_at,
           e.outcome IS DISTINCT FROM 'RELEASED' OR e.duration_ms > 0 AS has_started,
           coalesce(e.outcome, 'COMPLETED') AS outcome, e.duration_ms
    FROM taken t
    CROSS JOIN LATERAL (
        SELECT u.*
        FROM (SELECT l.*
              FROM run_end_batches l
              WHERE l.transaction_id = t.transaction_id AND l.id = t.batch_id AND l.created_at = t.created_at
              LIMIT 1) AS b
        CROSS JOIN LATERAL unnest(b.job_ids, b.outcomes, b.dispatch_statuses, b.started_at, b.durations_ms)
            AS u (job_id, outcome, dispatch_status, started_at, duration_ms)
    ) AS e
    UNION ALL
    SELECT o.tenant_id, o.job_id, 'PENDING', NULL, false, NULL, NULL FROM opened o
),
minutes AS (
    INSERT INTO attempt_minutes AS m (tenant_id, minute, status, slot, attempts, duration_ms)
    SELECT e.tenant_id, date_trunc('minute', e.started_at), e.outcome, pg_backend_pid() % 4, count(*), sum(e.duration_ms)::bigint
    FROM ends e
    WHERE e.outcome IS NOT NULL
    GROUP BY e.tenant_id, date_trunc('minute', e.started_at), e.outcome
    ORDER BY e.tenant_id, date_trunc('minute', e.started_at), e.outcome
    ON CONFLICT (tenant_id, minute, status, slot)
    DO UPDATE SET attempts = m.attempts + excluded.attempts, duration_ms = m.duration_ms + excluded.duration_ms
)
SELECT tenant_id, job_id, count(*) FILTER (WHERE status <> 'PENDING')::integer, max(started_at) FILTER (WHERE has_started),
       (array_agg(status ORDER BY started_at DESC) FILTER (WHERE status <> 'PENDING'))[1],
       -- Whether the page was full, so that more may wait.
       (SELECT (SELECT count(*) FROM taken) >= i.page OR (SELECT count(*) FROM opened) >= i.page * 10 FROM input i)
FROM ends
GROUP BY tenant_id, job_id
ORDER BY tenant_id, job_id

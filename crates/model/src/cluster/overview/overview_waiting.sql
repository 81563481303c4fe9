-- Queues with waiting runs, and paused or limited queues without any. Claimable and queued runs
-- have separate indexes: together they are all PENDING runs.
WITH input AS (SELECT $1::uuid AS tenant_id),
waiting AS (
    SELECT d.queue, count(*) AS waiting,
           coalesce(min(d.claimable_at) FILTER (WHERE d.claimable_at < 'infinity'), min(d.available_at)) AS oldest
    FROM input
    JOIN (SELECT tenant_id, queue, claimable_at, available_at FROM job_dispatch WHERE claimable_at < 'infinity'
          UNION ALL
          SELECT tenant_id, queue, claimable_at, available_at FROM job_dispatch WHERE claimable_at = 'infinity') AS d
        ON d.tenant_id = input.tenant_id
    GROUP BY d.queue
)
SELECT w.queue, w.waiting, w.oldest FROM waiting w
UNION ALL
SELECT q.name, 0, NULL
FROM input
JOIN queues q ON q.tenant_id = input.tenant_id
WHERE (q.is_paused OR q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL) AND q.name NOT IN (SELECT w.queue FROM waiting w)
ORDER BY 1

-- Queues with work that has been claimable for the given seconds and that no live worker serves;
-- the stored unserved queues; and one row without a queue if a run has expired. One statement,
-- because an idle leader runs it every few seconds. A skip scan reads the names of the queues,
-- for any number of waiting runs.
WITH RECURSIVE waiting (queue) AS (
    (SELECT d.queue FROM job_dispatch d WHERE d.claimable_at < 'infinity' ORDER BY d.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT d.queue FROM job_dispatch d WHERE d.claimable_at < 'infinity' AND d.queue > w.queue ORDER BY d.queue LIMIT 1)
    FROM waiting w
    WHERE w.queue IS NOT NULL
)
SELECT w.queue, true
FROM waiting w
WHERE NOT EXISTS (SELECT 1 FROM worker_registration r WHERE w.queue = ANY (r.queues) AND r.status IN ('IDLE', 'BUSY'))
  AND EXISTS (SELECT 1 FROM job_dispatch d
              WHERE d.queue = w.queue AND d.claimable_at <= now() - $1 * interval '1 second' AND d.claimable_at < 'infinity'
                AND (d.expires_at IS NULL OR d.attempt > d.unstarted_count OR d.expires_at > now()))
UNION ALL
SELECT queue, false FROM unserved_queues
UNION ALL
SELECT NULL, true
WHERE EXISTS (SELECT 1 FROM job_dispatch
              WHERE expires_at <= now() AND expires_at IS NOT NULL AND claimable_at IS NOT NULL AND attempt = unstarted_count)

-- Every leader runs this every few seconds. The oldest claimable run is the first of some queue,
-- tenant and priority, so a skip scan visits one entry for each of these, for any number of
-- waiting runs.
WITH RECURSIVE first AS (
    (SELECT d.queue, d.tenant_id, d.priority, d.claimable_at
     FROM job_dispatch d
     WHERE d.claimable_at < 'infinity'
     ORDER BY d.queue, d.tenant_id, d.priority, d.claimable_at LIMIT 1)
    UNION ALL
    SELECT n.queue, n.tenant_id, n.priority, n.claimable_at
    FROM first f
    CROSS JOIN LATERAL (
        SELECT d.queue, d.tenant_id, d.priority, d.claimable_at
        FROM job_dispatch d
        WHERE d.claimable_at < 'infinity' AND (d.queue, d.tenant_id, d.priority) > (f.queue, f.tenant_id, f.priority)
        ORDER BY d.queue, d.tenant_id, d.priority, d.claimable_at LIMIT 1
    ) AS n
)
SELECT (SELECT count(*) FROM worker_registration w WHERE w.status = 'IDLE'),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'BUSY'),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'DRAINING'),
       -- greatest() ignores the NULL when no run waits.
       (SELECT greatest(extract(epoch FROM clock_timestamp() - min(f.claimable_at)), 0)::float8 FROM first f)

-- Open runs of a tenant, up to a bound: claimable ones by queue and queued ones by job, as their
-- indexes are ordered, and running ones by the claims of workers. No finished run is read.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::boolean AS with_waiting, $3::boolean AS with_running)
SELECT w.id
FROM input i
JOIN queues q ON q.tenant_id = i.tenant_id
CROSS JOIN LATERAL (SELECT d.id FROM job_dispatch d
                    WHERE d.queue = q.name AND d.tenant_id = q.tenant_id AND d.claimable_at < 'infinity') AS w
WHERE i.with_waiting
UNION ALL
SELECT w.id
FROM input i
JOIN scheduled_jobs s ON s.tenant_id = i.tenant_id AND s.queued_dispatches > 0
CROSS JOIN LATERAL (SELECT d.id FROM job_dispatch d
                    WHERE d.job_id = s.id AND d.tenant_id = s.tenant_id AND d.claimable_at = 'infinity') AS w
WHERE i.with_waiting
UNION ALL
SELECT d.id
FROM input i
CROSS JOIN worker_claims c
CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS' AND d.tenant_id = i.tenant_id
WHERE i.with_running
LIMIT $4

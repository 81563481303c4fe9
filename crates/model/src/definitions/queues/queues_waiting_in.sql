-- Claimable and queued runs; each part reads its own index.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::text AS queue)
SELECT w.id
FROM input
CROSS JOIN LATERAL (
    (SELECT d.id FROM job_dispatch d
     WHERE d.queue = input.queue AND d.tenant_id = input.tenant_id AND d.claimable_at < 'infinity' LIMIT 10)
    UNION ALL
    (SELECT d.id
     FROM scheduled_jobs j
     JOIN job_dispatch d ON d.job_id = j.id AND d.claimable_at = 'infinity'
     WHERE j.tenant_id = input.tenant_id AND j.queued_dispatches > 0 AND d.queue = input.queue
     LIMIT 10)
) AS w
LIMIT $3

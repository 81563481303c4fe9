-- The open runs of a job, newest first. Waiting runs are found by a separate index and running ones
-- by the claims of the workers. So no finished run is read, for any fire times: a retry has the
-- fire time of the run that it repeats.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::bigint AS most),
open AS (
    SELECT d.id, d.scheduled_for, d.cancel_requested_at
    FROM input
    JOIN job_dispatch d ON d.job_id = input.job_id
    WHERE d.claimable_at IS NOT NULL AND d.tenant_id IS NOT DISTINCT FROM input.tenant_id
    UNION
    SELECT d.id, d.scheduled_for, d.cancel_requested_at
    FROM input
    CROSS JOIN worker_claims c
    CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
    JOIN job_dispatch d ON d.id = u.id
    WHERE d.job_id IS NOT DISTINCT FROM input.job_id AND d.tenant_id IS NOT DISTINCT FROM input.tenant_id
      AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
)
SELECT o.id, o.cancel_requested_at IS NOT NULL
FROM open o
ORDER BY o.scheduled_for DESC
LIMIT (SELECT most FROM input)

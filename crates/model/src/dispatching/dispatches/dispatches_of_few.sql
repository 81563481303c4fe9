-- Runs of a few jobs in the order of their ids, found by their jobs. The index of ids has the runs
-- of all tenants, among which those of a small tenant are rare. The caller has checked that the
-- jobs have few runs, since all of them are read. So each job is read in the order of its index, up
-- to a bound, independent of the planner's estimate of the number of rows per job.
WITH input AS (
    SELECT $1::uuid AS tenant_id, $2::uuid AS first_id, $3::uuid AS last_id, $4::text[] AS statuses, $5::text AS queue, $6::uuid AS worker_id,
           $7::text AS triggered_by, $8::boolean AS oldest_first
)
SELECT d.id
FROM input i
CROSS JOIN unnest($9::uuid[]) AS j (id)
CROSS JOIN LATERAL (
    SELECT d.id, d.status, d.queue, d.worker_id, d.triggered_by
    FROM job_dispatch d
    WHERE d.job_id = j.id AND d.tenant_id = i.tenant_id
    ORDER BY d.scheduled_for DESC
    LIMIT 20001
) AS d
WHERE d.id BETWEEN i.first_id AND i.last_id
  AND (i.statuses IS NULL OR d.status = ANY (i.statuses))
  AND (i.queue IS NULL OR d.queue = i.queue)
  AND (i.worker_id IS NULL OR d.worker_id = i.worker_id)
  AND (i.triggered_by IS NULL OR d.triggered_by = i.triggered_by)
ORDER BY CASE WHEN i.oldest_first THEN d.id END, d.id DESC
LIMIT $10

-- Reads the index of history by job from the first possible attempt of the run, and only the
-- partitions since then.
WITH input AS (
    SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::uuid AS dispatch_id, $4::uuid AS from_id, $5::timestamptz AS since
)
SELECT l.id, l.attempt, l.status, l.error_message
FROM job_execution_log l, input i
WHERE l.tenant_id = i.tenant_id AND l.job_id = i.job_id AND l.id >= i.from_id AND l.dispatch_id = i.dispatch_id
  AND l.started_at >= i.since
UNION ALL
SELECT l.id, l.attempt, l.status, l.error_message
FROM maintenance.job_execution_log l, input i
WHERE l.tenant_id = i.tenant_id AND l.job_id = i.job_id AND l.id >= i.from_id AND l.dispatch_id = i.dispatch_id
  AND l.started_at >= i.since
ORDER BY id
LIMIT 100

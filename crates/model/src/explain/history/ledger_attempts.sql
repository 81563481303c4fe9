-- No attempt starts before its fire time: partitions of months before the window are not read. The
-- record of an expired run is left out; the run itself has the reason.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::timestamptz AS from_at, $4::uuid[] AS dispatch_ids),
found AS (
    SELECT l.dispatch_id, l.attempt, l.status, l.started_at, l.completed_at, l.worker_id, l.exit_code, l.error_message
    FROM job_execution_log l, input i
    WHERE l.tenant_id = i.tenant_id AND l.job_id = i.job_id AND l.started_at >= i.from_at AND l.dispatch_id = ANY (i.dispatch_ids)
      AND l.status <> 'EXPIRED'
    UNION ALL
    SELECT l.dispatch_id, l.attempt, l.status, l.started_at, l.completed_at, l.worker_id, l.exit_code, l.error_message
    FROM maintenance.job_execution_log l, input i
    WHERE l.tenant_id = i.tenant_id AND l.job_id = i.job_id AND l.started_at >= i.from_at AND l.dispatch_id = ANY (i.dispatch_ids)
      AND l.status <> 'EXPIRED'
)
SELECT f.dispatch_id, f.attempt, f.status, f.started_at, f.completed_at, coalesce(w.hostname, f.worker_id::text), f.exit_code, f.error_message
FROM found f
LEFT JOIN known_workers w ON w.worker_id = f.worker_id
ORDER BY f.dispatch_id, f.attempt
LIMIT $5

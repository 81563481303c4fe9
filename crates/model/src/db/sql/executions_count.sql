-- As executions_list, counted up to a bound.
WITH input AS (
    SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::uuid AS dispatch_id, $4::text AS status,
           $5::timestamptz AS since_at, $6::timestamptz AS until_at, $7::bigint AS max_rows
)
SELECT count(*) FROM (
    SELECT 1
    FROM job_execution_log l, input i
    WHERE l.tenant_id = i.tenant_id
      AND (i.job_id IS NULL OR l.job_id = i.job_id)
      AND (i.dispatch_id IS NULL OR l.dispatch_id = i.dispatch_id)
      AND (i.status IS NULL OR l.status = i.status)
      AND (i.since_at IS NULL OR l.started_at >= i.since_at)
      AND (i.until_at IS NULL OR l.started_at < i.until_at)
    UNION ALL
    SELECT 1
    FROM maintenance.job_execution_log l, input i
    WHERE l.tenant_id = i.tenant_id
      AND (i.job_id IS NULL OR l.job_id = i.job_id)
      AND (i.dispatch_id IS NULL OR l.dispatch_id = i.dispatch_id)
      AND (i.status IS NULL OR l.status = i.status)
      AND (i.since_at IS NULL OR l.started_at >= i.since_at)
      AND (i.until_at IS NULL OR l.started_at < i.until_at)
    LIMIT (SELECT max_rows FROM input)
) AS counted

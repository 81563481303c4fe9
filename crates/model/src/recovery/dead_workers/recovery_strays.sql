-- Running runs that no claim of their worker names. This software never produces them: a table was
-- changed by hand or partly restored. Reads the whole table, so it runs only on command.
WITH input AS (SELECT $1::float8 AS unknown_limit_seconds, $2::float8 AS margin_seconds, $3::bigint AS max_rows)
SELECT d.id, d.tenant_id, j.project_id, d.job_id, j.name, d.claim_token, d.attempt, d.retry_count, d.lost_count, d.claimed_at,
       clock_timestamp(), d.worker_id, coalesce(j.retry_policy, f.retry_policy), j.scope = 'backup_infrastructure',
       w.worker_id IS NULL OR w.status = 'OFFLINE',
       greatest(coalesce(j.timeout_seconds, f.default_timeout_seconds)::float8, input.unknown_limit_seconds)
FROM input
CROSS JOIN job_dispatch d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
LEFT JOIN worker_registration w ON w.worker_id = d.worker_id
WHERE d.status = 'IN_PROGRESS'
  -- The smallest margin; the caller knows the exact one.
  AND (w.worker_id IS NULL OR w.status = 'OFFLINE'
       OR d.claimed_at < clock_timestamp() - (greatest(coalesce(j.timeout_seconds, f.default_timeout_seconds)::float8, input.unknown_limit_seconds)
                                              + input.margin_seconds) * interval '1 second')
  AND NOT EXISTS (SELECT FROM worker_claims c WHERE c.worker_id = d.worker_id AND d.id = ANY (c.dispatch_ids))
ORDER BY d.id
LIMIT (SELECT max_rows FROM input)

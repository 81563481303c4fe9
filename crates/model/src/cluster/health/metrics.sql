-- Jobs by status (as JobStatus::of), and attempts by outcome with their average duration. Ids are
-- ordered by the time of the claim, so the primary key finds the attempts.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS first_id, clock_timestamp() AS now)
SELECT 'job', j.status, count(*), NULL::float8
FROM (SELECT CASE WHEN s.deleted_at IS NOT NULL THEN 'deleted'
                  WHEN NOT s.is_enabled AND s.disabled_reason IS NOT NULL AND s.last_fire_at IS NOT NULL THEN 'quarantined'
                  WHEN NOT s.is_enabled THEN 'disabled'
                  WHEN s.is_paused AND (s.paused_until > input.now) IS NOT FALSE THEN 'paused'
                  ELSE 'enabled' END AS status
      FROM input JOIN scheduled_jobs s ON s.tenant_id = input.tenant_id) AS j
GROUP BY j.status
UNION ALL
SELECT 'run', r.status, count(*), avg(r.duration_ms)::float8
FROM (SELECT l.status, l.duration_ms FROM input JOIN job_execution_log l ON l.tenant_id = input.tenant_id AND l.id >= input.first_id
      UNION ALL
      SELECT l.status, l.duration_ms
      FROM input JOIN maintenance.job_execution_log l ON l.tenant_id = input.tenant_id AND l.id >= input.first_id) AS r
GROUP BY r.status

-- Jobs by status (as JobStatus::of), and attempts by outcome with their average duration, from the
-- totals by minute.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::timestamptz AS since, clock_timestamp() AS now)
SELECT 'job', j.status, count(*), NULL::float8
FROM (SELECT CASE WHEN s.deleted_at IS NOT NULL THEN 'deleted'
                  WHEN NOT s.is_enabled AND s.disabled_reason IS NOT NULL AND (s.last_fire_at IS NOT NULL OR s.scope = 'project') THEN 'quarantined'
                  WHEN NOT s.is_enabled THEN 'disabled'
                  WHEN s.is_paused AND (s.paused_until > input.now) IS NOT FALSE THEN 'paused'
                  ELSE 'enabled' END AS status
      FROM input JOIN scheduled_jobs s ON s.tenant_id = input.tenant_id) AS j
GROUP BY j.status
UNION ALL
SELECT 'run', m.status, sum(m.attempts)::bigint, (sum(m.duration_ms) / sum(m.attempts))::float8
FROM input
JOIN attempt_minutes m ON m.tenant_id = input.tenant_id AND m.minute >= input.since
GROUP BY m.status

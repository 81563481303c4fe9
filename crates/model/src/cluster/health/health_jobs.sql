-- Jobs of all tenants by status (as JobStatus::of), counted up to a limit.
SELECT count(*) FILTER (WHERE j.is_enabled AND NOT j.is_paused_now),
       count(*) FILTER (WHERE j.is_enabled AND j.is_paused_now),
       count(*) FILTER (WHERE NOT j.is_enabled AND NOT j.is_quarantined),
       count(*) FILTER (WHERE j.is_quarantined)
FROM (SELECT s.is_enabled, s.is_paused AND (s.paused_until > clock_timestamp()) IS NOT FALSE AS is_paused_now,
             NOT s.is_enabled AND s.disabled_reason IS NOT NULL AND (s.last_fire_at IS NOT NULL OR s.scope = 'project') AS is_quarantined
      FROM scheduled_jobs s
      WHERE s.deleted_at IS NULL
      LIMIT $1) AS j

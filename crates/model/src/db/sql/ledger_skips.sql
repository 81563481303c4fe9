-- Ranges are disjoint: of those that begin before the window, only the latest can reach into it.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::timestamptz AS from_at, $4::timestamptz AS to_at)
SELECT s.first_fire_at, s.last_fire_at, s.fire_count, s.is_count_exact, s.reason, s.detail, s.recorded_at, s.term
FROM input i
JOIN skipped_fires s ON s.tenant_id = i.tenant_id AND s.job_id = i.job_id
WHERE s.trigger_id IS NULL AND s.first_fire_at >= coalesce((SELECT max(b.first_fire_at) FROM skipped_fires b
                                   WHERE b.job_id = i.job_id AND b.trigger_id IS NULL AND b.first_fire_at < i.from_at), i.from_at)
  AND s.first_fire_at < i.to_at AND s.last_fire_at >= i.from_at
ORDER BY s.first_fire_at
LIMIT $5

-- Ranges are disjoint: of those that begin before the window, only the latest can reach into it.
-- For misfires: how the term of that time, or the last one before it, ended, and when the next one
-- began. A leader may record a misfire although its lease had expired before.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::timestamptz AS from_at, $4::timestamptz AS to_at)
SELECT s.first_fire_at, s.last_fire_at, s.fire_count, s.is_count_exact, s.reason, s.detail, s.recorded_at, s.term,
       n.started_at, f.ended_at, f.end_reason, f.lease_expired_at
FROM input i
JOIN skipped_fires s ON s.tenant_id = i.tenant_id AND s.job_id = i.job_id
LEFT JOIN LATERAL (
    SELECT t.term, t.ended_at, t.end_reason, t.lease_expired_at
    FROM leader_terms t
    WHERE s.reason = 'misfire' AND t.term <= s.term AND t.started_at <= s.first_fire_at
    ORDER BY t.term DESC
    LIMIT 1
) AS f ON true
LEFT JOIN LATERAL (
    SELECT t.started_at
    FROM leader_terms t
    WHERE s.reason = 'misfire' AND t.term > coalesce(f.term, 0)
      AND (t.term <= s.term OR (f.lease_expired_at <= s.recorded_at) IS TRUE)
    ORDER BY t.term
    LIMIT 1
) AS n ON true
WHERE s.trigger_id IS NULL AND s.first_fire_at >= coalesce((SELECT max(b.first_fire_at) FROM skipped_fires b
                                   WHERE b.job_id = i.job_id AND b.trigger_id IS NULL AND b.first_fire_at < i.from_at), i.from_at)
  AND s.first_fire_at < i.to_at AND s.last_fire_at >= i.from_at
ORDER BY s.first_fire_at
LIMIT $5

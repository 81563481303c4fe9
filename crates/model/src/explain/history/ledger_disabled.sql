SELECT s.last_fire_at
FROM skipped_fires s
WHERE s.tenant_id = $1 AND s.job_id = $2 AND s.trigger_id IS NULL AND s.reason = 'disabled' AND s.term IS NOT NULL AND s.last_fire_at < $3
ORDER BY s.first_fire_at DESC
LIMIT $4

SELECT j.tenant_id, j.id
FROM scheduled_jobs j
WHERE j.queued_dispatches > 0
  AND (j.overlap_policy = 'allow' OR j.active_dispatches - j.queued_dispatches < j.max_instances)
ORDER BY j.tenant_id, j.id
LIMIT $1
FOR NO KEY UPDATE SKIP LOCKED

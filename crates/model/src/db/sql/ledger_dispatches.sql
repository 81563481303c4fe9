SELECT d.id, d.scheduled_for, d.created_at, d.available_at, d.claimed_at, d.completed_at, d.status, d.queue,
       coalesce(d.claimable_at = 'infinity', false), d.is_catch_up, d.triggered_by, d.triggered_by_user, d.term, t.hostname, d.attempt,
       coalesce(w.hostname, d.worker_id::text), d.error_message
FROM job_dispatch d
LEFT JOIN leader_terms t ON t.term = d.term
LEFT JOIN worker_registration w ON w.worker_id = d.worker_id
WHERE d.tenant_id = $1 AND d.job_id = $2 AND d.scheduled_for >= $3 AND d.scheduled_for < $4 AND (d.trigger_id IS NULL) = $5
ORDER BY d.scheduled_for, d.id
LIMIT $6

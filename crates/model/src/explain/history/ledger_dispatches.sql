SELECT d.id, d.scheduled_for, d.created_at, d.available_at, d.claimed_at, d.completed_at, d.status, d.queue,
       coalesce(d.claimable_at = 'infinity', false), d.is_catch_up, d.triggered_by, d.triggered_by_user, d.term, t.hostname, d.attempt,
       coalesce(w.hostname, d.worker_id::text), d.error_message, d.cancel_requested_at, n.id, n.scheduled_for,
       CASE WHEN d.triggered_by = 'dependency' THEN d.trigger_id END, c.name,
       d.traceparent
FROM job_dispatch d
LEFT JOIN leader_terms t ON t.term = d.term
LEFT JOIN known_workers w ON w.worker_id = d.worker_id
-- The next fire created after the request: the one for which the overlap policy made room.
LEFT JOIN LATERAL (
    SELECT s.id, s.scheduled_for
    FROM job_dispatch s
    WHERE d.error_message LIKE 'cancelled: a later fire of the job%' AND s.job_id = d.job_id AND s.scheduled_for > d.scheduled_for
      AND s.trigger_id IS NULL AND s.created_at >= d.cancel_requested_at
    ORDER BY s.scheduled_for
    LIMIT 1
) AS n ON true
LEFT JOIN LATERAL (
    SELECT j.name
    FROM job_dispatch e
    JOIN scheduled_jobs j ON j.tenant_id = e.tenant_id AND j.id = e.job_id
    WHERE d.triggered_by = 'dependency' AND e.id = d.trigger_id AND e.tenant_id = d.tenant_id
) AS c ON true
WHERE d.tenant_id = $1 AND d.job_id = $2 AND d.scheduled_for >= $3 AND d.scheduled_for < $4 AND (d.trigger_id IS NULL) = $5
ORDER BY d.scheduled_for, d.id
LIMIT $6

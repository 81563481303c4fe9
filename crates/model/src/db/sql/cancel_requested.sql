SELECT d.claim_token
FROM worker_claims c
CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS' AND d.cancel_requested_at IS NOT NULL
WHERE c.worker_id = $1

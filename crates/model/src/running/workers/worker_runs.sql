-- Two claims of the same worker may name a run that this worker claimed again. OFFSET 0 keeps the
-- search by the key of each run.
SELECT w.id, w.job_id, w.name, w.attempt, w.queue, w.scheduled_for, w.claimed_at, w.claim_token, p.percent, p.message, p.updated_at
FROM (SELECT DISTINCT ON (d.id) d.*, j.name
      FROM worker_claims c
      CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
      CROSS JOIN LATERAL (SELECT r.* FROM job_dispatch r
                          WHERE r.id = u.id AND r.worker_id = c.worker_id AND r.status = 'IN_PROGRESS' OFFSET 0) AS d
      JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
      WHERE d.tenant_id = $1 AND c.worker_id = $2
      ORDER BY d.id) AS w
LEFT JOIN live_progress p ON p.tenant_id = w.tenant_id AND p.dispatch_id = w.id AND p.claim_token = w.claim_token
ORDER BY w.claimed_at, w.id
LIMIT $3

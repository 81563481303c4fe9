-- Two claims of the same worker may name a run that this worker claimed again.
SELECT DISTINCT ON (d.id) d.id, d.tenant_id, j.project_id, d.job_id, j.name, d.claim_token, d.attempt, d.retry_count, d.lost_count, d.claimed_at,
       clock_timestamp(), d.worker_id, coalesce(j.retry_policy, f.retry_policy)
FROM worker_registration w
JOIN worker_claims c ON c.worker_id = w.worker_id
CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
JOIN job_dispatch d ON d.id = u.id AND d.worker_id = w.worker_id AND d.status = 'IN_PROGRESS'
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
WHERE w.status = 'OFFLINE'
ORDER BY d.id
LIMIT $1

-- By token: for an earlier claim of the same run, as for this one, the worker may know the end
-- while its response was lost. Two claims of the same worker may name a run that this worker
-- claimed again.
SELECT DISTINCT ON (d.id) d.id, d.tenant_id, j.project_id, d.job_id, j.name, d.claim_token, d.attempt, d.retry_count, d.lost_count, d.claimed_at,
       clock_timestamp(), d.worker_id, coalesce(j.retry_policy, f.retry_policy)
FROM worker_claims c
CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
WHERE c.worker_id = $1 AND d.claim_token <> ALL ($2::bigint[])
ORDER BY d.id

-- Two claims of the same worker may name a run that this worker claimed again.
SELECT DISTINCT ON (d.id) d.id, d.tenant_id, j.project_id, d.job_id, j.name, d.claim_token, d.attempt, d.retry_count, d.lost_count, d.claimed_at,
       clock_timestamp(), d.worker_id, coalesce(j.retry_policy, f.retry_policy), j.scope = 'backup_infrastructure'
FROM worker_registration w
JOIN worker_claims c ON c.worker_id = w.worker_id
CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
-- With OFFSET 0 the planner reads each run by its key. Because of the order by id, it may otherwise
-- choose a merge that reads all runs.
CROSS JOIN LATERAL (SELECT r.* FROM job_dispatch r
                    WHERE r.id = u.id AND r.worker_id = w.worker_id AND r.status = 'IN_PROGRESS' OFFSET 0) AS d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
WHERE w.status = 'OFFLINE'
ORDER BY d.id
LIMIT $1

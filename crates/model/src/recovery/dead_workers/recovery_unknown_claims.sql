-- By token: for an earlier claim of the same run, as for this one, the worker may know the end
-- while its response was lost. Two claims of the same worker may name a run that this worker
-- claimed again.
SELECT DISTINCT ON (d.id) d.id, d.tenant_id, j.project_id, d.job_id, j.name, d.claim_token, d.attempt, d.retry_count, d.lost_count, d.claimed_at,
       clock_timestamp(), d.worker_id, coalesce(j.retry_policy, f.retry_policy), j.scope = 'backup_infrastructure'
FROM worker_claims c
CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
-- With OFFSET 0 the planner reads each run by its key. Because of the order by id, it may otherwise
-- choose a merge that reads all runs.
CROSS JOIN LATERAL (SELECT r.* FROM job_dispatch r
                    WHERE r.id = u.id AND r.worker_id = c.worker_id AND r.status = 'IN_PROGRESS' OFFSET 0) AS d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
WHERE c.worker_id = $1 AND d.claim_token <> ALL ($2::bigint[])
ORDER BY d.id

-- Through a database function, so that an operator of the installation sees every tenant.
SELECT s.dispatch_id, s.tenant_id, s.project_id, s.job_id, s.job_name, s.claim_token, s.attempt, s.retry_count, s.lost_count, s.claimed_at,
       s.asked_at, s.worker_id, s.retry_policy, s.is_apart, s.tenant, s.hostname, s.is_cancel_requested, s.has_claim, s.is_worker_gone, s.limit_seconds
FROM find_stuck($1, $2, $3, $4) AS s

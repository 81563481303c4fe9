-- The attempt of each finished dispatch.
INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at,
                               duration_ms, worker_id, claim_token, triggered_by)
SELECT id, tenant_id, job_id, id, 1, 'COMPLETED', scheduled_for, claimed_at, completed_at, 980, worker_id, claim_token, triggered_by
FROM job_dispatch
WHERE status = 'COMPLETED'

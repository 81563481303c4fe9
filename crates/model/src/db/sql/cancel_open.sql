-- The open dispatches of a job, newest first. They are among its latest, and there are no more of them than the job counts: so this stops at
-- the last one instead of reading what has finished.
SELECT d.id, d.cancel_requested_at IS NOT NULL
FROM job_dispatch d
WHERE d.tenant_id = $1 AND d.job_id = $2 AND d.completed_at IS NULL
ORDER BY d.scheduled_for DESC
LIMIT $3

CREATE OR REPLACE VIEW unserved_dispatches WITH (security_invoker = true) AS
SELECT d.tenant_id, d.queue, j.name AS job_name, d.id AS dispatch_id, d.job_id, d.scheduled_for, d.claimable_at,
       clock_timestamp() - d.claimable_at AS waiting_for, d.attempt,
       CASE WHEN d.attempt = 0 THEN d.expires_at END AS expires_at
FROM job_dispatch d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
WHERE d.claimable_at <= now()
  AND NOT EXISTS (SELECT 1 FROM worker_registration w
                  WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY'));

COMMENT ON COLUMN job_dispatch.attempt IS 'How many attempts have been started, lost and released ones included.';
ALTER TABLE job_dispatch DROP CONSTRAINT job_dispatch_unstarted_count_check, DROP COLUMN unstarted_count;

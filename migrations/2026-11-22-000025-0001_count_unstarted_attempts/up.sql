-- A dispatch that was claimed and handed back before anything of it ran has not been started, so it can still come too late.
-- Attempts are numbered by their claims, so these have numbers too; they are counted, and what counts no more of them than attempts
-- has not begun. Workers of the release before count none: what they hand back does not expire, as it did not under them.
ALTER TABLE job_dispatch
    ADD COLUMN unstarted_count integer NOT NULL DEFAULT 0,
    -- Every row there is satisfies it, and reading them all would hold up the claims meanwhile.
    ADD CONSTRAINT job_dispatch_unstarted_count_check CHECK (unstarted_count BETWEEN 0 AND attempt) NOT VALID;
COMMENT ON COLUMN job_dispatch.unstarted_count IS 'How many attempts were handed back before anything of them ran; while that is all of them, the dispatch can still expire.';
COMMENT ON COLUMN job_dispatch.attempt IS 'How many attempts have been claimed, lost and released ones included.';

CREATE OR REPLACE VIEW unserved_dispatches WITH (security_invoker = true) AS
SELECT d.tenant_id, d.queue, j.name AS job_name, d.id AS dispatch_id, d.job_id, d.scheduled_for, d.claimable_at,
       clock_timestamp() - d.claimable_at AS waiting_for, d.attempt,
       CASE WHEN d.attempt = d.unstarted_count THEN d.expires_at END AS expires_at
FROM job_dispatch d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
WHERE d.claimable_at <= now()
  AND NOT EXISTS (SELECT 1 FROM worker_registration w
                  WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY'));

DROP VIEW ledger_gaps;
DROP VIEW occurrence_ledger;

CREATE OR REPLACE VIEW job_health WITH (security_invoker = true) AS
SELECT j.tenant_id, j.id AS job_id, j.name, j.job_type,
       CASE WHEN j.deleted_at IS NOT NULL THEN 'deleted' WHEN NOT j.is_enabled THEN 'disabled'
            WHEN j.is_paused THEN 'paused' ELSE 'active' END AS state,
       j.disabled_reason, j.next_run_at, j.last_run_at, j.last_status, j.total_run_count, j.active_dispatches
FROM scheduled_jobs j;

-- A pause that has ended by itself is one that an earlier release would not see the end of.
UPDATE scheduled_jobs SET is_paused = false, pause_reason = NULL, paused_until = NULL WHERE paused_until <= clock_timestamp();
COMMENT ON COLUMN scheduled_jobs.next_run_at  IS 'The next fire time: the cursor of the schedule. NULL when nothing will fire (manual, disabled, paused, deleted, over).';
COMMENT ON COLUMN scheduled_jobs.paused_until IS 'When the pause ends by itself; NULL means when somebody resumes it. Not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.is_paused    IS 'True: the schedule does not fire for a while.';
ALTER TABLE scheduled_job_versions DROP COLUMN paused_until, DROP COLUMN pause_reason;

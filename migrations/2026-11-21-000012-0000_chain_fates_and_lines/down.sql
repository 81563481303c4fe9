COMMENT ON COLUMN tenants.quotas IS 'Limits by name (jobs, dispatches_per_minute, running_dispatches, log_bytes); a missing name means unlimited. Not in effect yet.';
DROP TABLE tenant_usage;
ALTER TABLE tenants DROP CONSTRAINT tenants_known_quotas_check;

ALTER TABLE scheduled_jobs
    DROP CONSTRAINT scheduled_jobs_name_check,
    ADD CONSTRAINT scheduled_jobs_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,199}$') NOT VALID;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_name_check;

-- What waits in line may be claimed now: there is no line any more.
UPDATE job_dispatch SET claimable_at = available_at WHERE claimable_at = 'infinity';
DROP INDEX job_dispatch_line_idx;
DROP INDEX scheduled_jobs_line_idx;
CREATE INDEX scheduled_jobs_project_id_idx ON scheduled_jobs (tenant_id, project_id) WHERE project_id IS NOT NULL;
DROP INDEX scheduled_jobs_due_idx;
CREATE INDEX scheduled_jobs_due_idx ON scheduled_jobs (next_run_at) WHERE next_run_at IS NOT NULL;
COMMENT ON INDEX scheduled_jobs_due_idx IS 'The tick reads due jobs through this index and nothing else.';
ALTER TABLE scheduled_jobs
    DROP CONSTRAINT scheduled_jobs_finite_instants_check,
    DROP COLUMN burst_order,
    DROP COLUMN queued_dispatches,
    DROP COLUMN ledger_starts_at,
    DROP COLUMN last_fire_at;
DELETE FROM skipped_fires WHERE trigger_id IS NOT NULL;
DROP INDEX skipped_fires_job_id_first_fire_at_key;
ALTER TABLE skipped_fires DROP COLUMN follows, DROP COLUMN trigger_id;
CREATE UNIQUE INDEX skipped_fires_job_id_first_fire_at_key ON skipped_fires (job_id, first_fire_at);
ALTER TABLE job_dispatch DROP COLUMN follows;
COMMENT ON COLUMN job_dispatch.claimable_at IS 'Equal to available_at while PENDING, else NULL.';
COMMENT ON COLUMN scheduled_jobs.dispatch_lock_until IS 'No scheduled dispatch before this instant: an operator may hold a job back with it.';
COMMENT ON COLUMN scheduled_jobs.active_dispatches IS 'How many dispatches are open now; kept in the transactions that open and close them, so that a tick need not count.';
COMMENT ON COLUMN scheduled_jobs.overlap_policy IS 'What becomes of a fire while max_instances are open. queue and cancel_oldest are not in effect yet.';
COMMENT ON COLUMN job_dispatch.cancel_requested_at IS 'When somebody asked to cancel it; the worker obeys at its next look. Not in effect yet.';

-- What a job needs so that its fates can be proved complete, its overlapping fires can wait in line, and no tenant's burst goes
-- before another's.
--
-- Chain: each record of a fire time (a dispatch by the scheduler, or a range of skipped fires) names the one that was made before
-- it for the same job, by its key: `scheduled_for`, or `first_fire_at`. A record that is missing leaves its successor pointing at
-- nothing. The last one is named by the job.
--
-- Line: a dispatch beyond `max_instances` is PENDING with `claimable_at = 'infinity'`, which keeps it out of the reach of claims
-- until one before it has ended. The next of a line is found through an index of its own.

ALTER TABLE job_dispatch ADD COLUMN follows timestamptz;
ALTER TABLE skipped_fires ADD COLUMN follows timestamptz, ADD COLUMN trigger_id uuid;
COMMENT ON COLUMN skipped_fires.trigger_id IS 'NULL for fire times of the schedule; otherwise what would have triggered the job, so that it never takes the place of a fire time.';
DROP INDEX skipped_fires_job_id_first_fire_at_key;
CREATE UNIQUE INDEX skipped_fires_job_id_first_fire_at_key ON skipped_fires (job_id, first_fire_at, trigger_id) NULLS NOT DISTINCT;
COMMENT ON COLUMN job_dispatch.follows  IS 'Fire time of the record that was made before this one for the job (scheduled_for or first_fire_at); NULL for its first, and for triggers.';
COMMENT ON COLUMN skipped_fires.follows IS 'Fire time of the record that was made before this one for the job (scheduled_for or first_fire_at); NULL for its first.';
COMMENT ON COLUMN job_dispatch.claimable_at IS 'From when on it may be claimed; infinity while it waits in line behind others of its job; NULL unless it is PENDING.';

ALTER TABLE scheduled_jobs
    ADD COLUMN last_fire_at      timestamptz,
    ADD COLUMN ledger_starts_at  timestamptz,
    ADD COLUMN queued_dispatches integer NOT NULL DEFAULT 0,
    -- A volatile default: the table is rewritten, once, and every job gets a place of its own.
    ADD COLUMN burst_order       integer NOT NULL DEFAULT floor(random() * 1000000),
    -- The programs know no instant that never comes: a hold without an end is a pause.
    ADD CONSTRAINT scheduled_jobs_finite_instants_check CHECK (isfinite(dispatch_lock_until) AND isfinite(paused_until)
        AND isfinite(next_run_at) AND isfinite(start_at) AND isfinite(end_at)) NOT VALID,
    ADD CONSTRAINT scheduled_jobs_queued_dispatches_check CHECK (queued_dispatches BETWEEN 0 AND active_dispatches) NOT VALID;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_queued_dispatches_check;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_finite_instants_check;
COMMENT ON COLUMN scheduled_jobs.last_fire_at      IS 'Fire time of the record that was made last for the job (scheduled_for or first_fire_at); NULL before the first.';
COMMENT ON COLUMN scheduled_jobs.ledger_starts_at  IS 'Records of fire times up to this instant may have been removed by retention; NULL means none were.';
COMMENT ON COLUMN scheduled_jobs.queued_dispatches IS 'How many of the open dispatches wait in line for others of the job to end.';
COMMENT ON COLUMN scheduled_jobs.burst_order       IS 'Random place among jobs that are due at the same instant, so that no tenant''s burst goes before another''s.';
COMMENT ON COLUMN scheduled_jobs.dispatch_lock_until IS 'The scheduler leaves the job alone until this instant, though it may be due: its tenant has used up its quota, or an operator holds it; NULL means not.';
COMMENT ON COLUMN scheduled_jobs.active_dispatches IS 'How many of its dispatches wait or run, in line or not.';
COMMENT ON COLUMN scheduled_jobs.overlap_policy    IS 'What becomes of a fire while max_instances are open: skipped, queued in line, dispatched after the oldest is cancelled, or allowed.';
COMMENT ON COLUMN job_dispatch.cancel_requested_at IS 'When somebody asked to cancel it; its worker stops the work, and it does not wait again.';

-- A job that is held back stands where it will be looked at, not where it was due: held jobs hide nobody behind them.
DROP INDEX scheduled_jobs_due_idx;
CREATE INDEX scheduled_jobs_due_idx ON scheduled_jobs (greatest(next_run_at, dispatch_lock_until), burst_order) WHERE next_run_at IS NOT NULL;
COMMENT ON INDEX scheduled_jobs_due_idx IS 'The tick reads due jobs through this index and nothing else.';
-- Each fire writes into every index of the table. This one only helped to delete a project, which the key's first column does nearly as well.
DROP INDEX scheduled_jobs_project_id_idx;
CREATE INDEX job_dispatch_line_idx ON job_dispatch (job_id, scheduled_for, id) WHERE claimable_at = 'infinity';
COMMENT ON INDEX job_dispatch_line_idx IS 'The oldest in the line of a job, however long it is.';
-- Few jobs have a line, and only the writes that change its length touch this.
CREATE INDEX scheduled_jobs_line_idx ON scheduled_jobs (tenant_id, id) WHERE queued_dispatches > 0;
COMMENT ON INDEX scheduled_jobs_line_idx IS 'Finds lines that have room and were not released.';

-- Every update of a job asks its checks, and a bounded repetition costs six times what a plain one does: a sixth of the whole tick.
ALTER TABLE scheduled_jobs
    DROP CONSTRAINT scheduled_jobs_name_check,
    ADD CONSTRAINT scheduled_jobs_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]*$' AND length(name) <= 200) NOT VALID;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_name_check;

CREATE TABLE tenant_usage (
    tenant_id  uuid        NOT NULL,
    minute     timestamptz NOT NULL,
    dispatched bigint      NOT NULL,
    CONSTRAINT tenant_usage_pkey PRIMARY KEY (tenant_id),
    CONSTRAINT tenant_usage_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT tenant_usage_dispatched_check CHECK (dispatched >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE  tenant_usage            IS 'How much of its quota of dispatches a tenant has used in one minute; only of tenants that have such a quota.';
COMMENT ON COLUMN tenant_usage.tenant_id  IS 'The tenant.';
COMMENT ON COLUMN tenant_usage.minute     IS 'The minute this counts, by the database clock; an earlier minute than the present counts nothing.';
COMMENT ON COLUMN tenant_usage.dispatched IS 'Dispatches the scheduler made for it in that minute.';

ALTER TABLE tenants ADD CONSTRAINT tenants_known_quotas_check CHECK (
    quotas - ARRAY['jobs', 'dispatches_per_minute', 'running_dispatches', 'log_bytes'] = '{}'
    AND CASE jsonb_typeof(quotas -> 'dispatches_per_minute')
            WHEN 'number' THEN (quotas ->> 'dispatches_per_minute')::numeric >= 0
                               AND trunc((quotas ->> 'dispatches_per_minute')::numeric) = (quotas ->> 'dispatches_per_minute')::numeric
            ELSE NOT quotas ? 'dispatches_per_minute' END);
COMMENT ON CONSTRAINT tenants_known_quotas_check ON tenants IS 'Only known names; dispatches_per_minute is a whole number from 0.';
COMMENT ON COLUMN tenants.quotas IS 'Limits by name (jobs, dispatches_per_minute, running_dispatches, log_bytes); a missing name means unlimited. In effect: dispatches_per_minute, for the fire times of schedules.';

-- Jobs that run after others have ended (JOB-14).
--
-- What the user said stands with the other settings in `scheduled_jobs` (`after`, by name). `job_dependencies` is the same by id, for
-- both ways of asking, with what has been met so far. Whoever closes a dispatch of a job that has dependents writes a row into
-- `job_ends` in the same transaction; the leader takes them from there, makes the dispatches, and removes them in the same
-- transaction. A completion of any other job pays nothing for this but a look at a flag in a row that it writes anyway.

ALTER TABLE scheduled_jobs
    ADD COLUMN after          jsonb   NOT NULL DEFAULT '[]',
    ADD COLUMN after_mode     text    NOT NULL DEFAULT 'all',
    ADD COLUMN has_dependents boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT scheduled_jobs_after_check CHECK (jsonb_typeof(after) = 'array') NOT VALID,
    ADD CONSTRAINT scheduled_jobs_after_mode_check CHECK (after_mode IN ('all', 'any')) NOT VALID;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_after_check;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_after_mode_check;
COMMENT ON COLUMN scheduled_jobs.after          IS 'Jobs it runs after, each with its name and how it must end, as the user wrote them; job_dependencies has them by id.';
COMMENT ON COLUMN scheduled_jobs.after_mode     IS 'Whether all of them must have ended since the last run this made, or any one, every time.';
COMMENT ON COLUMN scheduled_jobs.has_dependents IS 'Whether jobs run after this one, so that its ends are to be told in job_ends.';

CREATE TABLE job_dependencies (
    tenant_id    uuid        NOT NULL,
    job_id       uuid        NOT NULL,
    after_job_id uuid        NOT NULL,
    condition    text        NOT NULL,
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    met_by       uuid,
    met_at       timestamptz,
    CONSTRAINT job_dependencies_pkey PRIMARY KEY (tenant_id, job_id, after_job_id),
    CONSTRAINT job_dependencies_job_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT job_dependencies_after_job_fkey FOREIGN KEY (tenant_id, after_job_id) REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT job_dependencies_condition_check CHECK (condition IN ('success', 'failure', 'completion')),
    CONSTRAINT job_dependencies_not_after_itself_check CHECK (after_job_id <> job_id),
    CONSTRAINT job_dependencies_met_by_has_met_at_check CHECK (met_by IS NULL OR met_at IS NOT NULL)
) WITH (fillfactor = 80);
CREATE INDEX job_dependencies_after_job_id_idx ON job_dependencies (tenant_id, after_job_id);
COMMENT ON TABLE  job_dependencies              IS 'Which job runs after which others have ended, and what has been met of it; without cycles.';
COMMENT ON INDEX  job_dependencies_after_job_id_idx IS 'Finds the jobs that run after one that has ended.';
COMMENT ON COLUMN job_dependencies.tenant_id    IS 'Owner of both jobs.';
COMMENT ON COLUMN job_dependencies.job_id       IS 'The job that runs after the other.';
COMMENT ON COLUMN job_dependencies.after_job_id IS 'The other job.';
COMMENT ON COLUMN job_dependencies.condition    IS 'How a dispatch of the other job must end.';
COMMENT ON COLUMN job_dependencies.since        IS 'When this was written, by the database clock; what ended before counts nothing.';
COMMENT ON COLUMN job_dependencies.met_by       IS 'The dispatch that met the condition since the last run; NULL while none has, and where each end is a run of its own.';
COMMENT ON COLUMN job_dependencies.met_at       IS 'When the latest dispatch that met the condition ended; kept when a run uses it up, so that no end counts twice.';

-- Rows live for a moment: vacuum goes by their number, not by a share of the table.
CREATE TABLE job_ends (
    id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant_id   uuid        NOT NULL,
    job_id      uuid        NOT NULL,
    dispatch_id uuid        NOT NULL,
    status      text        NOT NULL,
    ended_at    timestamptz NOT NULL,
    CONSTRAINT job_ends_pkey PRIMARY KEY (id),
    CONSTRAINT job_ends_status_check CHECK (status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'DEAD_LETTER'))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE  job_ends             IS 'Ends of dispatches after which other jobs may run, until the leader has seen to that. No foreign keys: a row is gone within moments.';
COMMENT ON COLUMN job_ends.id          IS 'Identifier; the order in which they are taken.';
COMMENT ON COLUMN job_ends.tenant_id   IS 'Owner.';
COMMENT ON COLUMN job_ends.job_id      IS 'The job that ended.';
COMMENT ON COLUMN job_ends.dispatch_id IS 'Its dispatch.';
COMMENT ON COLUMN job_ends.status      IS 'How the dispatch ended. CANCELLED is not told: nothing runs after that.';
COMMENT ON COLUMN job_ends.ended_at    IS 'When, by the database clock: its completed_at.';

COMMENT ON COLUMN job_dispatch.scheduled_for         IS 'The fire time; for a trigger, when it was made; for a dependency, when the other job ended.';
COMMENT ON COLUMN job_dispatch.trigger_id            IS 'NULL for a fire time of the schedule; for a dependency, the dispatch whose end made this one; otherwise the id of this trigger, so that it never takes the place of a fire time.';
COMMENT ON COLUMN job_dispatch.scheduler_instance_id IS 'The leader that created it; NULL for triggers by hand.';
COMMENT ON COLUMN job_dispatch.term                  IS 'The term of that leader; NULL for triggers by hand.';

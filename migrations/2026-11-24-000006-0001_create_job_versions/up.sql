-- Settings of jobs after each change.

CREATE TABLE scheduled_job_versions (
    tenant_id    uuid        NOT NULL,
    job_id       uuid        NOT NULL,
    version      bigint      NOT NULL,
    change       text        NOT NULL,
    settings     jsonb       NOT NULL,
    changed_at   timestamptz NOT NULL DEFAULT now(),
    changed_src  text        NOT NULL,
    pause_reason text,
    paused_until timestamptz,
    CONSTRAINT scheduled_job_versions_pkey PRIMARY KEY (tenant_id, job_id, version),
    CONSTRAINT scheduled_job_versions_job_fkey FOREIGN KEY (tenant_id, job_id)
        REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT scheduled_job_versions_version_check CHECK (version > 0),
    CONSTRAINT scheduled_job_versions_change_check
        CHECK (change IN ('created', 'updated', 'enabled', 'disabled', 'paused', 'resumed',
            'deleted', 'restored', 'rolled_back')),
    CONSTRAINT scheduled_job_versions_settings_check CHECK (jsonb_typeof(settings) = 'object')
);
COMMENT ON TABLE scheduled_job_versions IS
    'Settings of every job after each change; the previous settings are the previous row. Runs '
    'name a row in place of its arguments.';
COMMENT ON COLUMN scheduled_job_versions.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN scheduled_job_versions.job_id IS 'The job.';
COMMENT ON COLUMN scheduled_job_versions.version IS 'Version that these settings created.';
COMMENT ON COLUMN scheduled_job_versions.change IS 'Kind of change.';
COMMENT ON COLUMN scheduled_job_versions.settings IS
    'Settings after the change, in the form the API returns.';
COMMENT ON COLUMN scheduled_job_versions.changed_at IS 'Time of the change, by the database clock.';
COMMENT ON COLUMN scheduled_job_versions.changed_src IS
    'Component or e-mail address that made the change.';
COMMENT ON COLUMN scheduled_job_versions.pause_reason IS
    'Reason of the pause, if the change is a pause.';
COMMENT ON COLUMN scheduled_job_versions.paused_until IS
    'End of that pause; NULL means until a user resumes the job.';

-- The row of a job and the row of its version are written one after the other, in any program.
CREATE FUNCTION note_stored_version() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A restore has an empty search path.
    EXECUTE format(
        'UPDATE %I.scheduled_jobs j SET is_version_stored = true
         WHERE j.tenant_id = $1 AND j.id = $2 AND j.version = $3 AND j.task_args::text = $4',
        TG_TABLE_SCHEMA)
        USING NEW.tenant_id, NEW.job_id, NEW.version, (NEW.settings -> 'task_args')::text;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION note_stored_version() IS
    'Notes at the job that its current version is stored, with the same arguments.';
CREATE TRIGGER scheduled_job_versions_inserted AFTER INSERT ON scheduled_job_versions
    FOR EACH ROW EXECUTE FUNCTION note_stored_version();
COMMENT ON TRIGGER scheduled_job_versions_inserted ON scheduled_job_versions IS
    'Sets is_version_stored of the job.';

-- Settings of jobs after each change, and the mark of jobs whose cursor is stale.

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

-- A writer that computes the cursor also writes settled_until, or inserts next_run_at. After any
-- other change of the schedule the leader computes the cursor. The programs that fire jobs and
-- count runs write none of the columns that the triggers name, so they pay nothing.
CREATE FUNCTION note_stale_cursor() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.is_cursor_stale := true;
    ELSE
        NEW.is_cursor_stale := NEW.is_enabled AND NEW.deleted_at IS NULL
            AND NEW.job_type <> 'manual' AND NEW.settled_until = OLD.settled_until
            AND (NEW.next_run_at IS NULL OR NEW.next_run_at IS NOT DISTINCT FROM OLD.next_run_at);
    END IF;
    IF NEW.is_cursor_stale AND TG_OP = 'UPDATE' THEN
        -- A plan or a write that knows the former schedule does not match any more. The leader
        -- stores the version with the cursor.
        NEW.version := greatest(NEW.version, OLD.version + 1);
        NEW.is_version_stored := false;
        IF NEW.updated_src = OLD.updated_src AND NEW.updated_at = OLD.updated_at THEN
            NEW.updated_src := 'sql';
            NEW.updated_at := clock_timestamp();
        END IF;
    END IF;
    IF NEW.is_cursor_stale THEN
        PERFORM pg_notify('sched_jobs', '');
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION note_stale_cursor() IS
    'Marks a job whose schedule was written without its cursor, gives it a new version, and wakes '
    'the leader.';
CREATE TRIGGER scheduled_jobs_inserted_without_cursor BEFORE INSERT ON scheduled_jobs
    FOR EACH ROW
    WHEN (NEW.next_run_at IS NULL AND NEW.is_enabled AND NEW.deleted_at IS NULL
        AND NEW.job_type <> 'manual')
    EXECUTE FUNCTION note_stale_cursor();
CREATE TRIGGER scheduled_jobs_rescheduled
    BEFORE UPDATE OF
        name, job_type, schedule_config, timezone, dst_gap, dst_overlap, start_at, end_at, max_runs,
        calendars, calendar_roll, is_enabled, deleted_at
    ON scheduled_jobs
    FOR EACH ROW
    WHEN ((OLD.name, OLD.job_type, OLD.schedule_config, OLD.timezone, OLD.dst_gap, OLD.dst_overlap,
           OLD.start_at, OLD.end_at, OLD.max_runs, OLD.calendars, OLD.calendar_roll, OLD.is_enabled,
           OLD.deleted_at)
        IS DISTINCT FROM
          (NEW.name, NEW.job_type, NEW.schedule_config, NEW.timezone, NEW.dst_gap, NEW.dst_overlap,
           NEW.start_at, NEW.end_at, NEW.max_runs, NEW.calendars, NEW.calendar_roll, NEW.is_enabled,
           NEW.deleted_at))
    EXECUTE FUNCTION note_stale_cursor();
COMMENT ON TRIGGER scheduled_jobs_inserted_without_cursor ON scheduled_jobs IS
    'A job without a cursor would never fire.';
COMMENT ON TRIGGER scheduled_jobs_rescheduled ON scheduled_jobs IS
    'The cursor of the former schedule is not that of the new one.';

-- Jobs and their dependencies.

-- Settings and running state of a job are one row. The leader rewrites next_run_at at every fire,
-- and that update cannot stay in its page (HOT), because the column is indexed. So every index here
-- costs a write per fire: the primary key is also the target of foreign keys and finds the jobs of
-- a project, and the other indexes are partial.
CREATE TABLE scheduled_jobs (
    tenant_id                 uuid        NOT NULL,
    id                        uuid        NOT NULL DEFAULT gen_random_uuid(),
    scope                     text        NOT NULL DEFAULT 'project',
    project_id                uuid,
    name                      text        NOT NULL,
    description               text        NOT NULL DEFAULT '',
    task_function_id          uuid        NOT NULL,
    task_args                 jsonb       NOT NULL DEFAULT '{}',
    job_type                  text        NOT NULL,
    schedule_config           jsonb       NOT NULL,
    timezone                  text        NOT NULL DEFAULT 'UTC',
    dst_gap                   text,
    dst_overlap               text,
    start_at                  timestamptz,
    end_at                    timestamptz,
    max_runs                  bigint,
    jitter_seconds            integer     NOT NULL DEFAULT 0,
    misfire_policy            text        NOT NULL DEFAULT 'fire_once',
    misfire_grace_seconds     integer,
    misfire_cap               integer     NOT NULL DEFAULT 100,
    max_instances             integer     NOT NULL DEFAULT 1,
    overlap_policy            text        NOT NULL DEFAULT 'skip',
    queue                     text,
    priority                  smallint,
    timeout_seconds           integer,
    retry_policy              jsonb,
    is_enabled                boolean     NOT NULL DEFAULT true,
    disabled_reason           text,
    is_paused                 boolean     NOT NULL DEFAULT false,
    pause_reason              text,
    paused_until              timestamptz,
    deleted_at                timestamptz,
    next_run_at               timestamptz,
    last_run_at               timestamptz,
    last_status               text,
    last_dispatched_at        timestamptz,
    dispatch_lock_until       timestamptz,
    total_run_count           bigint      NOT NULL DEFAULT 0,
    active_dispatches         integer     NOT NULL DEFAULT 0,
    tzdata_version            text,
    version                   bigint      NOT NULL DEFAULT 1,
    created_at                timestamptz NOT NULL DEFAULT now(),
    created_src               text        NOT NULL DEFAULT 'sql',
    updated_at                timestamptz NOT NULL DEFAULT now(),
    updated_src               text        NOT NULL DEFAULT 'sql',
    calendars                 text[]      NOT NULL DEFAULT '{}',
    calendar_roll             text        NOT NULL DEFAULT 'skip',
    expected_duration_seconds integer,
    settled_until             timestamptz NOT NULL DEFAULT now(),
    fired_count               bigint      NOT NULL DEFAULT 0,
    last_fire_at              timestamptz,
    ledger_starts_at          timestamptz,
    queued_dispatches         integer     NOT NULL DEFAULT 0,
    burst_order               integer     NOT NULL DEFAULT floor(random() * 1000000),
    start_within_seconds      integer,
    after                     jsonb       NOT NULL DEFAULT '[]',
    after_mode                text        NOT NULL DEFAULT 'all',
    made_from                 jsonb,
    is_version_stored         boolean     NOT NULL DEFAULT false,
    is_cursor_stale           boolean     NOT NULL DEFAULT false,
    CONSTRAINT scheduled_jobs_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT scheduled_jobs_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT scheduled_jobs_project_fkey FOREIGN KEY (tenant_id, project_id)
        REFERENCES projects (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT scheduled_jobs_task_function_fkey FOREIGN KEY (tenant_id, task_function_id)
        REFERENCES task_functions (tenant_id, id),
    CONSTRAINT scheduled_jobs_job_type_fkey FOREIGN KEY (job_type)
        REFERENCES scheduler_job_types (name),
    CONSTRAINT scheduled_jobs_queue_fkey FOREIGN KEY (tenant_id, queue)
        REFERENCES queues (tenant_id, name),
    CONSTRAINT scheduled_jobs_disabled_reason_check
        CHECK (disabled_reason IS NULL OR NOT is_enabled),
    CONSTRAINT scheduled_jobs_pause_check
        CHECK (is_paused OR (pause_reason IS NULL AND paused_until IS NULL)),
    CONSTRAINT scheduled_jobs_next_run_needs_schedule_check
        CHECK (next_run_at IS NULL OR (job_type <> 'manual' AND deleted_at IS NULL)),
    CONSTRAINT scheduled_jobs_last_status_check
        CHECK (last_status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED', 'DEAD_LETTER')),
    CONSTRAINT scheduled_jobs_total_run_count_check CHECK (total_run_count >= 0),
    CONSTRAINT scheduled_jobs_active_dispatches_check CHECK (active_dispatches >= 0),
    CONSTRAINT scheduled_jobs_fired_count_check CHECK (fired_count >= 0),
    -- The programs know no infinite time: a hold without an end is a pause.
    CONSTRAINT scheduled_jobs_finite_instants_check CHECK (
        isfinite(dispatch_lock_until) AND isfinite(paused_until) AND isfinite(next_run_at)
        AND isfinite(start_at) AND isfinite(end_at)),
    CONSTRAINT scheduled_jobs_queued_dispatches_check
        CHECK (queued_dispatches BETWEEN 0 AND active_dispatches)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
CREATE UNIQUE INDEX scheduled_jobs_tenant_id_name_key ON scheduled_jobs (tenant_id, name)
    WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX scheduled_jobs_singleton_key
    ON scheduled_jobs (tenant_id, scope, task_function_id)
    WHERE scope <> 'project' AND deleted_at IS NULL;
CREATE INDEX scheduled_jobs_due_idx
    ON scheduled_jobs (greatest(next_run_at, dispatch_lock_until), burst_order)
    WHERE next_run_at IS NOT NULL;
CREATE INDEX scheduled_jobs_line_idx ON scheduled_jobs (tenant_id, id) WHERE queued_dispatches > 0;
CREATE INDEX scheduled_jobs_stale_cursor_idx ON scheduled_jobs (tenant_id, id)
    WHERE is_cursor_stale;
CREATE INDEX scheduled_jobs_quarantined_idx ON scheduled_jobs (id)
    WHERE NOT is_enabled AND deleted_at IS NULL AND disabled_reason IS NOT NULL;
COMMENT ON TABLE scheduled_jobs IS 'Jobs: settings and running state in one row.';
COMMENT ON INDEX scheduled_jobs_due_idx IS
    'The tick reads due jobs only through this index. A held job sorts at the end of its hold, '
    'so that held jobs do not hide due ones.';
COMMENT ON INDEX scheduled_jobs_line_idx IS
    'Jobs with queued runs, to find those with free instances that were not released. Only '
    'changes of that count write to it.';
COMMENT ON INDEX scheduled_jobs_stale_cursor_idx IS
    'Jobs whose schedule was written with plain SQL, until the leader has computed their cursor; '
    'almost always empty.';
COMMENT ON INDEX scheduled_jobs_quarantined_idx IS
    'Jobs that the scheduler disabled; monitoring counts them every few seconds.';
COMMENT ON COLUMN scheduled_jobs.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN scheduled_jobs.id IS 'Identifier; time-ordered if the API created it.';
COMMENT ON COLUMN scheduled_jobs.scope IS
    'backup_infrastructure and system jobs are singletons per function; project jobs belong to a '
    'project.';
COMMENT ON COLUMN scheduled_jobs.project_id IS 'Project of a project job; NULL for other scopes.';
COMMENT ON COLUMN scheduled_jobs.name IS
    'Stable name, unique in the tenant among jobs that are not deleted.';
COMMENT ON COLUMN scheduled_jobs.description IS 'Free text.';
COMMENT ON COLUMN scheduled_jobs.task_function_id IS 'Function to run.';
COMMENT ON COLUMN scheduled_jobs.task_args IS 'Arguments of every run without its own.';
COMMENT ON COLUMN scheduled_jobs.job_type IS 'Kind of schedule.';
COMMENT ON COLUMN scheduled_jobs.schedule_config IS 'The schedule, in the form of its kind.';
COMMENT ON COLUMN scheduled_jobs.timezone IS 'IANA zone of wall-clock schedules.';
COMMENT ON COLUMN scheduled_jobs.dst_gap IS
    'Handling of a wall-clock time that does not exist; NULL means the schedule default.';
COMMENT ON COLUMN scheduled_jobs.dst_overlap IS
    'Handling of a wall-clock time that occurs twice; NULL means the schedule default.';
COMMENT ON COLUMN scheduled_jobs.start_at IS 'No fire before this time; NULL means no bound.';
COMMENT ON COLUMN scheduled_jobs.end_at IS 'No fire at or after this time; NULL means no bound.';
COMMENT ON COLUMN scheduled_jobs.max_runs IS 'Maximum number of fires; NULL means no bound.';
COMMENT ON COLUMN scheduled_jobs.jitter_seconds IS
    'Runs become available up to this much after the fire time, stable per job and fire time.';
COMMENT ON COLUMN scheduled_jobs.misfire_policy IS
    'Handling of misfires: skip them, fire the latest once, or fire all up to the cap.';
COMMENT ON COLUMN scheduled_jobs.misfire_grace_seconds IS
    'A fire up to this late, in seconds, is still on time; NULL means the installation default.';
COMMENT ON COLUMN scheduled_jobs.misfire_cap IS
    'Maximum number of fires that fire_all catches up at once.';
COMMENT ON COLUMN scheduled_jobs.max_instances IS
    'Open runs (waiting or running) before overlap_policy applies to fires; triggers by hand '
    'come on top.';
COMMENT ON COLUMN scheduled_jobs.overlap_policy IS
    'Handling of a fire while max_instances runs are open: skip, queue, dispatch after '
    'cancelling the oldest, or allow.';
COMMENT ON COLUMN scheduled_jobs.queue IS
    'Queue of its runs; NULL means the queue of the function.';
COMMENT ON COLUMN scheduled_jobs.priority IS
    'Priority of its runs, 0 first to 100 last; NULL means the default of the queue.';
COMMENT ON COLUMN scheduled_jobs.timeout_seconds IS
    'Maximum duration of an attempt, in seconds; NULL means the function default.';
COMMENT ON COLUMN scheduled_jobs.retry_policy IS
    'Retry policy; NULL means that of the function, else the installation default.';
COMMENT ON COLUMN scheduled_jobs.is_enabled IS
    'False: the schedule does not fire. Manual triggers still work.';
COMMENT ON COLUMN scheduled_jobs.disabled_reason IS
    'Reason why the scheduler disabled the job or did not enable a built-in job; NULL if a '
    'person disabled it, and while it is enabled.';
COMMENT ON COLUMN scheduled_jobs.is_paused IS
    'True: the schedule does not fire until paused_until.';
COMMENT ON COLUMN scheduled_jobs.pause_reason IS
    'Reason of the pause, for people; NULL unless paused.';
COMMENT ON COLUMN scheduled_jobs.paused_until IS
    'End of the pause; NULL means until a user resumes the job.';
COMMENT ON COLUMN scheduled_jobs.deleted_at IS
    'Deletion time. The history stays, and the job can be restored.';
COMMENT ON COLUMN scheduled_jobs.next_run_at IS
    'Next fire time: the cursor of the schedule. It moves on during a pause, so that skips are '
    'recorded. NULL if nothing will fire (manual, disabled, deleted, ended).';
COMMENT ON COLUMN scheduled_jobs.last_run_at IS 'Start of the latest finished attempt.';
COMMENT ON COLUMN scheduled_jobs.last_status IS 'Final status of the latest finished run.';
COMMENT ON COLUMN scheduled_jobs.last_dispatched_at IS 'Creation time of the latest run.';
COMMENT ON COLUMN scheduled_jobs.dispatch_lock_until IS
    'The leader does not dispatch the job before this time, though it may be due: the tenant '
    'used up its quota, or an operator holds it. NULL means no hold.';
COMMENT ON COLUMN scheduled_jobs.total_run_count IS 'Number of runs created in all.';
COMMENT ON COLUMN scheduled_jobs.active_dispatches IS
    'Number of open runs, queued ones included, so that a tick need not count. Transactions that '
    'open runs or close waiting ones update it. Ends of attempts, and triggers of jobs with '
    'overlap_policy allow, are counted within a second.';
COMMENT ON COLUMN scheduled_jobs.tzdata_version IS
    'Version of the time zone database that next_run_at was computed with; NULL if not needed.';
COMMENT ON COLUMN scheduled_jobs.version IS
    'Increases with every change of settings; optimistic concurrency and ETag.';
COMMENT ON COLUMN scheduled_jobs.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN scheduled_jobs.created_src IS 'Component or e-mail address that created the row.';
COMMENT ON COLUMN scheduled_jobs.updated_at IS
    'Last change of the settings, by the database clock.';
COMMENT ON COLUMN scheduled_jobs.updated_src IS 'Component or e-mail address of the last change.';
COMMENT ON COLUMN scheduled_jobs.calendars IS
    'Names of calendars. A fire time that one of them excludes is rolled or skipped.';
COMMENT ON COLUMN scheduled_jobs.calendar_roll IS
    'Handling of an excluded fire: skip it, or move it to the same time of the next or previous '
    'day that is not excluded.';
COMMENT ON COLUMN scheduled_jobs.expected_duration_seconds IS
    'Expected duration of a run, in seconds, for simulations; NULL means unknown.';
COMMENT ON COLUMN scheduled_jobs.settled_until IS
    'Every fire time up to and including this time has its run or its skip record.';
COMMENT ON COLUMN scheduled_jobs.fired_count IS
    'Number of fire times that the schedule dispatched; bounded by max_runs.';
COMMENT ON COLUMN scheduled_jobs.last_fire_at IS
    'Fire time of the latest record of the job (scheduled_for or first_fire_at); NULL before the '
    'first.';
COMMENT ON COLUMN scheduled_jobs.ledger_starts_at IS
    'Retention may have deleted records of fire times up to this time; NULL if it deleted nothing.';
COMMENT ON COLUMN scheduled_jobs.queued_dispatches IS
    'Number of open runs that are queued behind other runs of the job.';
COMMENT ON COLUMN scheduled_jobs.burst_order IS
    'Random rank among jobs due at the same time, so that no tenant''s burst goes before '
    'another''s.';
COMMENT ON COLUMN scheduled_jobs.start_within_seconds IS
    'A run whose first attempt has not started this many seconds after it became available '
    'expires; NULL means never.';
COMMENT ON COLUMN scheduled_jobs.after IS
    'Jobs it runs after, by name, with the required outcome, as the user wrote them; '
    'job_dependencies has them by id.';
COMMENT ON COLUMN scheduled_jobs.after_mode IS
    'all: every one of them must have ended since the last run this created. any: each end '
    'creates a run.';
COMMENT ON COLUMN scheduled_jobs.made_from IS
    'Template it was created from: name, version at that time, and parameters; NULL without one. '
    'A record of origin, not of content.';
COMMENT ON COLUMN scheduled_jobs.is_version_stored IS
    'True if scheduled_job_versions has the current version with these task_args. Then runs name '
    'the version in place of the arguments. Triggers maintain it.';
COMMENT ON COLUMN scheduled_jobs.is_cursor_stale IS
    'True if a statement wrote the schedule and computed no next_run_at, as plain SQL does. The '
    'leader then computes it within a second, or disables the job with the reason. A trigger '
    'maintains it; a user may set it.';

-- PostgreSQL reads all CHECKs of a table again in every statement that writes it, and evaluates
-- each of them for every row. The leader moves cursors and workers count finished runs at high
-- rates, so rules about rarely changed settings are checked by a trigger that names its columns. A
-- statement that sets none of them pays nothing. A violation is reported as by a CHECK, under the
-- same name. The length of the name is checked apart from its pattern, because a bounded repetition
-- is slow.
CREATE FUNCTION check_settings_of_job() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    broken text;
BEGIN
    -- Runs name a version in place of its arguments, so each version has one value of them.
    IF TG_OP = 'UPDATE' AND NEW.task_args IS DISTINCT FROM OLD.task_args THEN
        NEW.version := greatest(NEW.version, OLD.version + 1);
    END IF;
    IF TG_OP = 'INSERT' OR NEW.version <> OLD.version THEN
        NEW.is_version_stored := false;
    END IF;
    SELECT r.rule INTO broken
    FROM (VALUES
        ('scheduled_jobs_after_check', jsonb_typeof(NEW.after) = 'array'),
        ('scheduled_jobs_after_mode_check', NEW.after_mode IN ('all', 'any')),
        ('scheduled_jobs_calendar_roll_check',
            NEW.calendar_roll IN ('skip', 'next_business_day', 'previous_business_day')),
        ('scheduled_jobs_calendars_check', array_position(NEW.calendars, NULL) IS NULL),
        ('scheduled_jobs_dst_gap_check', NEW.dst_gap IN ('shift', 'skip')),
        ('scheduled_jobs_dst_overlap_check', NEW.dst_overlap IN ('first', 'second', 'both')),
        ('scheduled_jobs_end_after_start_check', NEW.end_at > NEW.start_at),
        ('scheduled_jobs_expected_duration_check', NEW.expected_duration_seconds > 0),
        ('scheduled_jobs_jitter_check', NEW.jitter_seconds BETWEEN 0 AND 86400),
        ('scheduled_jobs_made_from_check', NEW.made_from IS NULL
            OR (NEW.made_from ?& ARRAY['template', 'version', 'parameters']
                AND jsonb_typeof(NEW.made_from -> 'template') = 'string'
                AND jsonb_typeof(NEW.made_from -> 'version') = 'number'
                AND jsonb_typeof(NEW.made_from -> 'parameters') = 'object')),
        ('scheduled_jobs_max_instances_check', NEW.max_instances BETWEEN 1 AND 10000),
        ('scheduled_jobs_max_runs_check', NEW.max_runs > 0),
        ('scheduled_jobs_misfire_cap_check', NEW.misfire_cap BETWEEN 1 AND 10000),
        ('scheduled_jobs_misfire_grace_check', NEW.misfire_grace_seconds > 0),
        ('scheduled_jobs_misfire_policy_check',
            NEW.misfire_policy IN ('skip', 'fire_once', 'fire_all')),
        ('scheduled_jobs_name_check',
            NEW.name ~ '^[a-z0-9][a-z0-9._-]*$' AND length(NEW.name) <= 200),
        ('scheduled_jobs_overlap_policy_check',
            NEW.overlap_policy IN ('skip', 'queue', 'cancel_oldest', 'allow')),
        ('scheduled_jobs_priority_check', NEW.priority BETWEEN 0 AND 100),
        ('scheduled_jobs_project_iff_project_scope_check',
            (NEW.scope = 'project') = (NEW.project_id IS NOT NULL)),
        ('scheduled_jobs_retry_policy_check', jsonb_typeof(NEW.retry_policy) = 'object'),
        ('scheduled_jobs_schedule_config_check', jsonb_typeof(NEW.schedule_config) = 'object'),
        ('scheduled_jobs_scope_check', NEW.scope IN ('backup_infrastructure', 'system', 'project')),
        ('scheduled_jobs_start_within_check', NEW.start_within_seconds > 0),
        ('scheduled_jobs_task_args_check', jsonb_typeof(NEW.task_args) = 'object'),
        ('scheduled_jobs_timeout_check', NEW.timeout_seconds > 0),
        ('scheduled_jobs_version_check',
            NEW.version > 0 AND (TG_OP = 'INSERT' OR NEW.version >= OLD.version))
    ) AS r (rule, is_kept)
    -- As with a CHECK, an unknown result (NULL) passes.
    WHERE NOT r.is_kept
    ORDER BY r.rule LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'new row for relation "scheduled_jobs" violates check constraint "%"',
                        broken
            USING ERRCODE = 'check_violation', SCHEMA = TG_TABLE_SCHEMA,
                  TABLE = TG_TABLE_NAME, CONSTRAINT = broken;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION check_settings_of_job() IS
    'Rejects job settings that break a rule, with the name of a constraint. Changed arguments get '
    'a new version.';
CREATE TRIGGER scheduled_jobs_settings_checked
    BEFORE INSERT OR UPDATE OF
        after, after_mode, calendar_roll, calendars, dst_gap, dst_overlap, end_at, start_at,
        expected_duration_seconds, jitter_seconds, made_from, max_instances, max_runs, misfire_cap,
        misfire_grace_seconds, misfire_policy, name, overlap_policy, priority, scope, project_id,
        retry_policy, schedule_config, start_within_seconds, task_args, timeout_seconds, version
    ON scheduled_jobs
    FOR EACH ROW EXECUTE FUNCTION check_settings_of_job();
COMMENT ON TRIGGER scheduled_jobs_settings_checked ON scheduled_jobs IS
    'Checks the settings, and gives changed arguments a new version. A rule about a column that is '
    'not named here must be a CHECK.';

-- A hint for the leader, so that a change of a job by any client takes effect at once. Without it
-- the leader sees the change at its next poll. The tick itself changes none of these columns.
CREATE FUNCTION notify_scheduled_jobs_changed() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('sched_jobs', '');
    RETURN NULL;
END $$;
COMMENT ON FUNCTION notify_scheduled_jobs_changed() IS 'Wakes the leader after jobs were written.';
CREATE TRIGGER scheduled_jobs_inserted AFTER INSERT ON scheduled_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION notify_scheduled_jobs_changed();
CREATE TRIGGER scheduled_jobs_settings_updated AFTER UPDATE OF version ON scheduled_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION notify_scheduled_jobs_changed();
COMMENT ON TRIGGER scheduled_jobs_inserted ON scheduled_jobs IS
    'A new job may be due before the next poll.';
COMMENT ON TRIGGER scheduled_jobs_settings_updated ON scheduled_jobs IS
    'Changed settings have a new version.';

-- The transaction that closes a run of a job with dependents inserts a row into job_ends. The
-- leader takes these rows, creates the runs, and deletes the rows in one transaction. The end of a
-- run of any other job only reads job_dependencies_after_job_id_idx.
CREATE TABLE job_dependencies (
    tenant_id    uuid        NOT NULL,
    job_id       uuid        NOT NULL,
    after_job_id uuid        NOT NULL,
    condition    text        NOT NULL,
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    met_by       uuid,
    met_at       timestamptz,
    CONSTRAINT job_dependencies_pkey PRIMARY KEY (tenant_id, job_id, after_job_id),
    CONSTRAINT job_dependencies_job_fkey FOREIGN KEY (tenant_id, job_id)
        REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT job_dependencies_after_job_fkey FOREIGN KEY (tenant_id, after_job_id)
        REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT job_dependencies_condition_check
        CHECK (condition IN ('success', 'failure', 'completion')),
    CONSTRAINT job_dependencies_not_after_itself_check CHECK (after_job_id <> job_id),
    CONSTRAINT job_dependencies_met_by_has_met_at_check
        CHECK (met_by IS NULL OR met_at IS NOT NULL)
) WITH (fillfactor = 80);
CREATE INDEX job_dependencies_after_job_id_idx ON job_dependencies (tenant_id, after_job_id);
COMMENT ON TABLE job_dependencies IS
    'Jobs that run after other jobs, and the conditions met so far; without cycles.';
COMMENT ON INDEX job_dependencies_after_job_id_idx IS 'Jobs that run after an ended one.';
COMMENT ON COLUMN job_dependencies.tenant_id IS 'Owning tenant of both jobs.';
COMMENT ON COLUMN job_dependencies.job_id IS 'The dependent job.';
COMMENT ON COLUMN job_dependencies.after_job_id IS 'The job it runs after.';
COMMENT ON COLUMN job_dependencies.condition IS 'Required outcome of a run of the other job.';
COMMENT ON COLUMN job_dependencies.since IS
    'Creation time, by the database clock; earlier ends do not count.';
COMMENT ON COLUMN job_dependencies.met_by IS
    'Run that met the condition since the last run of the dependent job; NULL if none, and if '
    'each end is a run.';
COMMENT ON COLUMN job_dependencies.met_at IS
    'End of the latest run that met the condition; kept when a run uses it up, so that no end '
    'counts twice.';

-- Jobs: settings and running state in one row (JOB-1), and every earlier version of the settings (JOB-11).
--
-- The scheduler rewrites `next_run_at` at every fire, which no index scan can do in place: each index here is paid
-- for at each fire. Hence the composite primary key doubles as the target of foreign keys, and the others are partial.

CREATE TABLE scheduled_jobs (
    tenant_id             uuid        NOT NULL,
    id                    uuid        NOT NULL DEFAULT gen_random_uuid(),
    scope                 text        NOT NULL DEFAULT 'project',
    project_id            uuid,
    name                  text        NOT NULL,
    description           text        NOT NULL DEFAULT '',
    task_function_id      uuid        NOT NULL,
    task_args             jsonb       NOT NULL DEFAULT '{}',
    job_type              text        NOT NULL,
    schedule_config       jsonb       NOT NULL,
    timezone              text        NOT NULL DEFAULT 'UTC',
    dst_gap               text,
    dst_overlap           text,
    start_at              timestamptz,
    end_at                timestamptz,
    max_runs              bigint,
    jitter_seconds        integer     NOT NULL DEFAULT 0,
    misfire_policy        text        NOT NULL DEFAULT 'fire_once',
    misfire_grace_seconds integer,
    misfire_cap           integer     NOT NULL DEFAULT 100,
    max_instances         integer     NOT NULL DEFAULT 1,
    overlap_policy        text        NOT NULL DEFAULT 'skip',
    queue                 text,
    priority              smallint,
    timeout_seconds       integer,
    retry_policy          jsonb,
    is_enabled            boolean     NOT NULL DEFAULT true,
    disabled_reason       text,
    is_paused             boolean     NOT NULL DEFAULT false,
    pause_reason          text,
    paused_until          timestamptz,
    deleted_at            timestamptz,
    next_run_at           timestamptz,
    last_run_at           timestamptz,
    last_status           text,
    last_dispatched_at    timestamptz,
    dispatch_lock_until   timestamptz,
    total_run_count       bigint      NOT NULL DEFAULT 0,
    active_dispatches     integer     NOT NULL DEFAULT 0,
    tzdata_version        text,
    version               bigint      NOT NULL DEFAULT 1,
    created_at            timestamptz NOT NULL DEFAULT now(),
    created_src           text        NOT NULL DEFAULT 'sql',
    updated_at            timestamptz NOT NULL DEFAULT now(),
    updated_src           text        NOT NULL DEFAULT 'sql',
    CONSTRAINT scheduled_jobs_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT scheduled_jobs_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT scheduled_jobs_project_fkey FOREIGN KEY (tenant_id, project_id) REFERENCES projects (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT scheduled_jobs_task_function_fkey FOREIGN KEY (tenant_id, task_function_id) REFERENCES task_functions (tenant_id, id),
    CONSTRAINT scheduled_jobs_job_type_fkey FOREIGN KEY (job_type) REFERENCES scheduler_job_types (name),
    CONSTRAINT scheduled_jobs_queue_fkey FOREIGN KEY (tenant_id, queue) REFERENCES queues (tenant_id, name),
    CONSTRAINT scheduled_jobs_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,199}$'),
    CONSTRAINT scheduled_jobs_scope_check CHECK (scope IN ('backup_infrastructure', 'system', 'project')),
    CONSTRAINT scheduled_jobs_project_iff_project_scope_check CHECK ((scope = 'project') = (project_id IS NOT NULL)),
    CONSTRAINT scheduled_jobs_task_args_check CHECK (jsonb_typeof(task_args) = 'object'),
    CONSTRAINT scheduled_jobs_schedule_config_check CHECK (jsonb_typeof(schedule_config) = 'object'),
    CONSTRAINT scheduled_jobs_dst_gap_check CHECK (dst_gap IN ('shift', 'skip')),
    CONSTRAINT scheduled_jobs_dst_overlap_check CHECK (dst_overlap IN ('first', 'second', 'both')),
    CONSTRAINT scheduled_jobs_end_after_start_check CHECK (end_at > start_at),
    CONSTRAINT scheduled_jobs_max_runs_check CHECK (max_runs > 0),
    CONSTRAINT scheduled_jobs_jitter_check CHECK (jitter_seconds BETWEEN 0 AND 86400),
    CONSTRAINT scheduled_jobs_misfire_policy_check CHECK (misfire_policy IN ('skip', 'fire_once', 'fire_all')),
    CONSTRAINT scheduled_jobs_misfire_grace_check CHECK (misfire_grace_seconds > 0),
    CONSTRAINT scheduled_jobs_misfire_cap_check CHECK (misfire_cap BETWEEN 1 AND 10000),
    CONSTRAINT scheduled_jobs_max_instances_check CHECK (max_instances BETWEEN 1 AND 10000),
    CONSTRAINT scheduled_jobs_overlap_policy_check CHECK (overlap_policy IN ('skip', 'queue', 'cancel_oldest', 'allow')),
    CONSTRAINT scheduled_jobs_priority_check CHECK (priority BETWEEN 0 AND 100),
    CONSTRAINT scheduled_jobs_timeout_check CHECK (timeout_seconds > 0),
    CONSTRAINT scheduled_jobs_retry_policy_check CHECK (jsonb_typeof(retry_policy) = 'object'),
    CONSTRAINT scheduled_jobs_disabled_reason_check CHECK (disabled_reason IS NULL OR NOT is_enabled),
    CONSTRAINT scheduled_jobs_pause_check CHECK (is_paused OR (pause_reason IS NULL AND paused_until IS NULL)),
    CONSTRAINT scheduled_jobs_next_run_needs_schedule_check CHECK (next_run_at IS NULL OR (job_type <> 'manual' AND deleted_at IS NULL)),
    CONSTRAINT scheduled_jobs_last_status_check CHECK (last_status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED', 'DEAD_LETTER')),
    CONSTRAINT scheduled_jobs_total_run_count_check CHECK (total_run_count >= 0),
    CONSTRAINT scheduled_jobs_active_dispatches_check CHECK (active_dispatches >= 0),
    CONSTRAINT scheduled_jobs_version_check CHECK (version > 0)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX scheduled_jobs_tenant_id_name_key ON scheduled_jobs (tenant_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX scheduled_jobs_singleton_key ON scheduled_jobs (tenant_id, scope, task_function_id)
    WHERE scope <> 'project' AND deleted_at IS NULL;
CREATE INDEX scheduled_jobs_due_idx ON scheduled_jobs (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX scheduled_jobs_project_id_idx ON scheduled_jobs (tenant_id, project_id) WHERE project_id IS NOT NULL;

COMMENT ON TABLE  scheduled_jobs                       IS 'What to run and when; one row holds the settings and the running state of a job.';
COMMENT ON INDEX  scheduled_jobs_due_idx               IS 'The tick reads due jobs through this index and nothing else.';
COMMENT ON COLUMN scheduled_jobs.tenant_id             IS 'Owner.';
COMMENT ON COLUMN scheduled_jobs.id                    IS 'Identifier; time-ordered when made by the API.';
COMMENT ON COLUMN scheduled_jobs.scope                 IS 'backup_infrastructure and system jobs are singletons per task function; project jobs belong to a project.';
COMMENT ON COLUMN scheduled_jobs.project_id            IS 'Project of a project-scoped job; NULL for the other scopes.';
COMMENT ON COLUMN scheduled_jobs.name                  IS 'Stable name, unique in the tenant among jobs that are not deleted.';
COMMENT ON COLUMN scheduled_jobs.description           IS 'Free text.';
COMMENT ON COLUMN scheduled_jobs.task_function_id      IS 'What is run.';
COMMENT ON COLUMN scheduled_jobs.task_args             IS 'Arguments handed to every run; copied into each dispatch.';
COMMENT ON COLUMN scheduled_jobs.job_type              IS 'Kind of schedule.';
COMMENT ON COLUMN scheduled_jobs.schedule_config       IS 'The schedule itself, in the form its kind defines.';
COMMENT ON COLUMN scheduled_jobs.timezone              IS 'IANA zone in which wall-clock schedules are read.';
COMMENT ON COLUMN scheduled_jobs.dst_gap               IS 'What becomes of a wall-clock time that does not exist; NULL means the default of the schedule.';
COMMENT ON COLUMN scheduled_jobs.dst_overlap           IS 'What becomes of a wall-clock time that occurs twice; NULL means the default of the schedule.';
COMMENT ON COLUMN scheduled_jobs.start_at              IS 'No fire before this instant; NULL means no bound. Not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.end_at                IS 'No fire at or after this instant; NULL means no bound. Not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.max_runs              IS 'No fire after this many; NULL means no bound. Not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.jitter_seconds        IS 'Dispatches become available up to this much after the fire time, stable per job and fire time. Not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.misfire_policy        IS 'What becomes of fire times that passed without dispatch: skip them, fire the latest once, or fire all up to the cap.';
COMMENT ON COLUMN scheduled_jobs.misfire_grace_seconds IS 'A fire this late is still on time, in seconds; NULL means the installation default.';
COMMENT ON COLUMN scheduled_jobs.misfire_cap           IS 'Most fires that fire_all catches up at once.';
COMMENT ON COLUMN scheduled_jobs.max_instances         IS 'How many dispatches of the job may be open (waiting or running) at once before overlap_policy applies to its fires; triggers by hand come on top.';
COMMENT ON COLUMN scheduled_jobs.overlap_policy        IS 'What becomes of a fire while max_instances are open. queue and cancel_oldest are not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.queue                 IS 'Queue of its dispatches; NULL means the queue of the function.';
COMMENT ON COLUMN scheduled_jobs.priority              IS 'Priority of its dispatches, 0 first to 100 last; NULL means the default of the queue.';
COMMENT ON COLUMN scheduled_jobs.timeout_seconds       IS 'Longest run of one attempt, in seconds; NULL means the default of the function.';
COMMENT ON COLUMN scheduled_jobs.retry_policy          IS 'Retry policy; NULL means that of the function, else the installation default.';
COMMENT ON COLUMN scheduled_jobs.is_enabled            IS 'False: the schedule does not fire. Manual triggers still work.';
COMMENT ON COLUMN scheduled_jobs.disabled_reason       IS 'Why the scheduler disabled the job; NULL when a person did or while enabled.';
COMMENT ON COLUMN scheduled_jobs.is_paused             IS 'True: the schedule does not fire for a while.';
COMMENT ON COLUMN scheduled_jobs.pause_reason          IS 'Why it is paused, for people; NULL unless paused.';
COMMENT ON COLUMN scheduled_jobs.paused_until          IS 'When the pause ends by itself; NULL means when somebody resumes it. Not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.deleted_at            IS 'When the job was deleted; its history stays and it can be restored.';
COMMENT ON COLUMN scheduled_jobs.next_run_at           IS 'The next fire time: the cursor of the schedule. NULL when nothing will fire (manual, disabled, paused, deleted, over).';
COMMENT ON COLUMN scheduled_jobs.last_run_at           IS 'When the latest finished attempt started.';
COMMENT ON COLUMN scheduled_jobs.last_status           IS 'How the latest finished dispatch ended.';
COMMENT ON COLUMN scheduled_jobs.last_dispatched_at    IS 'When the latest dispatch was created.';
COMMENT ON COLUMN scheduled_jobs.dispatch_lock_until   IS 'No scheduled dispatch before this instant: an operator may hold a job back with it.';
COMMENT ON COLUMN scheduled_jobs.total_run_count       IS 'How many dispatches have been created in all.';
COMMENT ON COLUMN scheduled_jobs.active_dispatches     IS 'How many dispatches are open now; kept in the transactions that open and close them, so that a tick need not count.';
COMMENT ON COLUMN scheduled_jobs.tzdata_version        IS 'Version of the time zone database next_run_at was computed from; NULL for schedules that need none.';
COMMENT ON COLUMN scheduled_jobs.version               IS 'Grows with every change of settings; optimistic concurrency and ETag.';
COMMENT ON COLUMN scheduled_jobs.created_at            IS 'When the job was created, by the database clock.';
COMMENT ON COLUMN scheduled_jobs.created_src           IS 'Which component or whose e-mail wrote the row first.';
COMMENT ON COLUMN scheduled_jobs.updated_at            IS 'When the settings last changed, by the database clock.';
COMMENT ON COLUMN scheduled_jobs.updated_src           IS 'Which component or whose e-mail changed the settings last.';

CREATE TABLE scheduled_job_versions (
    tenant_id   uuid        NOT NULL,
    job_id      uuid        NOT NULL,
    version     bigint      NOT NULL,
    change      text        NOT NULL,
    settings    jsonb       NOT NULL,
    changed_at  timestamptz NOT NULL DEFAULT now(),
    changed_src text        NOT NULL,
    CONSTRAINT scheduled_job_versions_pkey PRIMARY KEY (tenant_id, job_id, version),
    CONSTRAINT scheduled_job_versions_job_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT scheduled_job_versions_version_check CHECK (version > 0),
    CONSTRAINT scheduled_job_versions_change_check CHECK (change IN ('created', 'updated', 'enabled', 'disabled', 'paused', 'resumed', 'deleted', 'restored', 'rolled_back')),
    CONSTRAINT scheduled_job_versions_settings_check CHECK (jsonb_typeof(settings) = 'object')
);
COMMENT ON TABLE  scheduled_job_versions             IS 'The settings of every job as they were after each change; the one before is the row before.';
COMMENT ON COLUMN scheduled_job_versions.tenant_id   IS 'Owner.';
COMMENT ON COLUMN scheduled_job_versions.job_id      IS 'The job.';
COMMENT ON COLUMN scheduled_job_versions.version     IS 'The version these settings made.';
COMMENT ON COLUMN scheduled_job_versions.change      IS 'What kind of change made it.';
COMMENT ON COLUMN scheduled_job_versions.settings    IS 'The settings after the change, in the form the API shows.';
COMMENT ON COLUMN scheduled_job_versions.changed_at  IS 'When, by the database clock.';
COMMENT ON COLUMN scheduled_job_versions.changed_src IS 'Which component or whose e-mail made the change.';

-- Definitions that jobs refer to: task functions and their secrets, kinds of schedule, calendars,
-- templates.

-- A deleted function keeps its row, because deleted jobs keep theirs with their history. Its name
-- can be used again.
CREATE TABLE task_functions (
    tenant_id               uuid        NOT NULL,
    id                      uuid        NOT NULL DEFAULT gen_random_uuid(),
    name                    text        NOT NULL,
    display_name            text        NOT NULL,
    description             text        NOT NULL DEFAULT '',
    handler_type            text        NOT NULL,
    handler_config          jsonb       NOT NULL,
    queue                   text        NOT NULL DEFAULT 'default',
    default_timeout_seconds integer     NOT NULL DEFAULT 300,
    retry_policy            jsonb,
    args_schema             jsonb,
    is_active               boolean     NOT NULL DEFAULT true,
    is_paused               boolean     NOT NULL DEFAULT false,
    is_system               boolean     NOT NULL DEFAULT false,
    created_at              timestamptz NOT NULL DEFAULT now(),
    updated_at              timestamptz NOT NULL DEFAULT now(),
    pause_reason            text,
    deleted_at              timestamptz,
    CONSTRAINT task_functions_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT task_functions_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT task_functions_queue_fkey FOREIGN KEY (tenant_id, queue)
        REFERENCES queues (tenant_id, name),
    CONSTRAINT task_functions_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT task_functions_handler_type_check
        CHECK (handler_type IN ('process', 'http', 'native')),
    CONSTRAINT task_functions_handler_config_check CHECK (jsonb_typeof(handler_config) = 'object'),
    CONSTRAINT task_functions_default_timeout_check CHECK (default_timeout_seconds > 0),
    CONSTRAINT task_functions_retry_policy_check CHECK (jsonb_typeof(retry_policy) = 'object'),
    CONSTRAINT task_functions_pause_reason_check CHECK (pause_reason IS NULL OR is_paused),
    CONSTRAINT task_functions_deleted_is_inactive_check
        CHECK (deleted_at IS NULL OR NOT (is_active OR is_paused OR is_system))
);
CREATE INDEX task_functions_paused_idx ON task_functions (tenant_id, id) WHERE is_paused;
CREATE UNIQUE INDEX task_functions_name_key ON task_functions (tenant_id, name)
    WHERE deleted_at IS NULL;
COMMENT ON TABLE task_functions IS 'Registry of functions that jobs can run.';
COMMENT ON INDEX task_functions_paused_idx IS
    'Paused functions; every claim checks whether one exists.';
COMMENT ON COLUMN task_functions.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN task_functions.id IS 'Random identifier.';
COMMENT ON COLUMN task_functions.name IS
    'Stable name, unique in the tenant among functions that are not deleted; jobs refer to it.';
COMMENT ON COLUMN task_functions.display_name IS 'Display name.';
COMMENT ON COLUMN task_functions.description IS 'Free text.';
COMMENT ON COLUMN task_functions.handler_type IS 'Handler that runs the function on a worker.';
COMMENT ON COLUMN task_functions.handler_config IS
    'Settings of the handler, e.g. program and arguments of a process.';
COMMENT ON COLUMN task_functions.queue IS 'Queue of its runs, unless the job names another.';
COMMENT ON COLUMN task_functions.default_timeout_seconds IS
    'Maximum duration of an attempt, in seconds, unless the job sets one.';
COMMENT ON COLUMN task_functions.retry_policy IS
    'Retry policy of jobs without one; NULL means the installation default.';
COMMENT ON COLUMN task_functions.args_schema IS
    'JSON Schema (2020-12) for the arguments of its jobs, checked when a job is saved or '
    'triggered by hand; NULL accepts all.';
COMMENT ON COLUMN task_functions.is_active IS
    'False accepts no new job and disables existing ones.';
COMMENT ON COLUMN task_functions.is_paused IS
    'Kill switch: while true, no job of the function is dispatched or claimed.';
COMMENT ON COLUMN task_functions.is_system IS 'Built in: cannot be deleted.';
COMMENT ON COLUMN task_functions.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN task_functions.updated_at IS 'Last change, by the database clock.';
COMMENT ON COLUMN task_functions.pause_reason IS
    'Reason of the pause, for people; NULL unless paused.';
COMMENT ON COLUMN task_functions.deleted_at IS
    'Deletion time; NULL while the function exists. Then only deleted jobs refer to it.';

-- The API encrypts values. The keys are in files of the API and the workers and never in the
-- database, so neither a dump nor a backup contains a value.
CREATE TABLE secrets (
    tenant_id   uuid        NOT NULL,
    id          uuid        NOT NULL DEFAULT gen_random_uuid(),
    project_id  uuid,
    name        text        NOT NULL,
    key_id      text        NOT NULL,
    nonce       bytea       NOT NULL,
    ciphertext  bytea       NOT NULL,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now(),
    created_src text        NOT NULL DEFAULT 'sql',
    updated_at  timestamptz NOT NULL DEFAULT now(),
    updated_src text        NOT NULL DEFAULT 'sql',
    CONSTRAINT secrets_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT secrets_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT secrets_project_fkey FOREIGN KEY (tenant_id, project_id)
        REFERENCES projects (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT secrets_name_key UNIQUE NULLS NOT DISTINCT (tenant_id, name, project_id),
    CONSTRAINT secrets_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT secrets_key_id_check CHECK (key_id ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    CONSTRAINT secrets_nonce_check CHECK (length(nonce) = 12),
    -- 1 byte to 64 KiB, and the tag of 16 bytes.
    CONSTRAINT secrets_ciphertext_check CHECK (length(ciphertext) BETWEEN 17 AND 65552),
    CONSTRAINT secrets_version_check CHECK (version > 0)
);
CREATE INDEX secrets_project_id_idx ON secrets (tenant_id, project_id) WHERE project_id IS NOT NULL;
-- Ciphertext does not compress.
ALTER TABLE secrets ALTER COLUMN ciphertext SET STORAGE EXTERNAL;
COMMENT ON TABLE secrets IS
    'Encrypted values that functions name: passwords, tokens, keys. Never shown; only running '
    'attempts receive them.';
COMMENT ON INDEX secrets_project_id_idx IS
    'Secrets to delete with a project; nothing else reads them by project.';
COMMENT ON COLUMN secrets.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN secrets.id IS 'Identifier.';
COMMENT ON COLUMN secrets.project_id IS
    'Project whose jobs may use it; NULL for all jobs of the tenant. A project secret takes '
    'precedence over a tenant secret.';
COMMENT ON COLUMN secrets.name IS
    'Stable name, unique in the project, or among those of the tenant; functions refer to it.';
COMMENT ON COLUMN secrets.key_id IS 'Key of the key file that encrypted it.';
COMMENT ON COLUMN secrets.nonce IS 'Random for every write; not secret.';
COMMENT ON COLUMN secrets.ciphertext IS
    'The value, encrypted and authenticated (ChaCha20-Poly1305) together with tenant, project, '
    'name, key and version.';
COMMENT ON COLUMN secrets.version IS 'Increases with every new value.';
COMMENT ON COLUMN secrets.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN secrets.created_src IS 'Component or e-mail address that created the row.';
COMMENT ON COLUMN secrets.updated_at IS 'Last change of the value, by the database clock.';
COMMENT ON COLUMN secrets.updated_src IS 'Component or e-mail address of the last change.';

CREATE TABLE scheduler_job_types (
    name         text    NOT NULL,
    display_name text    NOT NULL,
    description  text    NOT NULL,
    is_active    boolean NOT NULL DEFAULT true,
    CONSTRAINT scheduler_job_types_pkey PRIMARY KEY (name),
    CONSTRAINT scheduler_job_types_name_check
        CHECK (name IN ('cron', 'interval', 'oneoff', 'manual'))
);
COMMENT ON TABLE scheduler_job_types IS 'Kinds of schedule. An inactive kind accepts no new jobs.';
COMMENT ON COLUMN scheduler_job_types.name IS 'Stable name, used by jobs.';
COMMENT ON COLUMN scheduler_job_types.display_name IS 'Display name.';
COMMENT ON COLUMN scheduler_job_types.description IS
    'Meaning of the kind and the configuration it takes.';
COMMENT ON COLUMN scheduler_job_types.is_active IS
    'False rejects new jobs of this kind; existing jobs continue.';

INSERT INTO scheduler_job_types (name, display_name, description) VALUES
    ('cron', 'Cron', 'At the wall-clock times a crontab expression names, in the zone of the job.'),
    ('interval', 'Interval', 'At a fixed distance from an anchor instant.'),
    ('oneoff', 'One-off', 'Once, at an instant.'),
    ('manual', 'Manual', 'Only when asked.');

-- Jobs name calendars by name, in an array: most jobs have none, so the tick reads nothing more.
-- A statement that writes a job locks its calendars FOR KEY SHARE. A statement that deletes a
-- calendar locks it FOR UPDATE and then checks for jobs. So neither can miss the other.
CREATE TABLE calendars (
    tenant_id   uuid        NOT NULL,
    id          uuid        NOT NULL DEFAULT gen_random_uuid(),
    name        text        NOT NULL,
    description text        NOT NULL DEFAULT '',
    definition  jsonb       NOT NULL,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now(),
    created_src text        NOT NULL DEFAULT 'sql',
    updated_at  timestamptz NOT NULL DEFAULT now(),
    updated_src text        NOT NULL DEFAULT 'sql',
    CONSTRAINT calendars_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT calendars_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT calendars_name_key UNIQUE (tenant_id, name),
    CONSTRAINT calendars_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT calendars_definition_check CHECK (jsonb_typeof(definition) = 'object'),
    CONSTRAINT calendars_version_check CHECK (version > 0)
);
COMMENT ON TABLE calendars IS
    'Named sets of local dates and windows (holidays, freezes) on which the jobs that name them '
    'do not fire.';
COMMENT ON COLUMN calendars.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN calendars.id IS 'Identifier.';
COMMENT ON COLUMN calendars.name IS 'Stable name, unique in the tenant; jobs refer to it.';
COMMENT ON COLUMN calendars.description IS 'Free text.';
COMMENT ON COLUMN calendars.definition IS
    'Exclusions: dates, yearly, weekly, windows, rules (RFC 5545), except; and the time zone.';
COMMENT ON COLUMN calendars.version IS 'Increases with every change.';
COMMENT ON COLUMN calendars.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN calendars.created_src IS 'Component or e-mail address that created the row.';
COMMENT ON COLUMN calendars.updated_at IS 'Last change, by the database clock.';
COMMENT ON COLUMN calendars.updated_src IS 'Component or e-mail address of the last change.';

CREATE TABLE job_templates (
    tenant_id   uuid        NOT NULL,
    id          uuid        NOT NULL DEFAULT gen_random_uuid(),
    name        text        NOT NULL,
    description text        NOT NULL DEFAULT '',
    parameters  jsonb       NOT NULL,
    job         jsonb       NOT NULL,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_src text        NOT NULL DEFAULT 'sql',
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_src text        NOT NULL DEFAULT 'sql',
    CONSTRAINT job_templates_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT job_templates_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT job_templates_name_key UNIQUE (tenant_id, name),
    CONSTRAINT job_templates_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT job_templates_parameters_check CHECK (jsonb_typeof(parameters) = 'object'),
    CONSTRAINT job_templates_job_check CHECK (jsonb_typeof(job) = 'object'),
    CONSTRAINT job_templates_version_check CHECK (version > 0)
);
COMMENT ON TABLE job_templates IS
    'Job skeletons with parameters. A job records its template and does not depend on it.';
COMMENT ON COLUMN job_templates.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN job_templates.id IS 'Identifier.';
COMMENT ON COLUMN job_templates.name IS 'Stable name, unique in the tenant.';
COMMENT ON COLUMN job_templates.description IS 'Free text.';
COMMENT ON COLUMN job_templates.parameters IS
    'Parameters by name, each with type, default, choices, and whether it is required.';
COMMENT ON COLUMN job_templates.job IS
    'Fields of the job, in which {{name}} is replaced by the value of a parameter.';
COMMENT ON COLUMN job_templates.version IS 'Increases with every change.';
COMMENT ON COLUMN job_templates.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN job_templates.created_src IS 'Component or e-mail address that created the row.';
COMMENT ON COLUMN job_templates.updated_at IS 'Last change, by the database clock.';
COMMENT ON COLUMN job_templates.updated_src IS 'Component or e-mail address of the last change.';

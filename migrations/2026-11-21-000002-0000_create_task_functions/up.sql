-- What can be run (task_functions), where it waits (queues), and which kinds of schedule exist.

CREATE TABLE queues (
    tenant_id        uuid        NOT NULL,
    name             text        NOT NULL,
    description      text        NOT NULL DEFAULT '',
    is_paused        boolean     NOT NULL DEFAULT false,
    pause_reason     text,
    max_running      integer,
    rate_limit_count integer,
    rate_limit_period_seconds integer,
    default_priority smallint    NOT NULL DEFAULT 50,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT queues_pkey PRIMARY KEY (tenant_id, name),
    CONSTRAINT queues_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT queues_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT queues_pause_reason_check CHECK (pause_reason IS NULL OR is_paused),
    CONSTRAINT queues_max_running_check CHECK (max_running > 0),
    CONSTRAINT queues_rate_limit_check CHECK ((rate_limit_count IS NULL) = (rate_limit_period_seconds IS NULL)
        AND (rate_limit_count > 0) AND (rate_limit_period_seconds > 0)),
    CONSTRAINT queues_default_priority_check CHECK (default_priority BETWEEN 0 AND 100)
);
COMMENT ON TABLE  queues                  IS 'Named lines in which dispatches wait. A worker serves queues by name, for all tenants.';
COMMENT ON COLUMN queues.tenant_id        IS 'Owner.';
COMMENT ON COLUMN queues.name             IS 'Stable name, unique in the tenant.';
COMMENT ON COLUMN queues.description      IS 'Free text.';
COMMENT ON COLUMN queues.is_paused        IS 'Kill switch: while true nothing is claimed from this queue.';
COMMENT ON COLUMN queues.pause_reason     IS 'Why it is paused, for people; NULL unless paused.';
COMMENT ON COLUMN queues.max_running      IS 'How many dispatches of the queue may run at once; NULL means no limit. Not in effect yet.';
COMMENT ON COLUMN queues.rate_limit_count IS 'How many dispatches may be claimed per period; NULL means no limit. Not in effect yet.';
COMMENT ON COLUMN queues.rate_limit_period_seconds IS 'Length of the rate-limit period, in seconds. Not in effect yet.';
COMMENT ON COLUMN queues.default_priority IS 'Priority of dispatches whose job names none; 0 runs first, 100 last.';
COMMENT ON COLUMN queues.created_at       IS 'When the row was written, by the database clock.';
COMMENT ON COLUMN queues.updated_at       IS 'When the row was last changed, by the database clock.';

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
    CONSTRAINT task_functions_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT task_functions_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT task_functions_queue_fkey FOREIGN KEY (tenant_id, queue) REFERENCES queues (tenant_id, name),
    CONSTRAINT task_functions_name_key UNIQUE (tenant_id, name),
    CONSTRAINT task_functions_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT task_functions_handler_type_check CHECK (handler_type IN ('process', 'http', 'native', 'celery', 'sql')),
    CONSTRAINT task_functions_handler_config_check CHECK (jsonb_typeof(handler_config) = 'object'),
    CONSTRAINT task_functions_default_timeout_check CHECK (default_timeout_seconds > 0),
    CONSTRAINT task_functions_retry_policy_check CHECK (jsonb_typeof(retry_policy) = 'object')
);
COMMENT ON TABLE  task_functions                IS 'Registry of what jobs can run.';
COMMENT ON COLUMN task_functions.tenant_id      IS 'Owner.';
COMMENT ON COLUMN task_functions.id             IS 'Random identifier.';
COMMENT ON COLUMN task_functions.name           IS 'Stable name, unique in the tenant; jobs refer to it.';
COMMENT ON COLUMN task_functions.display_name   IS 'Name shown to people.';
COMMENT ON COLUMN task_functions.description    IS 'Free text.';
COMMENT ON COLUMN task_functions.handler_type   IS 'How a worker runs it.';
COMMENT ON COLUMN task_functions.handler_config IS 'Settings of the handler, e.g. program and arguments of a process.';
COMMENT ON COLUMN task_functions.queue          IS 'Queue of its dispatches unless the job names another.';
COMMENT ON COLUMN task_functions.default_timeout_seconds IS 'Longest run of one attempt, in seconds, unless the job says otherwise.';
COMMENT ON COLUMN task_functions.retry_policy   IS 'Retry policy of jobs that have none of their own; NULL means the installation default.';
COMMENT ON COLUMN task_functions.args_schema    IS 'JSON Schema that the arguments of its jobs must satisfy; NULL accepts all. Not in effect yet.';
COMMENT ON COLUMN task_functions.is_active      IS 'False accepts no new job and disables those it has.';
COMMENT ON COLUMN task_functions.is_paused      IS 'Kill switch: while true no job of this function is dispatched.';
COMMENT ON COLUMN task_functions.is_system      IS 'Built in: cannot be deleted.';
COMMENT ON COLUMN task_functions.created_at     IS 'When the row was written, by the database clock.';
COMMENT ON COLUMN task_functions.updated_at     IS 'When the row was last changed, by the database clock.';

CREATE TABLE scheduler_job_types (
    name         text    NOT NULL,
    display_name text    NOT NULL,
    description  text    NOT NULL,
    is_active    boolean NOT NULL DEFAULT true,
    CONSTRAINT scheduler_job_types_pkey PRIMARY KEY (name),
    CONSTRAINT scheduler_job_types_name_check CHECK (name IN ('cron', 'interval', 'oneoff', 'manual'))
);
COMMENT ON TABLE  scheduler_job_types              IS 'Kinds of schedule. An inactive kind accepts no new jobs.';
COMMENT ON COLUMN scheduler_job_types.name         IS 'The kind, as jobs name it.';
COMMENT ON COLUMN scheduler_job_types.display_name IS 'Name shown to people.';
COMMENT ON COLUMN scheduler_job_types.description  IS 'What the kind means and which configuration it takes.';
COMMENT ON COLUMN scheduler_job_types.is_active    IS 'False accepts no new job of this kind; existing ones go on.';

INSERT INTO scheduler_job_types (name, display_name, description) VALUES
    ('cron',     'Cron',     'At the wall-clock times a crontab expression names, in the zone of the job.'),
    ('interval', 'Interval', 'At a fixed distance from an anchor instant.'),
    ('oneoff',   'One-off',  'Once, at an instant.'),
    ('manual',   'Manual',   'Only when asked.');

-- Templates (JOB-13): skeletons of jobs with places for parameters. A new table only, small and seldom written.
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
    CONSTRAINT job_templates_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT job_templates_name_key UNIQUE (tenant_id, name),
    CONSTRAINT job_templates_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT job_templates_parameters_check CHECK (jsonb_typeof(parameters) = 'object'),
    CONSTRAINT job_templates_job_check CHECK (jsonb_typeof(job) = 'object'),
    CONSTRAINT job_templates_version_check CHECK (version > 0)
);
COMMENT ON TABLE  job_templates             IS 'Skeletons of jobs with places for parameters, from which jobs are made. A job names the one it was made from and does not depend on it.';
COMMENT ON COLUMN job_templates.tenant_id   IS 'Owner.';
COMMENT ON COLUMN job_templates.id          IS 'Identifier.';
COMMENT ON COLUMN job_templates.name        IS 'Stable name, unique in the tenant.';
COMMENT ON COLUMN job_templates.description IS 'Free text.';
COMMENT ON COLUMN job_templates.parameters  IS 'What may be said of a job that is made from it: for each name its type, default, choices, and whether it must be said.';
COMMENT ON COLUMN job_templates.job         IS 'The fields of a job, in which {{name}} stands for the value of a parameter.';
COMMENT ON COLUMN job_templates.version     IS 'Grows with every change.';
COMMENT ON COLUMN job_templates.created_at  IS 'When it was created, by the database clock.';
COMMENT ON COLUMN job_templates.created_src IS 'Which component or whose e-mail wrote the row first.';
COMMENT ON COLUMN job_templates.updated_at  IS 'When it last changed, by the database clock.';
COMMENT ON COLUMN job_templates.updated_src IS 'Which component or whose e-mail changed it last.';

SELECT isolate_tenants('job_templates');
GRANT SELECT, INSERT, UPDATE, DELETE ON job_templates TO sched_api, sched_daemon;

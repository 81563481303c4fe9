-- Calendars: named sets of dates and windows on which jobs that name them do not fire (JOB-5), and what a job needs besides
-- to keep exact books about them.
--
-- A job names calendars by name, in an array: most jobs have none, and the tick then reads nothing more than it did. Who
-- writes a job locks the calendars it names (FOR KEY SHARE), who deletes one locks it (FOR UPDATE) and looks for jobs: so
-- neither can slip past the other.

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
    CONSTRAINT calendars_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT calendars_name_key UNIQUE (tenant_id, name),
    CONSTRAINT calendars_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT calendars_definition_check CHECK (jsonb_typeof(definition) = 'object'),
    CONSTRAINT calendars_version_check CHECK (version > 0)
);
COMMENT ON TABLE  calendars             IS 'Named sets of local dates and windows on which the jobs that name them do not fire: holidays, freezes.';
COMMENT ON COLUMN calendars.tenant_id   IS 'Owner.';
COMMENT ON COLUMN calendars.id          IS 'Identifier.';
COMMENT ON COLUMN calendars.name        IS 'Stable name, unique in the tenant; jobs refer to it.';
COMMENT ON COLUMN calendars.description IS 'Free text.';
COMMENT ON COLUMN calendars.definition  IS 'What it excludes: dates, yearly, weekly, windows, rules (RFC 5545), except, and its time zone.';
COMMENT ON COLUMN calendars.version     IS 'Grows with every change.';
COMMENT ON COLUMN calendars.created_at  IS 'When it was created, by the database clock.';
COMMENT ON COLUMN calendars.created_src IS 'Which component or whose e-mail wrote the row first.';
COMMENT ON COLUMN calendars.updated_at  IS 'When it last changed, by the database clock.';
COMMENT ON COLUMN calendars.updated_src IS 'Which component or whose e-mail changed it last.';

-- Constant defaults: no row is rewritten. `now()` is evaluated once, when the column is added.
ALTER TABLE scheduled_jobs
    ADD COLUMN calendars                 text[]      NOT NULL DEFAULT '{}',
    ADD COLUMN calendar_roll             text        NOT NULL DEFAULT 'skip',
    ADD COLUMN expected_duration_seconds integer,
    ADD COLUMN settled_until             timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN fired_count               bigint      NOT NULL DEFAULT 0,
    ADD CONSTRAINT scheduled_jobs_calendars_check CHECK (array_position(calendars, NULL) IS NULL) NOT VALID,
    ADD CONSTRAINT scheduled_jobs_calendar_roll_check
        CHECK (calendar_roll IN ('skip', 'next_business_day', 'previous_business_day')) NOT VALID,
    ADD CONSTRAINT scheduled_jobs_expected_duration_check CHECK (expected_duration_seconds > 0) NOT VALID,
    ADD CONSTRAINT scheduled_jobs_fired_count_check CHECK (fired_count >= 0) NOT VALID;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_calendars_check;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_calendar_roll_check;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_expected_duration_check;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_fired_count_check;

-- What is due has not had its fate.
UPDATE scheduled_jobs SET settled_until = next_run_at - interval '1 microsecond' WHERE next_run_at <= now();

COMMENT ON COLUMN scheduled_jobs.calendars                 IS 'Names of calendars; a fire time that one of them excludes is rolled or skipped.';
COMMENT ON COLUMN scheduled_jobs.calendar_roll             IS 'What becomes of an excluded fire: skipped, or moved to the same time of the next or previous day that is not excluded.';
COMMENT ON COLUMN scheduled_jobs.expected_duration_seconds IS 'How long a run is expected to take, for simulations; NULL means unknown.';
COMMENT ON COLUMN scheduled_jobs.settled_until             IS 'Every fire time up to and including this instant has its dispatch or its skip record.';
COMMENT ON COLUMN scheduled_jobs.fired_count               IS 'How many fire times the schedule has dispatched; max_runs bounds it.';
COMMENT ON COLUMN scheduled_jobs.start_at                  IS 'No fire before this instant; NULL means no bound.';
COMMENT ON COLUMN scheduled_jobs.end_at                    IS 'No fire at or after this instant; NULL means no bound.';
COMMENT ON COLUMN scheduled_jobs.max_runs                  IS 'No fire after this many; NULL means no bound.';
COMMENT ON COLUMN scheduled_jobs.jitter_seconds            IS 'Dispatches become available up to this much after the fire time, stable per job and fire time.';

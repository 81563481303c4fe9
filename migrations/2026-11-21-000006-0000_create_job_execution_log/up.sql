-- History of attempts and their output, partitioned by month: retention drops tables instead of deleting rows.
-- Two indexes: history costs the completion 15 to 20 percent per two more (measured), so that is all.
-- The same two tables stand in schema `maintenance` for backup_infrastructure jobs (TEN-5): restoring the main schema
-- must not rewrite the record of its own backup.

CREATE SCHEMA maintenance;
COMMENT ON SCHEMA maintenance IS 'History of the jobs that back up and restore the main schema.';

CREATE TABLE job_execution_log (
    id             uuid        NOT NULL,
    tenant_id      uuid        NOT NULL,
    project_id     uuid,
    job_id         uuid        NOT NULL,
    dispatch_id    uuid        NOT NULL,
    attempt        integer     NOT NULL,
    status         text        NOT NULL,
    scheduled_for  timestamptz NOT NULL,
    started_at     timestamptz NOT NULL,
    completed_at   timestamptz NOT NULL,
    duration_ms    bigint      NOT NULL,
    exit_code      integer,
    result         jsonb,
    error_class    text,
    error_message  text,
    traceback      text,
    metrics        jsonb,
    output_bytes   bigint      NOT NULL DEFAULT 0,
    worker_id      uuid,
    claim_token    bigint      NOT NULL,
    triggered_by   text        NOT NULL,
    CONSTRAINT job_execution_log_pkey PRIMARY KEY (tenant_id, id, started_at),
    CONSTRAINT job_execution_log_attempt_check CHECK (attempt > 0),
    CONSTRAINT job_execution_log_status_check CHECK (status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED', 'LOST', 'RELEASED')),
    CONSTRAINT job_execution_log_completed_after_started_check CHECK (completed_at >= started_at),
    CONSTRAINT job_execution_log_duration_check CHECK (duration_ms >= 0),
    CONSTRAINT job_execution_log_completed_has_no_error_check CHECK (status <> 'COMPLETED' OR error_message IS NULL)
) PARTITION BY RANGE (started_at);
CREATE INDEX job_execution_log_job_id_idx ON job_execution_log (tenant_id, job_id, id);
CREATE TABLE job_execution_log_default PARTITION OF job_execution_log DEFAULT;

COMMENT ON TABLE  job_execution_log                IS 'History: one row per finished attempt of system and project jobs, by month of its start. It outlives the dispatch and the job, so it refers to them by value.';
COMMENT ON TABLE  job_execution_log_default        IS 'Attempts of months that have no partition of their own yet.';
COMMENT ON COLUMN job_execution_log.id             IS 'Time-ordered identifier of the attempt (UUID version 7, from the database clock).';
COMMENT ON COLUMN job_execution_log.tenant_id      IS 'Owner.';
COMMENT ON COLUMN job_execution_log.project_id     IS 'Project of the job; NULL for jobs of other scopes.';
COMMENT ON COLUMN job_execution_log.job_id         IS 'The job.';
COMMENT ON COLUMN job_execution_log.dispatch_id    IS 'The dispatch.';
COMMENT ON COLUMN job_execution_log.attempt        IS 'Attempts of a dispatch are numbered 1 to n without gaps.';
COMMENT ON COLUMN job_execution_log.status         IS 'How it ended. LOST: its worker was given up. RELEASED: its worker stopped and gave it back.';
COMMENT ON COLUMN job_execution_log.scheduled_for  IS 'The fire time, or when the trigger was made.';
COMMENT ON COLUMN job_execution_log.started_at     IS 'When it started, by the database clock.';
COMMENT ON COLUMN job_execution_log.completed_at   IS 'When it ended, by the database clock.';
COMMENT ON COLUMN job_execution_log.duration_ms    IS 'How long it ran in milliseconds, by the monotonic clock of the worker (of the database for LOST).';
COMMENT ON COLUMN job_execution_log.exit_code      IS 'Exit code of a process, or HTTP status.';
COMMENT ON COLUMN job_execution_log.result         IS 'What the handler returned.';
COMMENT ON COLUMN job_execution_log.error_class    IS 'Kind of error, stable for programs.';
COMMENT ON COLUMN job_execution_log.error_message  IS 'What went wrong, for people.';
COMMENT ON COLUMN job_execution_log.traceback      IS 'Where it went wrong, if the handler could tell.';
COMMENT ON COLUMN job_execution_log.metrics        IS 'Figures the handler reported.';
COMMENT ON COLUMN job_execution_log.output_bytes   IS 'How much output it wrote in all, kept or not.';
COMMENT ON COLUMN job_execution_log.worker_id      IS 'The worker.';
COMMENT ON COLUMN job_execution_log.claim_token    IS 'Token of the claim it ran under.';
COMMENT ON COLUMN job_execution_log.triggered_by   IS 'What created the dispatch.';

CREATE TABLE job_execution_output (
    tenant_id     uuid        NOT NULL,
    execution_id  uuid        NOT NULL,
    started_at    timestamptz NOT NULL,
    stream        text        NOT NULL,
    chunk         integer     NOT NULL,
    content       text        NOT NULL,
    dropped_bytes bigint      NOT NULL DEFAULT 0,
    written_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT job_execution_output_pkey PRIMARY KEY (tenant_id, execution_id, stream, chunk, started_at),
    CONSTRAINT job_execution_output_stream_check CHECK (stream IN ('stdout', 'stderr', 'log')),
    CONSTRAINT job_execution_output_chunk_check CHECK (chunk >= 0),
    CONSTRAINT job_execution_output_dropped_bytes_check CHECK (dropped_bytes >= 0)
) PARTITION BY RANGE (started_at);
CREATE TABLE job_execution_output_default PARTITION OF job_execution_output DEFAULT;

COMMENT ON TABLE  job_execution_output               IS 'What attempts of system and project jobs wrote, in chunks, by month of their start.';
COMMENT ON TABLE  job_execution_output_default       IS 'Output of months that have no partition of their own yet.';
COMMENT ON COLUMN job_execution_output.tenant_id     IS 'Owner.';
COMMENT ON COLUMN job_execution_output.execution_id  IS 'The attempt.';
COMMENT ON COLUMN job_execution_output.started_at    IS 'When the attempt started; decides the partition.';
COMMENT ON COLUMN job_execution_output.stream        IS 'Where it was written.';
COMMENT ON COLUMN job_execution_output.chunk         IS 'Position in the stream, from 0.';
COMMENT ON COLUMN job_execution_output.content       IS 'The text; bytes that are not UTF-8, and NUL, are replaced.';
COMMENT ON COLUMN job_execution_output.dropped_bytes IS 'How many bytes between this chunk and the one before were not kept.';
COMMENT ON COLUMN job_execution_output.written_at    IS 'When the row was written, by the database clock.';

CREATE TABLE maintenance.job_execution_log (
    id             uuid        NOT NULL,
    tenant_id      uuid        NOT NULL,
    project_id     uuid,
    job_id         uuid        NOT NULL,
    dispatch_id    uuid        NOT NULL,
    attempt        integer     NOT NULL,
    status         text        NOT NULL,
    scheduled_for  timestamptz NOT NULL,
    started_at     timestamptz NOT NULL,
    completed_at   timestamptz NOT NULL,
    duration_ms    bigint      NOT NULL,
    exit_code      integer,
    result         jsonb,
    error_class    text,
    error_message  text,
    traceback      text,
    metrics        jsonb,
    output_bytes   bigint      NOT NULL DEFAULT 0,
    worker_id      uuid,
    claim_token    bigint      NOT NULL,
    triggered_by   text        NOT NULL,
    CONSTRAINT job_execution_log_pkey PRIMARY KEY (tenant_id, id, started_at),
    CONSTRAINT job_execution_log_attempt_check CHECK (attempt > 0),
    CONSTRAINT job_execution_log_status_check CHECK (status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED', 'LOST', 'RELEASED')),
    CONSTRAINT job_execution_log_completed_after_started_check CHECK (completed_at >= started_at),
    CONSTRAINT job_execution_log_duration_check CHECK (duration_ms >= 0),
    CONSTRAINT job_execution_log_completed_has_no_error_check CHECK (status <> 'COMPLETED' OR error_message IS NULL)
) PARTITION BY RANGE (started_at);
CREATE INDEX job_execution_log_job_id_idx ON maintenance.job_execution_log (tenant_id, job_id, id);
CREATE TABLE maintenance.job_execution_log_default PARTITION OF maintenance.job_execution_log DEFAULT;

COMMENT ON TABLE  maintenance.job_execution_log                IS 'History: one row per finished attempt of backup_infrastructure jobs, by month of its start. It outlives the dispatch and the job, so it refers to them by value.';
COMMENT ON TABLE  maintenance.job_execution_log_default        IS 'Attempts of months that have no partition of their own yet.';
COMMENT ON COLUMN maintenance.job_execution_log.id             IS 'Time-ordered identifier of the attempt (UUID version 7, from the database clock).';
COMMENT ON COLUMN maintenance.job_execution_log.tenant_id      IS 'Owner.';
COMMENT ON COLUMN maintenance.job_execution_log.project_id     IS 'Project of the job; NULL for jobs of other scopes.';
COMMENT ON COLUMN maintenance.job_execution_log.job_id         IS 'The job.';
COMMENT ON COLUMN maintenance.job_execution_log.dispatch_id    IS 'The dispatch.';
COMMENT ON COLUMN maintenance.job_execution_log.attempt        IS 'Attempts of a dispatch are numbered 1 to n without gaps.';
COMMENT ON COLUMN maintenance.job_execution_log.status         IS 'How it ended. LOST: its worker was given up. RELEASED: its worker stopped and gave it back.';
COMMENT ON COLUMN maintenance.job_execution_log.scheduled_for  IS 'The fire time, or when the trigger was made.';
COMMENT ON COLUMN maintenance.job_execution_log.started_at     IS 'When it started, by the database clock.';
COMMENT ON COLUMN maintenance.job_execution_log.completed_at   IS 'When it ended, by the database clock.';
COMMENT ON COLUMN maintenance.job_execution_log.duration_ms    IS 'How long it ran in milliseconds, by the monotonic clock of the worker (of the database for LOST).';
COMMENT ON COLUMN maintenance.job_execution_log.exit_code      IS 'Exit code of a process, or HTTP status.';
COMMENT ON COLUMN maintenance.job_execution_log.result         IS 'What the handler returned.';
COMMENT ON COLUMN maintenance.job_execution_log.error_class    IS 'Kind of error, stable for programs.';
COMMENT ON COLUMN maintenance.job_execution_log.error_message  IS 'What went wrong, for people.';
COMMENT ON COLUMN maintenance.job_execution_log.traceback      IS 'Where it went wrong, if the handler could tell.';
COMMENT ON COLUMN maintenance.job_execution_log.metrics        IS 'Figures the handler reported.';
COMMENT ON COLUMN maintenance.job_execution_log.output_bytes   IS 'How much output it wrote in all, kept or not.';
COMMENT ON COLUMN maintenance.job_execution_log.worker_id      IS 'The worker.';
COMMENT ON COLUMN maintenance.job_execution_log.claim_token    IS 'Token of the claim it ran under.';
COMMENT ON COLUMN maintenance.job_execution_log.triggered_by   IS 'What created the dispatch.';

CREATE TABLE maintenance.job_execution_output (
    tenant_id     uuid        NOT NULL,
    execution_id  uuid        NOT NULL,
    started_at    timestamptz NOT NULL,
    stream        text        NOT NULL,
    chunk         integer     NOT NULL,
    content       text        NOT NULL,
    dropped_bytes bigint      NOT NULL DEFAULT 0,
    written_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT job_execution_output_pkey PRIMARY KEY (tenant_id, execution_id, stream, chunk, started_at),
    CONSTRAINT job_execution_output_stream_check CHECK (stream IN ('stdout', 'stderr', 'log')),
    CONSTRAINT job_execution_output_chunk_check CHECK (chunk >= 0),
    CONSTRAINT job_execution_output_dropped_bytes_check CHECK (dropped_bytes >= 0)
) PARTITION BY RANGE (started_at);
CREATE TABLE maintenance.job_execution_output_default PARTITION OF maintenance.job_execution_output DEFAULT;

COMMENT ON TABLE  maintenance.job_execution_output               IS 'What attempts of backup_infrastructure jobs wrote, in chunks, by month of their start.';
COMMENT ON TABLE  maintenance.job_execution_output_default       IS 'Output of months that have no partition of their own yet.';
COMMENT ON COLUMN maintenance.job_execution_output.tenant_id     IS 'Owner.';
COMMENT ON COLUMN maintenance.job_execution_output.execution_id  IS 'The attempt.';
COMMENT ON COLUMN maintenance.job_execution_output.started_at    IS 'When the attempt started; decides the partition.';
COMMENT ON COLUMN maintenance.job_execution_output.stream        IS 'Where it was written.';
COMMENT ON COLUMN maintenance.job_execution_output.chunk         IS 'Position in the stream, from 0.';
COMMENT ON COLUMN maintenance.job_execution_output.content       IS 'The text; bytes that are not UTF-8, and NUL, are replaced.';
COMMENT ON COLUMN maintenance.job_execution_output.dropped_bytes IS 'How many bytes between this chunk and the one before were not kept.';
COMMENT ON COLUMN maintenance.job_execution_output.written_at    IS 'When the row was written, by the database clock.';

-- The months around now; the scheduler makes those that follow (db::partitions).
DO $$
DECLARE
    parent text;
    first  timestamptz;
BEGIN
    FOREACH parent IN ARRAY ARRAY['job_execution_log', 'job_execution_output', 'maintenance.job_execution_log', 'maintenance.job_execution_output'] LOOP
        FOR ahead IN 0..3 LOOP
            first := (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => ahead)) AT TIME ZONE 'UTC';
            EXECUTE format('CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%L) TO (%L)',
                parent || to_char(first AT TIME ZONE 'UTC', '"_y"YYYY"m"MM'), parent, first,
                (first AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
        END LOOP;
    END LOOP;
END $$;

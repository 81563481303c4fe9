-- History of attempts and their output, by month: retention drops tables instead of deleting rows.
-- Two indexes of every row only, because a further one costs each completion. Attempts without
-- success have a third one: a successful attempt costs the check of its condition.
-- The schema maintenance has the same two tables for backup_infrastructure jobs.

CREATE TABLE job_execution_log (
    id            uuid        NOT NULL,
    tenant_id     uuid        NOT NULL,
    project_id    uuid,
    job_id        uuid        NOT NULL,
    dispatch_id   uuid        NOT NULL,
    attempt       integer     NOT NULL,
    status        text        NOT NULL,
    scheduled_for timestamptz NOT NULL,
    started_at    timestamptz NOT NULL,
    completed_at  timestamptz NOT NULL,
    duration_ms   bigint      NOT NULL,
    exit_code     integer,
    result        jsonb,
    error_class   text,
    error_message text,
    traceback     text,
    metrics       jsonb,
    output_bytes  bigint      NOT NULL DEFAULT 0,
    worker_id     uuid,
    claim_token   bigint      NOT NULL,
    triggered_by  text        NOT NULL,
    CONSTRAINT job_execution_log_pkey PRIMARY KEY (tenant_id, id, started_at),
    CONSTRAINT job_execution_log_attempt_check CHECK (attempt > 0),
    CONSTRAINT job_execution_log_status_check
        CHECK (status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED', 'LOST', 'RELEASED',
            'EXPIRED')),
    CONSTRAINT job_execution_log_completed_after_started_check CHECK (completed_at >= started_at),
    CONSTRAINT job_execution_log_duration_check CHECK (duration_ms >= 0),
    CONSTRAINT job_execution_log_completed_has_no_error_check
        CHECK (status <> 'COMPLETED' OR error_message IS NULL)
) PARTITION BY RANGE (started_at);
CREATE INDEX job_execution_log_job_id_idx ON job_execution_log (tenant_id, job_id, id);
CREATE INDEX job_execution_log_unsuccessful_idx ON job_execution_log (tenant_id, status, id)
    WHERE status <> 'COMPLETED';
COMMENT ON INDEX job_execution_log_unsuccessful_idx IS
    'Attempts without success by their status, of which a tenant may have none among millions.';
CREATE TABLE job_execution_log_default PARTITION OF job_execution_log DEFAULT;
COMMENT ON TABLE job_execution_log IS
    'Attempts of system and project jobs, one row per finished attempt, by month of the start. '
    'They outlive run and job, so there are no foreign keys.';
COMMENT ON TABLE job_execution_log_default IS 'Attempts of months without a partition.';
COMMENT ON COLUMN job_execution_log.id IS
    'Time-ordered identifier of the attempt (UUID version 7, from the database clock).';
COMMENT ON COLUMN job_execution_log.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN job_execution_log.project_id IS
    'Project of the job; NULL for jobs of other scopes.';
COMMENT ON COLUMN job_execution_log.job_id IS 'The job.';
COMMENT ON COLUMN job_execution_log.dispatch_id IS 'The run.';
COMMENT ON COLUMN job_execution_log.attempt IS
    'Number of the attempt within its run, from 1 without gaps.';
COMMENT ON COLUMN job_execution_log.status IS
    'Outcome. LOST: the leader gave its worker up. RELEASED: its worker stopped and returned it. '
    'EXPIRED: no attempt began in time, so the row is a record of the run, without a worker.';
COMMENT ON COLUMN job_execution_log.scheduled_for IS 'Fire time, or trigger time.';
COMMENT ON COLUMN job_execution_log.started_at IS 'Start, by the database clock.';
COMMENT ON COLUMN job_execution_log.completed_at IS 'End, by the database clock.';
COMMENT ON COLUMN job_execution_log.duration_ms IS
    'Duration in milliseconds, by the worker''s monotonic clock (by the database clock for LOST).';
COMMENT ON COLUMN job_execution_log.exit_code IS 'Exit code of a process, or HTTP status.';
COMMENT ON COLUMN job_execution_log.result IS 'Result of the handler.';
COMMENT ON COLUMN job_execution_log.error_class IS 'Stable error class, for programs.';
COMMENT ON COLUMN job_execution_log.error_message IS 'Error message, for people.';
COMMENT ON COLUMN job_execution_log.traceback IS
    'Location of the error, if the handler reported one.';
COMMENT ON COLUMN job_execution_log.metrics IS 'Metrics reported by the handler.';
COMMENT ON COLUMN job_execution_log.output_bytes IS 'Output written in all, kept or not, in bytes.';
COMMENT ON COLUMN job_execution_log.worker_id IS 'The worker.';
COMMENT ON COLUMN job_execution_log.claim_token IS 'Claim token of the attempt.';
COMMENT ON COLUMN job_execution_log.triggered_by IS 'Origin of the run.';

CREATE TABLE job_execution_output (
    tenant_id     uuid        NOT NULL,
    execution_id  uuid        NOT NULL,
    started_at    timestamptz NOT NULL,
    stream        text        NOT NULL,
    chunk         integer     NOT NULL,
    content       text        NOT NULL,
    dropped_bytes bigint      NOT NULL DEFAULT 0,
    written_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT job_execution_output_pkey
        PRIMARY KEY (tenant_id, execution_id, stream, chunk, started_at),
    CONSTRAINT job_execution_output_stream_check CHECK (stream IN ('stdout', 'stderr', 'log')),
    CONSTRAINT job_execution_output_chunk_check CHECK (chunk >= 0),
    CONSTRAINT job_execution_output_dropped_bytes_check CHECK (dropped_bytes >= 0)
) PARTITION BY RANGE (started_at);
CREATE TABLE job_execution_output_default PARTITION OF job_execution_output DEFAULT;
COMMENT ON TABLE job_execution_output IS
    'Output of attempts of system and project jobs, in chunks, by month of their start.';
COMMENT ON TABLE job_execution_output_default IS 'Output of months without a partition.';
COMMENT ON COLUMN job_execution_output.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN job_execution_output.execution_id IS 'The attempt.';
COMMENT ON COLUMN job_execution_output.started_at IS 'Start of the attempt; decides the partition.';
COMMENT ON COLUMN job_execution_output.stream IS 'Output stream.';
COMMENT ON COLUMN job_execution_output.chunk IS 'Position in the stream, from 0.';
COMMENT ON COLUMN job_execution_output.content IS
    'Text; NUL and bytes that are not UTF-8 are replaced.';
COMMENT ON COLUMN job_execution_output.dropped_bytes IS
    'Bytes dropped between the previous chunk and this one.';
COMMENT ON COLUMN job_execution_output.written_at IS 'Write time, by the database clock.';

-- Written by the count of ends (uncounted_ends), exactly once for each attempt, and by the expiry of
-- runs, so that totals need no read of the history. Four slots, so that counts of several
-- processes rarely wait for each other. No foreign key: the end of an attempt of a deleted tenant must not stop a
-- count.
CREATE TABLE attempt_minutes (
    tenant_id   uuid        NOT NULL,
    minute      timestamptz NOT NULL,
    status      text        NOT NULL,
    slot        smallint    NOT NULL,
    attempts    bigint      NOT NULL,
    duration_ms bigint      NOT NULL,
    CONSTRAINT attempt_minutes_pkey PRIMARY KEY (tenant_id, minute, status, slot),
    CONSTRAINT attempt_minutes_status_check
        CHECK (status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED', 'LOST', 'RELEASED',
            'EXPIRED')),
    CONSTRAINT attempt_minutes_totals_check CHECK (attempts > 0 AND duration_ms >= 0)
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX attempt_minutes_minute_idx ON attempt_minutes (minute);
COMMENT ON TABLE attempt_minutes IS
    'Finished attempts by the minute of their start, kept for a month. The history of earlier '
    'attempts is in job_execution_log.';
COMMENT ON INDEX attempt_minutes_minute_idx IS 'Old minutes, for retention.';
COMMENT ON COLUMN attempt_minutes.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN attempt_minutes.minute IS 'Minute of the start, by the database clock.';
COMMENT ON COLUMN attempt_minutes.status IS 'Outcome, as in job_execution_log.';
COMMENT ON COLUMN attempt_minutes.slot IS 'Part of the total, of one of several processes.';
COMMENT ON COLUMN attempt_minutes.attempts IS 'Number of attempts.';
COMMENT ON COLUMN attempt_minutes.duration_ms IS 'Sum of their durations.';

CREATE TABLE maintenance.job_execution_log (
    LIKE public.job_execution_log INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS,
    CONSTRAINT job_execution_log_pkey PRIMARY KEY (tenant_id, id, started_at)
) PARTITION BY RANGE (started_at);
CREATE INDEX job_execution_log_job_id_idx ON maintenance.job_execution_log (tenant_id, job_id, id);
CREATE INDEX job_execution_log_unsuccessful_idx ON maintenance.job_execution_log (tenant_id, status, id)
    WHERE status <> 'COMPLETED';
CREATE TABLE maintenance.job_execution_log_default
    PARTITION OF maintenance.job_execution_log DEFAULT;
COMMENT ON TABLE maintenance.job_execution_log IS
    'Attempts of backup_infrastructure jobs, like public.job_execution_log.';
COMMENT ON TABLE maintenance.job_execution_log_default IS 'Attempts of months without a partition.';

CREATE TABLE maintenance.job_execution_output (
    LIKE public.job_execution_output INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS,
    CONSTRAINT job_execution_output_pkey
        PRIMARY KEY (tenant_id, execution_id, stream, chunk, started_at)
) PARTITION BY RANGE (started_at);
CREATE TABLE maintenance.job_execution_output_default
    PARTITION OF maintenance.job_execution_output DEFAULT;
COMMENT ON TABLE maintenance.job_execution_output IS
    'Output of attempts of backup_infrastructure jobs, like public.job_execution_output.';
COMMENT ON TABLE maintenance.job_execution_output_default IS
    'Output of months without a partition.';

-- This month and the next three. The leader creates later ones (partitions.rs).
DO $$
DECLARE
    parent text;
    first  timestamptz;
BEGIN
    FOREACH parent IN ARRAY ARRAY['job_execution_log', 'job_execution_output',
        'maintenance.job_execution_log', 'maintenance.job_execution_output'] LOOP
        FOR ahead IN 0..3 LOOP
            first := (date_trunc('month', now() AT TIME ZONE 'UTC')
                      + make_interval(months => ahead)) AT TIME ZONE 'UTC';
            EXECUTE format('CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%L) TO (%L)',
                parent || to_char(first AT TIME ZONE 'UTC', '"_y"YYYY"m"MM'), parent, first,
                (first AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
        END LOOP;
    END LOOP;
END $$;

-- Live output and progress show running attempts to people. An attempt writes its record with all
-- output when it ends, so these rows need not survive a crash of the database: UNLOGGED tables keep
-- the bulk of all worker writes out of the WAL, its archive and every standby. After a crash they
-- are empty, and running attempts fill them again.
--
-- A worker writes for all its attempts in one statement, under their claim tokens, and deletes the
-- rows of ended attempts. The leader copies the output of dead workers into history, and deletes
-- their rows. There is no foreign key: it would lock the run's row in the hot table.
CREATE UNLOGGED TABLE live_output (
    tenant_id   uuid        NOT NULL,
    dispatch_id uuid        NOT NULL,
    claim_token bigint      NOT NULL,
    seq         bigint      NOT NULL,
    stream      text        NOT NULL,
    starts_at   bigint      NOT NULL,
    content     text        NOT NULL,
    written_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT live_output_pkey PRIMARY KEY (tenant_id, dispatch_id, claim_token, seq),
    CONSTRAINT live_output_seq_check CHECK (seq > 0),
    CONSTRAINT live_output_stream_check CHECK (stream IN ('stdout', 'stderr', 'log')),
    CONSTRAINT live_output_starts_at_check CHECK (starts_at >= 0)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE live_output IS
    'Recent output of running attempts. Deleted when the attempt ends; the record is '
    'job_execution_output.';
COMMENT ON COLUMN live_output.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN live_output.dispatch_id IS 'The run.';
COMMENT ON COLUMN live_output.claim_token IS 'Claim token of the attempt.';
COMMENT ON COLUMN live_output.seq IS
    'Order of the pieces of an attempt over all its streams, from 1. The oldest pieces are '
    'deleted, so the first numbers may be missing.';
COMMENT ON COLUMN live_output.stream IS 'Output stream.';
COMMENT ON COLUMN live_output.starts_at IS
    'Bytes of the stream before this piece, as stored text. A gap to the previous piece was not '
    'kept.';
COMMENT ON COLUMN live_output.content IS 'Text; NUL and bytes that are not UTF-8 are replaced.';
COMMENT ON COLUMN live_output.written_at IS 'Write time, by the database clock.';

CREATE UNLOGGED TABLE live_progress (
    tenant_id   uuid        NOT NULL,
    dispatch_id uuid        NOT NULL,
    claim_token bigint      NOT NULL,
    percent     real,
    message     text        NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT live_progress_pkey PRIMARY KEY (tenant_id, dispatch_id),
    CONSTRAINT live_progress_percent_check CHECK (percent BETWEEN 0 AND 100)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE live_progress IS
    'Latest progress of running attempts. Deleted when the attempt ends.';
COMMENT ON COLUMN live_progress.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN live_progress.dispatch_id IS 'The run.';
COMMENT ON COLUMN live_progress.claim_token IS
    'Claim token of the attempt; progress of an earlier claim does not apply to the current one.';
COMMENT ON COLUMN live_progress.percent IS 'From 0 to 100; NULL if unknown.';
COMMENT ON COLUMN live_progress.message IS 'Current activity, for people.';
COMMENT ON COLUMN live_progress.updated_at IS 'Time of the report, by the database clock.';

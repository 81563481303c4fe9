-- The event stream.
--
-- The stream is read in the order of the transactions that wrote it, so that order is the key
-- (events/stream.rs). A transaction may write events only within two minutes of its start; the
-- default of transaction_id enforces it. Readers rely on it: a transaction that has run longer
-- without writing events will not write any, so they need not wait for its end.
--
-- Almost all events are starts and ends of attempts. A claim writes all its starts, and a
-- completion all its ends, as one row for each tenant and project (run_start_batches,
-- run_end_batches); arrays hold the attempts. Readers expand them: event n of a batch, counted from
-- 0, has the id of the batch plus n. One sequence gives the ids of the three tables, in steps of
-- 65,536, so that the ids of expanded events are unique and sorted. An index of attempts by job
-- would cost every claim and completion a write per run. Batches of a single job are found by its
-- job_id; the other batches are read one after the other.

CREATE SEQUENCE event_id_seq AS bigint INCREMENT BY 65536 MINVALUE 65536;
COMMENT ON SEQUENCE event_id_seq IS
    'Ids of events and of batches of events. A batch uses the ids up to the next one.';

CREATE TABLE events (
    id             bigint      NOT NULL DEFAULT nextval('event_id_seq'),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    transaction_id xid8        NOT NULL DEFAULT CASE
        WHEN clock_timestamp() - now() < interval '2 minutes' THEN pg_current_xact_id() END,
    tenant_id      uuid,
    project_id     uuid,
    job_id         uuid,
    dispatch_id    uuid,
    event_type     text        NOT NULL,
    payload        jsonb       NOT NULL DEFAULT '{}',
    CONSTRAINT events_pkey PRIMARY KEY (transaction_id, id, created_at),
    CONSTRAINT events_event_type_check CHECK (event_type ~ '^[a-z]+(_[a-z]+)*$'),
    CONSTRAINT events_payload_check CHECK (jsonb_typeof(payload) = 'object')
) PARTITION BY RANGE (created_at);
CREATE INDEX events_tenant_idx ON events (tenant_id, transaction_id, id);
CREATE INDEX events_job_idx ON events (job_id, transaction_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX events_expired_idx ON events (tenant_id, dispatch_id)
    WHERE event_type = 'dispatch_expired';
CREATE TABLE events_default PARTITION OF events DEFAULT;
COMMENT ON TABLE events IS
    'Events except starts and ends of attempts, by month. event_stream shows all.';
COMMENT ON TABLE events_default IS 'Events of months without a partition.';
COMMENT ON INDEX events_expired_idx IS 'Expired runs, for the view missed_fires.';
COMMENT ON COLUMN events.id IS
    'Position within the transaction, a multiple of 65,536. Ids can commit out of order: see '
    'transaction_id.';
COMMENT ON COLUMN events.created_at IS 'Time of the event, by the database clock.';
COMMENT ON COLUMN events.transaction_id IS
    'Writing transaction, and the order of the stream. A reader stops before the oldest '
    'transaction that may still write one, and so skips nothing. NULL, and so rejected, from a '
    'transaction older than two minutes.';
COMMENT ON COLUMN events.tenant_id IS 'Tenant of the event; NULL for events of the installation.';
COMMENT ON COLUMN events.project_id IS 'Project, if any.';
COMMENT ON COLUMN events.job_id IS 'Job, if any.';
COMMENT ON COLUMN events.dispatch_id IS 'Run, if any.';
COMMENT ON COLUMN events.event_type IS 'Type of the event.';
COMMENT ON COLUMN events.payload IS 'Details, by type.';

-- The large arrays are not compressed: identifiers do not compress, and a reader of a few columns
-- then reads these alone.
CREATE TABLE run_start_batches (
    id             bigint        NOT NULL DEFAULT nextval('event_id_seq'),
    created_at     timestamptz   NOT NULL DEFAULT clock_timestamp(),
    transaction_id xid8          NOT NULL DEFAULT CASE
        WHEN clock_timestamp() - now() < interval '2 minutes' THEN pg_current_xact_id() END,
    tenant_id      uuid          NOT NULL,
    project_id     uuid,
    job_id         uuid,
    worker_id      uuid          NOT NULL,
    size           integer       NOT NULL,
    dispatch_ids   uuid[]        NOT NULL,
    job_ids        uuid[]        NOT NULL,
    job_names      text[]        NOT NULL,
    attempts       integer[]     NOT NULL,
    scheduled_for  timestamptz[] NOT NULL,
    CONSTRAINT run_start_batches_pkey PRIMARY KEY (transaction_id, id, created_at),
    CONSTRAINT run_start_batches_size_check
        CHECK (size BETWEEN 1 AND 65536 AND size = cardinality(dispatch_ids)
            AND size = cardinality(job_ids) AND size = cardinality(job_names)
            AND size = cardinality(attempts) AND size = cardinality(scheduled_for))
) PARTITION BY RANGE (created_at);
ALTER TABLE run_start_batches ALTER dispatch_ids SET STORAGE EXTERNAL,
    ALTER job_ids SET STORAGE EXTERNAL, ALTER job_names SET STORAGE EXTERNAL,
    ALTER attempts SET STORAGE EXTERNAL, ALTER scheduled_for SET STORAGE EXTERNAL;
CREATE INDEX run_start_batches_tenant_idx ON run_start_batches (tenant_id, transaction_id, id);
CREATE INDEX run_start_batches_job_idx ON run_start_batches (job_id, transaction_id, id)
    WHERE job_id IS NOT NULL;
CREATE INDEX run_start_batches_mixed_idx ON run_start_batches (tenant_id, transaction_id, id)
    WHERE job_id IS NULL;
CREATE TABLE run_start_batches_default PARTITION OF run_start_batches DEFAULT;
COMMENT ON TABLE run_start_batches IS
    'Starts of attempts: one row for each claim, tenant and project, by month.';
COMMENT ON INDEX run_start_batches_job_idx IS 'Batches of a single job, by job.';
COMMENT ON INDEX run_start_batches_mixed_idx IS
    'Batches of several jobs: events of a job are searched in these alone.';
COMMENT ON TABLE run_start_batches_default IS 'Batches of months without a partition.';
COMMENT ON COLUMN run_start_batches.id IS
    'Position within the transaction, and the event id of the first start.';
COMMENT ON COLUMN run_start_batches.created_at IS 'Time of the events, by the database clock.';
COMMENT ON COLUMN run_start_batches.transaction_id IS
    'Writing transaction, and the order of the stream; see events.transaction_id.';
COMMENT ON COLUMN run_start_batches.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN run_start_batches.project_id IS 'Project of the jobs; NULL for other scopes.';
COMMENT ON COLUMN run_start_batches.job_id IS 'The job, if all runs are of one job; else NULL.';
COMMENT ON COLUMN run_start_batches.worker_id IS 'The worker that claimed the runs.';
COMMENT ON COLUMN run_start_batches.size IS 'Number of attempts.';
COMMENT ON COLUMN run_start_batches.dispatch_ids IS 'The runs. The other arrays have this order.';
COMMENT ON COLUMN run_start_batches.job_ids IS 'Job of each run.';
COMMENT ON COLUMN run_start_batches.job_names IS 'Name of the job at the claim.';
COMMENT ON COLUMN run_start_batches.attempts IS 'Number of the attempt within its run.';
COMMENT ON COLUMN run_start_batches.scheduled_for IS 'Fire time, or trigger time.';

CREATE TABLE run_end_batches (
    id                bigint        NOT NULL DEFAULT nextval('event_id_seq'),
    created_at        timestamptz   NOT NULL DEFAULT clock_timestamp(),
    transaction_id    xid8          NOT NULL DEFAULT CASE
        WHEN clock_timestamp() - now() < interval '2 minutes' THEN pg_current_xact_id() END,
    tenant_id         uuid          NOT NULL,
    project_id        uuid,
    job_id            uuid,
    size              integer       NOT NULL,
    dispatch_ids      uuid[]        NOT NULL,
    execution_ids     uuid[]        NOT NULL,
    job_ids           uuid[]        NOT NULL,
    job_names         text[]        NOT NULL,
    attempts          integer[]     NOT NULL,
    outcomes          text[]        NOT NULL,
    dispatch_statuses text[]        NOT NULL,
    started_at        timestamptz[] NOT NULL,
    durations_ms      bigint[]      NOT NULL,
    exit_codes        integer[]     NOT NULL,
    error_classes     text[]        NOT NULL,
    errors            text[]        NOT NULL,
    CONSTRAINT run_end_batches_pkey PRIMARY KEY (transaction_id, id, created_at),
    CONSTRAINT run_end_batches_size_check
        CHECK (size BETWEEN 1 AND 65536 AND size = cardinality(dispatch_ids)
            AND size = cardinality(execution_ids) AND size = cardinality(job_ids)
            AND size = cardinality(job_names) AND size = cardinality(attempts)
            AND size = cardinality(outcomes) AND size = cardinality(dispatch_statuses)
            AND size = cardinality(started_at) AND size = cardinality(durations_ms)
            AND size = cardinality(exit_codes)
            AND size = cardinality(error_classes) AND size = cardinality(errors))
) PARTITION BY RANGE (created_at);
ALTER TABLE run_end_batches ALTER dispatch_ids SET STORAGE EXTERNAL,
    ALTER execution_ids SET STORAGE EXTERNAL, ALTER job_ids SET STORAGE EXTERNAL,
    ALTER job_names SET STORAGE EXTERNAL, ALTER attempts SET STORAGE EXTERNAL,
    ALTER durations_ms SET STORAGE EXTERNAL;
CREATE INDEX run_end_batches_tenant_idx ON run_end_batches (tenant_id, transaction_id, id);
CREATE INDEX run_end_batches_job_idx ON run_end_batches (job_id, transaction_id, id)
    WHERE job_id IS NOT NULL;
CREATE INDEX run_end_batches_mixed_idx ON run_end_batches (tenant_id, transaction_id, id)
    WHERE job_id IS NULL;
CREATE TABLE run_end_batches_default PARTITION OF run_end_batches DEFAULT;
COMMENT ON TABLE run_end_batches IS
    'Ends of attempts: one row for each completion, tenant and project, by month.';
COMMENT ON INDEX run_end_batches_job_idx IS 'Batches of a single job, by job.';
COMMENT ON INDEX run_end_batches_mixed_idx IS
    'Batches of several jobs: events of a job are searched in these alone.';
COMMENT ON TABLE run_end_batches_default IS 'Batches of months without a partition.';
COMMENT ON COLUMN run_end_batches.id IS
    'Position within the transaction, and the event id of the first end.';
COMMENT ON COLUMN run_end_batches.created_at IS 'Time of the events, by the database clock.';
COMMENT ON COLUMN run_end_batches.transaction_id IS
    'Writing transaction, and the order of the stream; see events.transaction_id.';
COMMENT ON COLUMN run_end_batches.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN run_end_batches.project_id IS 'Project of the jobs; NULL for other scopes.';
COMMENT ON COLUMN run_end_batches.job_id IS 'The job, if all runs are of one job; else NULL.';
COMMENT ON COLUMN run_end_batches.size IS 'Number of attempts.';
COMMENT ON COLUMN run_end_batches.dispatch_ids IS 'The runs. The other arrays have this order.';
COMMENT ON COLUMN run_end_batches.execution_ids IS 'The attempts.';
COMMENT ON COLUMN run_end_batches.job_ids IS 'Job of each run.';
COMMENT ON COLUMN run_end_batches.job_names IS 'Name of the job at the claim.';
COMMENT ON COLUMN run_end_batches.attempts IS 'Number of the attempt within its run.';
COMMENT ON COLUMN run_end_batches.outcomes IS 'Outcome of the attempt; NULL for COMPLETED.';
COMMENT ON COLUMN run_end_batches.dispatch_statuses IS
    'State of the run after the attempt; NULL if it is the outcome.';
COMMENT ON COLUMN run_end_batches.started_at IS 'Start of the attempt, by the database clock.';
COMMENT ON COLUMN run_end_batches.durations_ms IS
    'Duration in milliseconds, by the worker''s monotonic clock.';
COMMENT ON COLUMN run_end_batches.exit_codes IS 'Exit code of a process, or HTTP status.';
COMMENT ON COLUMN run_end_batches.error_classes IS 'Stable error class, for programs.';
COMMENT ON COLUMN run_end_batches.errors IS
    'First 1,000 characters of the error message, for people.';

-- The end of an attempt does not lock its job. It inserts a row here in the same transaction, and
-- a later transaction deletes the row and counts the batch into scheduled_jobs: a batch is counted
-- exactly once, whichever process dies. Lock order: these rows before scheduled_jobs.
CREATE TABLE uncounted_ends (
    tenant_id      uuid        NOT NULL,
    transaction_id xid8        NOT NULL,
    batch_id       bigint      NOT NULL,
    created_at     timestamptz NOT NULL,
    CONSTRAINT uncounted_ends_pkey PRIMARY KEY (tenant_id, batch_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX uncounted_ends_batch_idx ON uncounted_ends (batch_id);
COMMENT ON INDEX uncounted_ends_batch_idx IS 'Oldest batches first.';
COMMENT ON TABLE uncounted_ends IS
    'Batches of ends that active_dispatches, last_run_at and last_status of their jobs do not '
    'contain yet.';
COMMENT ON COLUMN uncounted_ends.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN uncounted_ends.transaction_id IS 'transaction_id of the batch.';
COMMENT ON COLUMN uncounted_ends.batch_id IS 'id of the batch.';
COMMENT ON COLUMN uncounted_ends.created_at IS 'created_at of the batch.';

-- A trigger of a job that allows any number of runs locks the job FOR KEY SHARE and updates no
-- counter: it inserts a row here with its runs. A later transaction deletes the row and counts the
-- runs into scheduled_jobs, under the lock on the job. So a transaction that closes runs
-- finds the rows of all runs that it sees: active_dispatches never falls below the closed ones.
-- Lock order: scheduled_jobs before these rows.
CREATE TABLE uncounted_openings (
    tenant_id uuid        NOT NULL,
    job_id    uuid        NOT NULL,
    id        bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    opened    integer     NOT NULL,
    opened_at timestamptz NOT NULL,
    CONSTRAINT uncounted_openings_pkey PRIMARY KEY (tenant_id, job_id, id),
    CONSTRAINT uncounted_openings_opened_check CHECK (opened > 0)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX uncounted_openings_id_idx ON uncounted_openings (id);
COMMENT ON INDEX uncounted_openings_id_idx IS 'Oldest rows first.';
COMMENT ON TABLE uncounted_openings IS
    'Runs by triggers that active_dispatches, total_run_count and last_dispatched_at of their '
    'jobs do not contain yet.';
COMMENT ON COLUMN uncounted_openings.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN uncounted_openings.job_id IS 'The job.';
COMMENT ON COLUMN uncounted_openings.id IS 'Increasing number.';
COMMENT ON COLUMN uncounted_openings.opened IS 'Number of runs of one transaction.';
COMMENT ON COLUMN uncounted_openings.opened_at IS 'Creation time of the latest of these runs.';

-- This month and the next three. The leader creates later ones (partitions.rs).
DO $$
DECLARE
    first  timestamptz;
    parent text;
BEGIN
    FOR ahead IN 0..3 LOOP
        first := (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => ahead))
                 AT TIME ZONE 'UTC';
        FOREACH parent IN ARRAY '{events,run_start_batches,run_end_batches}'::text[] LOOP
            EXECUTE format('CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%L) TO (%L)',
                parent || to_char(first AT TIME ZONE 'UTC', '"_y"YYYY"m"MM'), parent, first,
                (first AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
        END LOOP;
    END LOOP;
END $$;

-- The two expansions, for the view and for the statements of events/stream. An attempt that was
-- lost has its own event, and a released attempt ends nothing, unless its run was cancelled.
CREATE VIEW run_start_events WITH (security_invoker = true) AS
SELECT b.transaction_id, b.id + u.number - 1 AS id, b.created_at, b.tenant_id, b.project_id,
       u.job_id, u.dispatch_id, 'schedule_execution_started'::text AS event_type,
       jsonb_build_object('job_name', u.job_name, 'attempt', u.attempt, 'worker_id', b.worker_id,
                          'scheduled_for', u.scheduled_for) AS payload,
       b.id AS batch_id, b.job_id AS only_job_id
FROM run_start_batches b
CROSS JOIN LATERAL unnest(b.dispatch_ids, b.job_ids, b.job_names, b.attempts, b.scheduled_for)
    WITH ORDINALITY AS u (dispatch_id, job_id, job_name, attempt, scheduled_for, number);
COMMENT ON VIEW run_start_events IS 'Starts of attempts, one row each; see run_start_batches.';

CREATE VIEW run_end_events WITH (security_invoker = true) AS
SELECT b.transaction_id, b.id + u.number - 1 AS id, b.created_at, b.tenant_id, b.project_id,
       u.job_id, u.dispatch_id, 'schedule_execution_completed'::text AS event_type,
       jsonb_strip_nulls(jsonb_build_object(
           'job_name', u.job_name, 'execution_id', u.execution_id, 'attempt', u.attempt,
           'status', coalesce(u.outcome, 'COMPLETED'),
           'dispatch_status', coalesce(u.dispatch_status, u.outcome, 'COMPLETED'),
           'error_class', u.error_class, 'error', u.error, 'exit_code', u.exit_code,
           'duration_ms', u.duration_ms)) AS payload,
       b.id AS batch_id, b.job_id AS only_job_id
FROM run_end_batches b
CROSS JOIN LATERAL unnest(b.dispatch_ids, b.execution_ids, b.job_ids, b.job_names, b.attempts,
                          b.outcomes, b.dispatch_statuses, b.durations_ms, b.exit_codes,
                          b.error_classes, b.errors)
    WITH ORDINALITY AS u (dispatch_id, execution_id, job_id, job_name, attempt, outcome,
                          dispatch_status, duration_ms, exit_code, error_class, error, number)
WHERE u.outcome IS DISTINCT FROM 'LOST'
  AND (u.outcome IS DISTINCT FROM 'RELEASED' OR u.dispatch_status IS DISTINCT FROM 'PENDING');
COMMENT ON VIEW run_end_events IS 'Ends of attempts, one row each; see run_end_batches.';

CREATE VIEW event_stream WITH (security_invoker = true) AS
SELECT transaction_id, id, created_at, tenant_id, project_id, job_id, dispatch_id, event_type,
       payload
FROM events
UNION ALL
SELECT transaction_id, id, created_at, tenant_id, project_id, job_id, dispatch_id, event_type,
       payload
FROM run_start_events
UNION ALL
SELECT transaction_id, id, created_at, tenant_id, project_id, job_id, dispatch_id, event_type,
       payload
FROM run_end_events;
COMMENT ON VIEW event_stream IS
    'All events, in the order of (transaction_id, id). Bound transaction_id or created_at in '
    'queries: the view expands every batch that it reads.';

-- Without the contents, and with one row for a batch: finds positions by transaction or tenant.
CREATE VIEW event_positions WITH (security_invoker = true) AS
SELECT transaction_id, id, 1 AS size, created_at, tenant_id FROM events
UNION ALL
SELECT transaction_id, id, size, created_at, tenant_id FROM run_start_batches
UNION ALL
SELECT transaction_id, id, size, created_at, tenant_id FROM run_end_batches;
COMMENT ON VIEW event_positions IS
    'Ids of events and of batches; a batch takes the ids from id to id + size - 1.';

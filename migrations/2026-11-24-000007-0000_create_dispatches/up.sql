-- Runs (job_dispatch): one row for each fire or trigger. The hot table.
--
-- Every index here costs the tick, the claim and the completion; add one only with a measurement.
-- claimable_at carries the membership in the waiting list, so that no index predicate names status:
-- a claim leaves the list by setting claimable_at to NULL, and a completion changes no indexed
-- column and stays in its page (HOT). There is no index on running rows: the planner would use it
-- in the completion, and it would hold every dead entry between two vacuums. Running rows are found
-- through worker_claims. The partial indexes of waiting runs change with a claim, which writes to
-- every index anyway; completions do not touch them.
--
-- Claims skip from tenant to tenant in the waiting list and take a share of each. A paused or
-- limited tenant or queue costs one step, at any length. Autovacuum analyzes the table early,
-- because the planner must learn of a burst soon, not after a tenth of a long history has changed.
--
-- Chain: each record of a fire time (a run of the schedule, or a range of skipped fires) names the
-- previous record of the job in `follows`, by its key: scheduled_for or first_fire_at. If a record
-- is missing, its successor points at nothing. The job names the latest one (last_fire_at).
--
-- Overlap queue: a run beyond max_instances is PENDING with claimable_at = 'infinity', so claims
-- cannot see it until an earlier run of the job has ended.
--
-- Order of columns: a new row version in the same page logs only the bytes between the first and the
-- last difference. So the columns that claims and ends change are neighbours. The ones before them
-- have no padding. The fillfactor leaves room for both new versions of a row: the claim finds room
-- in the page of the row, and the end stays there (HOT).
--
-- Arguments: NULL means the arguments of version job_version of the job. That version has a row in
-- scheduled_job_versions (is_version_stored), which keep_versions_of_runs protects. The view run_arguments resolves it.
--
-- A retry by command is a run with a trigger_id computed from retry_of, so that the unique key
-- allows at most one per finished run. It is not retry_of itself, which a trigger by hand has as
-- its own trigger_id.

CREATE SEQUENCE claim_token_seq AS bigint CACHE 32;
COMMENT ON SEQUENCE claim_token_seq IS
    'Claim tokens. Sequences are WAL-logged: no token is reused, not even after a crash.';

CREATE TABLE job_dispatch (
    id                    uuid        NOT NULL,
    tenant_id             uuid        NOT NULL,
    job_id                uuid        NOT NULL,
    scheduled_for         timestamptz NOT NULL,
    created_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    job_version           bigint      NOT NULL,
    term                  bigint,
    follows               timestamptz,
    scheduler_instance_id uuid,
    trigger_id            uuid,
    retry_of              uuid,
    expires_at            timestamptz,
    available_at          timestamptz NOT NULL,
    claimable_at          timestamptz,
    claimed_at            timestamptz,
    claim_token           bigint,
    worker_id             uuid,
    attempt               integer     NOT NULL DEFAULT 0,
    retry_count           integer     NOT NULL DEFAULT 0,
    lost_count            integer     NOT NULL DEFAULT 0,
    unstarted_count       integer     NOT NULL DEFAULT 0,
    completed_at          timestamptz,
    cancel_requested_at   timestamptz,
    priority              smallint    NOT NULL DEFAULT 50,
    is_catch_up           boolean     NOT NULL DEFAULT false,
    status                text        NOT NULL DEFAULT 'PENDING',
    error_message         text,
    queue                 text        NOT NULL,
    triggered_by          text        NOT NULL,
    triggered_by_user     text,
    idempotency_key       text,
    traceparent           text,
    args                  jsonb,
    CONSTRAINT job_dispatch_pkey PRIMARY KEY (id),
    CONSTRAINT job_dispatch_job_id_scheduled_for_key
        UNIQUE NULLS NOT DISTINCT (job_id, scheduled_for, trigger_id),
    CONSTRAINT job_dispatch_status_check
        CHECK (status IN ('PENDING', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED',
            'DEAD_LETTER')),
    CONSTRAINT job_dispatch_pending_iff_claimable_check
        CHECK ((status = 'PENDING') = (claimable_at IS NOT NULL)),
    CONSTRAINT job_dispatch_in_progress_is_claimed_check
        CHECK (status <> 'IN_PROGRESS' OR (claimed_at IS NOT NULL
            AND worker_id IS NOT NULL AND claim_token IS NOT NULL AND attempt > 0)),
    CONSTRAINT job_dispatch_final_iff_completed_at_check
        CHECK ((status NOT IN ('PENDING', 'IN_PROGRESS')) = (completed_at IS NOT NULL)),
    CONSTRAINT job_dispatch_attempts_check
        CHECK (retry_count >= 0 AND lost_count >= 0 AND attempt >= retry_count),
    CONSTRAINT job_dispatch_triggered_by_check
        CHECK (triggered_by IN ('scheduler', 'manual', 'api', 'retry', 'dependency')),
    CONSTRAINT job_dispatch_scheduled_iff_no_trigger_check
        CHECK ((triggered_by = 'scheduler') = (trigger_id IS NULL)),
    CONSTRAINT job_dispatch_scheduled_has_term_check
        CHECK (triggered_by <> 'scheduler' OR (term IS NOT NULL
            AND scheduler_instance_id IS NOT NULL)),
    CONSTRAINT job_dispatch_job_version_check CHECK (job_version > 0),
    CONSTRAINT job_dispatch_priority_check CHECK (priority BETWEEN 0 AND 100),
    CONSTRAINT job_dispatch_args_check CHECK (jsonb_typeof(args) = 'object'),
    CONSTRAINT job_dispatch_unstarted_count_check CHECK (unstarted_count BETWEEN 0 AND attempt)
) WITH (
    fillfactor = 45, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor =
    0.1, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.02
);
CREATE UNIQUE INDEX job_dispatch_idempotency_key_key
    ON job_dispatch (tenant_id, job_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_dispatch_line_idx ON job_dispatch (job_id, scheduled_for, id)
    WHERE claimable_at = 'infinity';
CREATE INDEX job_dispatch_keyed_idx ON job_dispatch (id) WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_dispatch_expiring_idx ON job_dispatch (expires_at)
    WHERE expires_at IS NOT NULL AND claimable_at IS NOT NULL AND attempt = unstarted_count;
CREATE INDEX job_dispatch_waiting_idx ON job_dispatch (queue, tenant_id, priority, claimable_at, id)
    WHERE claimable_at < 'infinity';
CREATE INDEX job_dispatch_waiting_job_idx ON job_dispatch (job_id)
    WHERE claimable_at IS NOT NULL AND job_id IS NOT NULL;
COMMENT ON TABLE job_dispatch IS 'Runs: one row for each fire time or trigger.';
COMMENT ON INDEX job_dispatch_expiring_idx IS
    'Waiting runs that may expire, also after a release of an unstarted attempt; empty unless a '
    'job sets start_within_seconds.';
COMMENT ON INDEX job_dispatch_idempotency_key_key IS 'The same trigger sent twice creates one run.';
COMMENT ON CONSTRAINT job_dispatch_job_id_scheduled_for_key ON job_dispatch IS
    'A fire time is dispatched at most once, even if every other guard fails. Triggers have a '
    'trigger_id and may coincide with a fire time.';
COMMENT ON INDEX job_dispatch_keyed_idx IS
    'Runs that still hold an idempotency key, by age: finds keys to delete.';
COMMENT ON INDEX job_dispatch_line_idx IS 'Oldest queued run of a job, at any queue length.';
COMMENT ON INDEX job_dispatch_waiting_idx IS
    'Waiting list, read by claims, by tenant within a queue. It holds only runs with a known '
    'claim time, so history does not slow it down.';
COMMENT ON INDEX job_dispatch_waiting_job_idx IS
    'Waiting runs of a job, for cancel and delete. "job_id IS NOT NULL" restricts it to '
    'statements about one job.';
COMMENT ON COLUMN job_dispatch.id IS
    'Time-ordered identifier (UUID version 7, from the database clock).';
COMMENT ON COLUMN job_dispatch.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN job_dispatch.job_id IS 'The job.';
COMMENT ON COLUMN job_dispatch.scheduled_for IS
    'Fire time; trigger time of a trigger; end of the other job for a dependency; for a retry, '
    'that of the retried run.';
COMMENT ON COLUMN job_dispatch.created_at IS
    'Creation time; minus scheduled_for it is the lateness.';
COMMENT ON COLUMN job_dispatch.job_version IS 'Version of the job at creation.';
COMMENT ON COLUMN job_dispatch.term IS 'Term of that leader; NULL for triggers by hand.';
COMMENT ON COLUMN job_dispatch.follows IS
    'Fire time of the job''s previous record (scheduled_for or first_fire_at); NULL for the '
    'first, and for triggers.';
COMMENT ON COLUMN job_dispatch.scheduler_instance_id IS
    'Leader that created it; NULL for triggers by hand.';
COMMENT ON COLUMN job_dispatch.trigger_id IS
    'NULL for a fire time; causing run of a dependency; computed from retry_of for a retry; else '
    'the trigger''s own id. So it never takes the place of a fire time.';
COMMENT ON COLUMN job_dispatch.retry_of IS
    'Finished run that this one repeats by command; else NULL.';
COMMENT ON COLUMN job_dispatch.expires_at IS
    'If the first attempt has not started by this time, the run ends as FAILED; NULL means '
    'never. Retries do not expire.';
COMMENT ON COLUMN job_dispatch.available_at IS
    'First time it could be claimed, or claimed again after the latest failed attempt.';
COMMENT ON COLUMN job_dispatch.claimable_at IS
    'Earliest claim time; infinity while the run is queued behind other runs of its job; NULL '
    'unless PENDING.';
COMMENT ON COLUMN job_dispatch.claimed_at IS 'Latest claim; minus available_at it is the wait.';
COMMENT ON COLUMN job_dispatch.claim_token IS
    'Token of the latest claim; every write of that claim carries it.';
COMMENT ON COLUMN job_dispatch.worker_id IS 'Worker of the latest claim.';
COMMENT ON COLUMN job_dispatch.attempt IS
    'Number of claimed attempts, lost and released ones included.';
COMMENT ON COLUMN job_dispatch.retry_count IS
    'Number of failed attempts that were followed by a retry.';
COMMENT ON COLUMN job_dispatch.lost_count IS
    'Number of attempts lost with their worker; a run that loses too many is poison.';
COMMENT ON COLUMN job_dispatch.unstarted_count IS
    'Attempts released before anything ran. While it equals attempt, the run can still expire.';
COMMENT ON COLUMN job_dispatch.completed_at IS 'Time of the final state; NULL before.';
COMMENT ON COLUMN job_dispatch.cancel_requested_at IS
    'Time of a cancel request; the worker stops the attempt, and the run does not wait again.';
COMMENT ON COLUMN job_dispatch.priority IS '0 is claimed first, 100 last.';
COMMENT ON COLUMN job_dispatch.is_catch_up IS 'True if the fire time was missed and caught up.';
COMMENT ON COLUMN job_dispatch.status IS 'State; the transitions are those of domain::run_state.';
COMMENT ON COLUMN job_dispatch.error_message IS 'Error message of the latest unsuccessful attempt.';
COMMENT ON COLUMN job_dispatch.queue IS 'Queue it waits in.';
COMMENT ON COLUMN job_dispatch.triggered_by IS 'Origin of the run.';
COMMENT ON COLUMN job_dispatch.triggered_by_user IS
    'User or key that requested it; NULL for the scheduler.';
COMMENT ON COLUMN job_dispatch.idempotency_key IS 'Idempotency key of the trigger; NULL without.';
COMMENT ON COLUMN job_dispatch.traceparent IS 'W3C trace context of the creator.';
COMMENT ON COLUMN job_dispatch.args IS
    'Arguments, if they differ from those of job_version; else NULL. The view run_arguments shows '
    'both.';

-- Instead of a foreign key to the job, which would cost the tick one query and one row lock per
-- run:
--   * The tick inserts only for jobs that its transaction has locked, and then moves the cursor of
--     each, or rolls back.
--   * A trigger checks every other insert, and every move to another job: the job must exist, and
--     its lock keeps it until the commit.
--   * Deleting a job deletes its runs. A tick in progress holds the job's row, so the deletion
--     waits for it and finds the inserted runs.
CREATE FUNCTION check_job_of_dispatch() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM scheduled_jobs WHERE tenant_id = NEW.tenant_id AND id = NEW.job_id FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING
            MESSAGE = format('dispatch %s is for job %s, which tenant %s does not have',
                             NEW.id, NEW.job_id, NEW.tenant_id),
            CONSTRAINT = 'job_dispatch_job_check', TABLE = 'job_dispatch', SCHEMA = TG_TABLE_SCHEMA;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION check_job_of_dispatch() IS 'Rejects a run of a job that does not exist.';
CREATE TRIGGER job_dispatch_inserted AFTER INSERT ON job_dispatch
    FOR EACH ROW WHEN (NEW.triggered_by <> 'scheduler') EXECUTE FUNCTION check_job_of_dispatch();
CREATE TRIGGER job_dispatch_moved AFTER UPDATE OF tenant_id, job_id ON job_dispatch
    FOR EACH ROW EXECUTE FUNCTION check_job_of_dispatch();
COMMENT ON TRIGGER job_dispatch_inserted ON job_dispatch IS
    'The job must exist. Runs of the tick are exempt: its transaction has locked their jobs.';
COMMENT ON TRIGGER job_dispatch_moved ON job_dispatch IS 'The job must exist.';

-- As the owner, like a foreign key: whichever role deletes the job.
CREATE FUNCTION delete_dispatches_of_job() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('DELETE FROM %I.job_dispatch WHERE job_id = $1 AND tenant_id = $2',
                   TG_TABLE_SCHEMA)
        USING OLD.id, OLD.tenant_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION delete_dispatches_of_job() IS 'Deletes the runs of a deleted job.';
CREATE TRIGGER scheduled_jobs_deleted AFTER DELETE ON scheduled_jobs
    FOR EACH ROW EXECUTE FUNCTION delete_dispatches_of_job();
COMMENT ON TRIGGER scheduled_jobs_deleted ON scheduled_jobs IS 'Runs go with their job.';

-- Instead of a foreign key to the version, which would lock its row at every insert. New runs name
-- the current version of their job, and their transaction holds a lock on the job. So a version that
-- is not current gains no run after the check.
CREATE FUNCTION keep_versions_of_runs() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_named boolean;
BEGIN
    -- Waits for transactions that insert runs of the job. NULL: the job is deleted, with its runs.
    EXECUTE format('SELECT version = $3 FROM %I.scheduled_jobs WHERE tenant_id = $1 AND id = $2
                    FOR UPDATE', TG_TABLE_SCHEMA)
        INTO is_named USING OLD.tenant_id, OLD.job_id, OLD.version;
    IF is_named IS FALSE THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %I.job_dispatch
                        WHERE job_id = $2 AND tenant_id = $1 AND job_version = $3
                          AND args IS NULL)', TG_TABLE_SCHEMA)
            INTO is_named USING OLD.tenant_id, OLD.job_id, OLD.version;
    END IF;
    IF is_named THEN
        RAISE foreign_key_violation USING
            MESSAGE = format('version %s of job %s is current, or runs use its arguments',
                             OLD.version, OLD.job_id),
            CONSTRAINT = 'scheduled_job_versions_named_check', TABLE = TG_TABLE_NAME,
            SCHEMA = TG_TABLE_SCHEMA;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION keep_versions_of_runs() IS
    'Rejects the deletion or change of a version whose arguments a run uses, and of the current '
    'one.';
-- A trigger needs no right to execute its function. With the right, a user could attach the function
-- to a table of another schema, whose relations it would then read as its owner.
REVOKE EXECUTE ON FUNCTION keep_versions_of_runs(), delete_dispatches_of_job() FROM PUBLIC;
CREATE TRIGGER scheduled_job_versions_kept
    AFTER DELETE OR UPDATE OF tenant_id, job_id, version, settings ON scheduled_job_versions
    FOR EACH ROW EXECUTE FUNCTION keep_versions_of_runs();
COMMENT ON TRIGGER scheduled_job_versions_kept ON scheduled_job_versions IS
    'Runs without their own arguments use those of their version.';

-- Rows are inserted once and deleted by age: vacuum must free the oldest pages before much more is
-- written.
CREATE TABLE skipped_fires (
    id             bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant_id      uuid        NOT NULL,
    job_id         uuid        NOT NULL,
    first_fire_at  timestamptz NOT NULL,
    last_fire_at   timestamptz NOT NULL,
    fire_count     bigint      NOT NULL,
    is_count_exact boolean     NOT NULL DEFAULT true,
    reason         text        NOT NULL,
    detail         text,
    term           bigint,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    follows        timestamptz,
    trigger_id     uuid,
    CONSTRAINT skipped_fires_pkey PRIMARY KEY (id),
    CONSTRAINT skipped_fires_job_fkey FOREIGN KEY (tenant_id, job_id)
        REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT skipped_fires_range_check CHECK (last_fire_at >= first_fire_at),
    CONSTRAINT skipped_fires_fire_count_check
        CHECK (fire_count > 0 AND (fire_count = 1 OR last_fire_at > first_fire_at)),
    CONSTRAINT skipped_fires_reason_check CHECK (reason IN (
        'misfire', 'overlap', 'paused_job', 'paused_project', 'paused_queue', 'paused_function',
        'paused_tenant', 'calendar', 'quota', 'dst_suppressed', 'disabled', 'ended'))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX skipped_fires_job_id_first_fire_at_key
    ON skipped_fires (job_id, first_fire_at, trigger_id) NULLS NOT DISTINCT;
CREATE INDEX skipped_fires_missed_idx ON skipped_fires (tenant_id, job_id, first_fire_at)
    WHERE reason = 'misfire';
COMMENT ON TABLE skipped_fires IS
    'Fire times that were not dispatched on purpose, with the reason; one row may cover a range.';
COMMENT ON INDEX skipped_fires_missed_idx IS
    'Missed fires, for missed_fires: few among many deliberate skips.';
COMMENT ON COLUMN skipped_fires.id IS 'Identifier.';
COMMENT ON COLUMN skipped_fires.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN skipped_fires.job_id IS 'The job.';
COMMENT ON COLUMN skipped_fires.first_fire_at IS 'First fire time of the range.';
COMMENT ON COLUMN skipped_fires.last_fire_at IS 'Last fire time of the range, inclusive.';
COMMENT ON COLUMN skipped_fires.fire_count IS
    'Number of fire times in the range, or a lower bound.';
COMMENT ON COLUMN skipped_fires.is_count_exact IS 'False if the range was too long to count.';
COMMENT ON COLUMN skipped_fires.reason IS 'Reason of the skip.';
COMMENT ON COLUMN skipped_fires.detail IS 'Explanation of the reason, if any.';
COMMENT ON COLUMN skipped_fires.term IS 'Term of the leader that recorded it; NULL if the API did.';
COMMENT ON COLUMN skipped_fires.recorded_at IS 'Time of the record, by the database clock.';
COMMENT ON COLUMN skipped_fires.follows IS
    'Fire time of the job''s previous record (scheduled_for or first_fire_at); NULL for the first.';
COMMENT ON COLUMN skipped_fires.trigger_id IS
    'NULL for fire times of the schedule; else the skipped trigger, so that it never takes the '
    'place of a fire time.';

-- Rows live for moments, so vacuum is set by their number, not by a share of the table.
CREATE TABLE job_ends (
    id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant_id   uuid        NOT NULL,
    job_id      uuid        NOT NULL,
    dispatch_id uuid        NOT NULL,
    status      text        NOT NULL,
    ended_at    timestamptz NOT NULL,
    CONSTRAINT job_ends_pkey PRIMARY KEY (id),
    CONSTRAINT job_ends_status_check
        CHECK (status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'DEAD_LETTER'))
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE job_ends IS
    'Ends of runs that dependent jobs may follow, until the leader has handled them. No foreign '
    'keys: a row is deleted within moments.';
COMMENT ON COLUMN job_ends.id IS 'Identifier, and the order of handling.';
COMMENT ON COLUMN job_ends.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN job_ends.job_id IS 'The job that ended.';
COMMENT ON COLUMN job_ends.dispatch_id IS 'Its run.';
COMMENT ON COLUMN job_ends.status IS
    'Final state of the run. CANCELLED is not recorded: nothing runs after it.';
COMMENT ON COLUMN job_ends.ended_at IS 'completed_at of the run, by the database clock.';

-- A separate table: an index on job_dispatch that names the state would force every completion to
-- write all indexes. This one is written once per dead run; claims and completions never read it.
CREATE TABLE dead_letters (
    dispatch_id    uuid        NOT NULL,
    tenant_id      uuid        NOT NULL,
    project_id     uuid,
    job_id         uuid        NOT NULL,
    queue          text        NOT NULL,
    error_class    text,
    died_at        timestamptz NOT NULL,
    settled_as     text,
    settled_at     timestamptz,
    settled_by     text,
    settled_reason text,
    retried_as     uuid,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (tenant_id, dispatch_id),
    CONSTRAINT dead_letters_job_fkey FOREIGN KEY (tenant_id, job_id)
        REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT dead_letters_settled_as_check CHECK (settled_as IN ('retried', 'discarded')),
    CONSTRAINT dead_letters_settled_whole_check
        CHECK ((settled_as IS NULL) = (settled_at IS NULL)
            AND (settled_as IS NULL) = (settled_by IS NULL)),
    CONSTRAINT dead_letters_retried_iff_as_check
        CHECK ((settled_as IS NOT DISTINCT FROM 'retried') = (retried_as IS NOT NULL))
);
CREATE INDEX dead_letters_open_idx ON dead_letters (tenant_id, dispatch_id)
    WHERE settled_at IS NULL;
CREATE INDEX dead_letters_job_id_idx ON dead_letters (tenant_id, job_id, dispatch_id);
COMMENT ON TABLE dead_letters IS
    'Runs in DEAD_LETTER, and the decisions about them. A row goes with its run.';
COMMENT ON INDEX dead_letters_job_id_idx IS
    'Dead letters of a job; the deletion of a job reads it too.';
COMMENT ON INDEX dead_letters_open_idx IS
    'Dead letters without a decision, however many are settled.';
COMMENT ON COLUMN dead_letters.dispatch_id IS 'The run, whose state stays DEAD_LETTER.';
COMMENT ON COLUMN dead_letters.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN dead_letters.project_id IS 'Project of the job at that time, if any.';
COMMENT ON COLUMN dead_letters.job_id IS 'The job.';
COMMENT ON COLUMN dead_letters.queue IS 'Queue it waited in.';
COMMENT ON COLUMN dead_letters.error_class IS 'Error class of the last attempt; NULL without one.';
COMMENT ON COLUMN dead_letters.died_at IS 'Time of the final state, by the database clock.';
COMMENT ON COLUMN dead_letters.settled_as IS
    'Decision: retried (another run repeats it) or discarded; NULL while open.';
COMMENT ON COLUMN dead_letters.settled_at IS
    'Time of the decision, by the database clock; NULL while open.';
COMMENT ON COLUMN dead_letters.settled_by IS
    'User, key or component that decided; NULL while open.';
COMMENT ON COLUMN dead_letters.settled_reason IS 'Reason for people, if given.';
COMMENT ON COLUMN dead_letters.retried_as IS 'The run that repeats it; NULL unless retried.';

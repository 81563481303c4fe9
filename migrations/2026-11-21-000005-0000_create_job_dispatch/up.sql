-- Dispatches: one row for each fire or trigger to be executed. The hot table.
--
-- Three indexes and no more, each for a measured reason:
--   the primary key; the key on (job, fire time), which is the safety of the whole product; and the waiting line.
-- `claimable_at` carries the membership in the waiting line, so that `status` stands in no index predicate: the claim
-- leaves the line by setting it NULL, and the completion changes no indexed column and stays in its page (HOT).
-- There is no index on running rows: it would attract the planner in the completion and hold every dead entry between
-- two vacuums. Who runs what is found through worker_claims instead.

CREATE SEQUENCE claim_token_seq AS bigint CACHE 32;
COMMENT ON SEQUENCE claim_token_seq IS 'Claim tokens. A sequence is logged: a token is never reused, across a crash either.';

CREATE TABLE job_dispatch (
    id                    uuid        NOT NULL,
    tenant_id             uuid        NOT NULL,
    job_id                uuid        NOT NULL,
    scheduled_for         timestamptz NOT NULL,
    created_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    available_at          timestamptz NOT NULL,
    claimable_at          timestamptz,
    claimed_at            timestamptz,
    completed_at          timestamptz,
    status                text        NOT NULL DEFAULT 'PENDING',
    queue                 text        NOT NULL,
    priority              smallint    NOT NULL DEFAULT 50,
    worker_id             uuid,
    claim_token           bigint,
    attempt               integer     NOT NULL DEFAULT 0,
    retry_count           integer     NOT NULL DEFAULT 0,
    lost_count            integer     NOT NULL DEFAULT 0,
    error_message         text,
    triggered_by          text        NOT NULL,
    triggered_by_user     text,
    trigger_id            uuid,
    scheduler_instance_id uuid,
    term                  bigint,
    args                  jsonb       NOT NULL,
    idempotency_key       text,
    is_catch_up           boolean     NOT NULL DEFAULT false,
    cancel_requested_at   timestamptz,
    expires_at            timestamptz,
    traceparent           text,
    CONSTRAINT job_dispatch_pkey PRIMARY KEY (id),
    CONSTRAINT job_dispatch_job_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT job_dispatch_status_check CHECK (status IN ('PENDING', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED', 'DEAD_LETTER')),
    CONSTRAINT job_dispatch_pending_iff_claimable_check CHECK ((status = 'PENDING') = (claimable_at IS NOT NULL)),
    CONSTRAINT job_dispatch_in_progress_is_claimed_check CHECK (status <> 'IN_PROGRESS'
        OR (claimed_at IS NOT NULL AND worker_id IS NOT NULL AND claim_token IS NOT NULL AND attempt > 0)),
    CONSTRAINT job_dispatch_final_iff_completed_at_check CHECK ((status NOT IN ('PENDING', 'IN_PROGRESS')) = (completed_at IS NOT NULL)),
    CONSTRAINT job_dispatch_attempts_check CHECK (retry_count >= 0 AND lost_count >= 0 AND attempt >= retry_count),
    CONSTRAINT job_dispatch_triggered_by_check CHECK (triggered_by IN ('scheduler', 'manual', 'api', 'retry', 'dependency', 'backfill')),
    CONSTRAINT job_dispatch_job_id_scheduled_for_key UNIQUE NULLS NOT DISTINCT (job_id, scheduled_for, trigger_id),
    CONSTRAINT job_dispatch_scheduled_iff_no_trigger_check CHECK ((triggered_by = 'scheduler') = (trigger_id IS NULL)),
    CONSTRAINT job_dispatch_scheduled_has_term_check CHECK (triggered_by <> 'scheduler' OR (term IS NOT NULL AND scheduler_instance_id IS NOT NULL)),
    CONSTRAINT job_dispatch_priority_check CHECK (priority BETWEEN 0 AND 100),
    CONSTRAINT job_dispatch_args_check CHECK (jsonb_typeof(args) = 'object')
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX job_dispatch_idempotency_key_key ON job_dispatch (tenant_id, job_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_dispatch_waiting_idx ON job_dispatch (queue, priority, claimable_at, id) WHERE claimable_at IS NOT NULL;

COMMENT ON TABLE  job_dispatch                         IS 'One fire time, or one trigger, to be executed.';
COMMENT ON CONSTRAINT job_dispatch_job_id_scheduled_for_key ON job_dispatch IS 'A fire time is dispatched at most once, even if every other guard fails. Triggers by hand carry a trigger_id and may coincide with a fire time.';
COMMENT ON INDEX  job_dispatch_waiting_idx             IS 'The waiting line that claims read; holds waiting rows only, so its cost does not grow with history.';
COMMENT ON INDEX  job_dispatch_idempotency_key_key     IS 'The same trigger sent twice is one dispatch.';
COMMENT ON COLUMN job_dispatch.id                      IS 'Time-ordered identifier (UUID version 7, from the database clock).';
COMMENT ON COLUMN job_dispatch.tenant_id               IS 'Owner.';
COMMENT ON COLUMN job_dispatch.job_id                  IS 'The job.';
COMMENT ON COLUMN job_dispatch.scheduled_for           IS 'The fire time, or when the trigger was made.';
COMMENT ON COLUMN job_dispatch.created_at              IS 'When the row was written; minus scheduled_for it is the lateness.';
COMMENT ON COLUMN job_dispatch.available_at            IS 'When it could first be claimed, or claimed again after the latest failed attempt.';
COMMENT ON COLUMN job_dispatch.claimable_at            IS 'Equal to available_at while PENDING, else NULL.';
COMMENT ON COLUMN job_dispatch.claimed_at              IS 'When the latest claim was made; minus available_at it is the wait.';
COMMENT ON COLUMN job_dispatch.completed_at            IS 'When it reached a final state; NULL before.';
COMMENT ON COLUMN job_dispatch.status                  IS 'State; the transitions are those of model::domain::dispatch.';
COMMENT ON COLUMN job_dispatch.queue                   IS 'Queue it waits in.';
COMMENT ON COLUMN job_dispatch.priority                IS '0 is claimed first, 100 last.';
COMMENT ON COLUMN job_dispatch.worker_id               IS 'Worker of the latest claim.';
COMMENT ON COLUMN job_dispatch.claim_token             IS 'Token of the latest claim; every write of that claim carries it.';
COMMENT ON COLUMN job_dispatch.attempt                 IS 'How many attempts have been started, lost and released ones included.';
COMMENT ON COLUMN job_dispatch.retry_count             IS 'How many attempts failed and were followed by a retry.';
COMMENT ON COLUMN job_dispatch.lost_count              IS 'How many attempts were lost with their worker; a dispatch that loses too many is poison.';
COMMENT ON COLUMN job_dispatch.error_message           IS 'What the latest unsuccessful attempt said.';
COMMENT ON COLUMN job_dispatch.triggered_by            IS 'What created it.';
COMMENT ON COLUMN job_dispatch.triggered_by_user       IS 'Who asked for it; NULL for the scheduler.';
COMMENT ON COLUMN job_dispatch.trigger_id              IS 'NULL for a fire time of the schedule; otherwise the id of this trigger, so that it never takes the place of a fire time.';
COMMENT ON COLUMN job_dispatch.scheduler_instance_id   IS 'The leader that created it; NULL for triggers.';
COMMENT ON COLUMN job_dispatch.term                    IS 'The term of that leader; NULL for triggers.';
COMMENT ON COLUMN job_dispatch.args                    IS 'Arguments, copied from the job when the row was written.';
COMMENT ON COLUMN job_dispatch.idempotency_key         IS 'Key the client gave with the trigger; NULL without.';
COMMENT ON COLUMN job_dispatch.is_catch_up             IS 'True when the fire time had been missed and was caught up.';
COMMENT ON COLUMN job_dispatch.cancel_requested_at     IS 'When somebody asked to cancel it; the worker obeys at its next look. Not in effect yet.';
COMMENT ON COLUMN job_dispatch.expires_at              IS 'After this instant it is no longer worth starting; NULL means always. Not in effect yet.';
COMMENT ON COLUMN job_dispatch.traceparent             IS 'W3C trace context of what created it.';

CREATE TABLE worker_claims (
    id           bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    worker_id    uuid        NOT NULL,
    claimed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    dispatch_ids uuid[]      NOT NULL,
    CONSTRAINT worker_claims_pkey PRIMARY KEY (id),
    CONSTRAINT worker_claims_worker_fkey FOREIGN KEY (worker_id) REFERENCES worker_registration (worker_id),
    CONSTRAINT worker_claims_dispatch_ids_check CHECK (cardinality(dispatch_ids) > 0)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX worker_claims_worker_id_idx ON worker_claims (worker_id);
COMMENT ON TABLE  worker_claims              IS 'One row per claim statement: which worker took which dispatches. Every running dispatch is named here; some named ones have finished. Removed when all have.';
COMMENT ON COLUMN worker_claims.id           IS 'Identifier.';
COMMENT ON COLUMN worker_claims.worker_id    IS 'The worker. It cannot be unregistered while it has claims.';
COMMENT ON COLUMN worker_claims.claimed_at   IS 'When, by the database clock.';
COMMENT ON COLUMN worker_claims.dispatch_ids IS 'The dispatches taken.';

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
    CONSTRAINT skipped_fires_pkey PRIMARY KEY (id),
    CONSTRAINT skipped_fires_job_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT skipped_fires_range_check CHECK (last_fire_at >= first_fire_at),
    CONSTRAINT skipped_fires_fire_count_check CHECK (fire_count > 0 AND (fire_count = 1 OR last_fire_at > first_fire_at)),
    CONSTRAINT skipped_fires_reason_check CHECK (reason IN ('misfire', 'overlap', 'paused_job', 'paused_project', 'paused_queue',
        'paused_function', 'paused_tenant', 'calendar', 'quota', 'dst_suppressed', 'disabled', 'ended'))
);
CREATE UNIQUE INDEX skipped_fires_job_id_first_fire_at_key ON skipped_fires (job_id, first_fire_at);
COMMENT ON TABLE  skipped_fires                IS 'Fire times deliberately not dispatched, each with its reason; a range of them is one row with a count.';
COMMENT ON COLUMN skipped_fires.id             IS 'Identifier.';
COMMENT ON COLUMN skipped_fires.tenant_id      IS 'Owner.';
COMMENT ON COLUMN skipped_fires.job_id         IS 'The job.';
COMMENT ON COLUMN skipped_fires.first_fire_at  IS 'First fire time of the range.';
COMMENT ON COLUMN skipped_fires.last_fire_at   IS 'Last fire time of the range, included.';
COMMENT ON COLUMN skipped_fires.fire_count     IS 'How many fire times the range holds, or at least holds.';
COMMENT ON COLUMN skipped_fires.is_count_exact IS 'False when the range was too long to count.';
COMMENT ON COLUMN skipped_fires.reason         IS 'Why they were skipped.';
COMMENT ON COLUMN skipped_fires.detail         IS 'The reason in words, where there is more to say.';
COMMENT ON COLUMN skipped_fires.term           IS 'Term of the leader that recorded it; NULL when the API did.';
COMMENT ON COLUMN skipped_fires.recorded_at    IS 'When, by the database clock.';

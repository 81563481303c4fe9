-- How the installation keeps house (SCH-7, FUN-8): what schedulers are told about retention stands here, so that the built-in jobs, which
-- run on workers, remove what the leader would remove and nothing else; and the mark by which the leader knows that they do.

CREATE TABLE housekeeping (
    is_only                 boolean     NOT NULL DEFAULT true,
    finished_days           integer     NOT NULL,
    dead_letter_days        integer     NOT NULL,
    audit_days              integer     NOT NULL,
    idempotency_key_seconds bigint      NOT NULL,
    history_expiry          text        NOT NULL,
    stale_scheduler_seconds bigint      NOT NULL,
    stale_worker_seconds    bigint      NOT NULL,
    told_at                 timestamptz NOT NULL DEFAULT clock_timestamp(),
    retained_at             timestamptz,
    CONSTRAINT housekeeping_pkey PRIMARY KEY (is_only),
    CONSTRAINT housekeeping_is_only_check CHECK (is_only),
    CONSTRAINT housekeeping_days_check CHECK (finished_days > 0 AND dead_letter_days >= finished_days AND audit_days >= finished_days),
    CONSTRAINT housekeeping_seconds_check CHECK (idempotency_key_seconds > 0 AND stale_scheduler_seconds > 0 AND stale_worker_seconds > 0),
    CONSTRAINT housekeeping_history_expiry_check CHECK (history_expiry IN ('drop', 'detach'))
);
COMMENT ON TABLE  housekeeping                         IS 'One row: how long things are kept, as the leader was told by its settings, for the built-in jobs; none until somebody has led.';
COMMENT ON COLUMN housekeeping.is_only                 IS 'True: there is one row.';
COMMENT ON COLUMN housekeeping.finished_days           IS 'Days for finished dispatches, skips, history and events.';
COMMENT ON COLUMN housekeeping.dead_letter_days        IS 'Days for dead letters.';
COMMENT ON COLUMN housekeeping.audit_days              IS 'Days for the audit log and the terms of leadership.';
COMMENT ON COLUMN housekeeping.idempotency_key_seconds IS 'How long the keys of triggers are remembered, in seconds.';
COMMENT ON COLUMN housekeeping.history_expiry          IS 'What becomes of old months of history: dropped, or detached for an archiver.';
COMMENT ON COLUMN housekeeping.stale_scheduler_seconds IS 'Silence after which a standby is removed from the list, in seconds.';
COMMENT ON COLUMN housekeeping.stale_worker_seconds    IS 'How long a worker that was given up stays in the list, in seconds.';
COMMENT ON COLUMN housekeeping.told_at                 IS 'When a leader last changed this, by the database clock.';
COMMENT ON COLUMN housekeeping.retained_at             IS 'When a built-in job last removed all that was due, by the database clock; long ago, or NULL, and the leader does it itself.';

COMMENT ON COLUMN scheduled_jobs.disabled_reason IS 'Why the scheduler disabled the job, or why a built-in job was not enabled from the start; NULL when a person disabled it, and while enabled.';

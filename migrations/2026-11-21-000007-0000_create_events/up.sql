-- What happened, for programs that follow along (events) and for auditors (audit_log).

CREATE TABLE events (
    id             bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    transaction_id xid8        NOT NULL DEFAULT pg_current_xact_id(),
    tenant_id      uuid,
    project_id     uuid,
    job_id         uuid,
    dispatch_id    uuid,
    event_type     text        NOT NULL,
    payload        jsonb       NOT NULL DEFAULT '{}',
    CONSTRAINT events_pkey PRIMARY KEY (id, created_at),
    CONSTRAINT events_event_type_check CHECK (event_type ~ '^[a-z]+(_[a-z]+)*$'),
    CONSTRAINT events_payload_check CHECK (jsonb_typeof(payload) = 'object')
) PARTITION BY RANGE (created_at);
CREATE TABLE events_default PARTITION OF events DEFAULT;
COMMENT ON TABLE  events                IS 'Durable stream of what happened, by month.';
COMMENT ON TABLE  events_default        IS 'Events of months that have no partition of their own yet.';
COMMENT ON COLUMN events.id             IS 'Position in the stream. Ids can commit out of order: see transaction_id.';
COMMENT ON COLUMN events.created_at     IS 'When, by the database clock.';
COMMENT ON COLUMN events.transaction_id IS 'The transaction that wrote it: a reader goes no further than the oldest transaction still running, and so skips nothing.';
COMMENT ON COLUMN events.tenant_id      IS 'Whose event it is; NULL for events of the installation.';
COMMENT ON COLUMN events.project_id     IS 'Project it concerns, if any.';
COMMENT ON COLUMN events.job_id         IS 'Job it concerns, if any.';
COMMENT ON COLUMN events.dispatch_id    IS 'Dispatch it concerns, if any.';
COMMENT ON COLUMN events.event_type     IS 'What happened.';
COMMENT ON COLUMN events.payload        IS 'Details, by type.';

CREATE TABLE audit_log (
    id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    tenant_id   uuid,
    actor       text        NOT NULL,
    action      text        NOT NULL,
    target_type text        NOT NULL,
    target_id   text        NOT NULL,
    before      jsonb,
    after       jsonb,
    request_id  text,
    CONSTRAINT audit_log_pkey PRIMARY KEY (id),
    CONSTRAINT audit_log_action_check CHECK (action ~ '^[a-z]+(_[a-z]+)*$')
);
CREATE INDEX audit_log_tenant_id_idx ON audit_log (tenant_id, id);
COMMENT ON TABLE  audit_log             IS 'Who changed what. Written in the transaction of the change; never updated.';
COMMENT ON COLUMN audit_log.id          IS 'Identifier.';
COMMENT ON COLUMN audit_log.created_at  IS 'When, by the database clock.';
COMMENT ON COLUMN audit_log.tenant_id   IS 'Tenant it happened in; NULL for the installation.';
COMMENT ON COLUMN audit_log.actor       IS 'Who did it: an e-mail, a key prefix, or a component.';
COMMENT ON COLUMN audit_log.action      IS 'What was done.';
COMMENT ON COLUMN audit_log.target_type IS 'Kind of thing it was done to.';
COMMENT ON COLUMN audit_log.target_id   IS 'Which one.';
COMMENT ON COLUMN audit_log.before      IS 'The thing before, without secrets; NULL if it was created.';
COMMENT ON COLUMN audit_log.after       IS 'The thing after, without secrets; NULL if it was removed.';
COMMENT ON COLUMN audit_log.request_id  IS 'Request that caused it, as in the logs.';

-- The months around now; the scheduler makes those that follow (db::partitions).
DO $$
DECLARE
    parent text;
    first  timestamptz;
BEGIN
    FOREACH parent IN ARRAY ARRAY['events'] LOOP
        FOR ahead IN 0..3 LOOP
            first := (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => ahead)) AT TIME ZONE 'UTC';
            EXECUTE format('CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%L) TO (%L)',
                parent || to_char(first AT TIME ZONE 'UTC', '"_y"YYYY"m"MM'), parent, first,
                (first AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
        END LOOP;
    END LOOP;
END $$;

-- Notifications: channels, rules and deliveries.
--
-- The leader reads the event stream from a stored position and matches events with rules. Each
-- delivery is sent by a run of the built-in job sched.notify.
CREATE TABLE notification_channels (
    tenant_id   uuid        NOT NULL,
    id          uuid        NOT NULL DEFAULT gen_random_uuid(),
    name        text        NOT NULL,
    description text        NOT NULL DEFAULT '',
    kind        text        NOT NULL,
    url         text,
    secret      text,
    addresses   text[]      NOT NULL DEFAULT '{}',
    is_active   boolean     NOT NULL DEFAULT true,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_src text        NOT NULL DEFAULT 'sql',
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_src text        NOT NULL DEFAULT 'sql',
    CONSTRAINT notification_channels_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT notification_channels_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT notification_channels_name_key UNIQUE (tenant_id, name),
    CONSTRAINT notification_channels_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT notification_channels_kind_check CHECK (kind IN ('webhook', 'chat', 'email')),
    CONSTRAINT notification_channels_target_check CHECK (CASE kind
        WHEN 'webhook' THEN url IS NOT NULL AND cardinality(addresses) = 0
        WHEN 'chat' THEN url IS NULL AND secret IS NOT NULL AND cardinality(addresses) = 0
        ELSE url IS NULL AND secret IS NULL AND cardinality(addresses) > 0 END),
    CONSTRAINT notification_channels_version_check CHECK (version > 0)
);
COMMENT ON TABLE notification_channels IS 'Destinations of a tenant''s notifications.';
COMMENT ON COLUMN notification_channels.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN notification_channels.id IS 'Identifier.';
COMMENT ON COLUMN notification_channels.name IS 'Stable name, unique in the tenant.';
COMMENT ON COLUMN notification_channels.description IS 'Free text.';
COMMENT ON COLUMN notification_channels.kind IS 'Transport of the channel.';
COMMENT ON COLUMN notification_channels.url IS 'URL of a webhook; NULL for other kinds.';
COMMENT ON COLUMN notification_channels.secret IS
    'Name of a secret of the tenant: signing key of a webhook (NULL if unsigned), or the URL of '
    'a chat.';
COMMENT ON COLUMN notification_channels.addresses IS 'E-mail recipients; empty for other kinds.';
COMMENT ON COLUMN notification_channels.is_active IS
    'Whether rules use it. Events in an inactive period are not sent later.';
COMMENT ON COLUMN notification_channels.version IS 'Increases with every change.';
COMMENT ON COLUMN notification_channels.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN notification_channels.created_src IS
    'Component or e-mail address that created the row.';
COMMENT ON COLUMN notification_channels.updated_at IS 'Last change, by the database clock.';
COMMENT ON COLUMN notification_channels.updated_src IS
    'Component or e-mail address of the last change.';

CREATE TABLE notification_rules (
    tenant_id            uuid        NOT NULL,
    id                   uuid        NOT NULL DEFAULT gen_random_uuid(),
    name                 text        NOT NULL,
    description          text        NOT NULL DEFAULT '',
    channel_id           uuid        NOT NULL,
    kinds                text[]      NOT NULL,
    project_id           uuid,
    job_id               uuid,
    min_interval_seconds integer     NOT NULL DEFAULT 0,
    is_active            boolean     NOT NULL DEFAULT true,
    active_since         timestamptz NOT NULL DEFAULT clock_timestamp(),
    version              bigint      NOT NULL DEFAULT 1,
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_src          text        NOT NULL DEFAULT 'sql',
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_src          text        NOT NULL DEFAULT 'sql',
    CONSTRAINT notification_rules_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT notification_rules_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    -- A channel that rules use cannot be deleted. A rule goes with the project or job it names.
    CONSTRAINT notification_rules_channel_fkey FOREIGN KEY (tenant_id, channel_id)
        REFERENCES notification_channels (tenant_id, id),
    CONSTRAINT notification_rules_project_fkey FOREIGN KEY (tenant_id, project_id)
        REFERENCES projects (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT notification_rules_job_fkey FOREIGN KEY (tenant_id, job_id)
        REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT notification_rules_name_key UNIQUE (tenant_id, name),
    CONSTRAINT notification_rules_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT notification_rules_kinds_check
        CHECK (cardinality(kinds) > 0 AND kinds <@ '{failure,dead_letter,missed,recovery}'::text[]),
    CONSTRAINT notification_rules_min_interval_check
        CHECK (min_interval_seconds BETWEEN 0 AND 604800),
    CONSTRAINT notification_rules_version_check CHECK (version > 0)
);
CREATE INDEX notification_rules_channel_idx ON notification_rules (tenant_id, channel_id);
CREATE INDEX notification_rules_job_idx ON notification_rules (tenant_id, job_id)
    WHERE job_id IS NOT NULL;
CREATE INDEX notification_rules_project_idx ON notification_rules (tenant_id, project_id)
    WHERE project_id IS NOT NULL;
COMMENT ON TABLE notification_rules IS 'Events to send, and the channel to send them to.';
COMMENT ON INDEX notification_rules_job_idx IS 'Rules to delete with a job.';
COMMENT ON INDEX notification_rules_project_idx IS 'Rules to delete with a project.';
COMMENT ON COLUMN notification_rules.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN notification_rules.id IS 'Identifier.';
COMMENT ON COLUMN notification_rules.name IS 'Stable name, unique in the tenant.';
COMMENT ON COLUMN notification_rules.description IS 'Free text.';
COMMENT ON COLUMN notification_rules.channel_id IS 'Destination channel.';
COMMENT ON COLUMN notification_rules.kinds IS
    'Kinds of events: failure, dead_letter, missed, recovery.';
COMMENT ON COLUMN notification_rules.project_id IS
    'Only jobs that were in this project at the time of the event; NULL for all.';
COMMENT ON COLUMN notification_rules.job_id IS 'Only this job; NULL for all.';
COMMENT ON COLUMN notification_rules.min_interval_seconds IS
    'Minimum seconds between two messages of one kind about one job; the next message counts the '
    'suppressed events. 0 sends everything.';
COMMENT ON COLUMN notification_rules.is_active IS 'Whether the rule sends anything.';
COMMENT ON COLUMN notification_rules.active_since IS
    'Creation or last activation. Earlier events are not sent.';
COMMENT ON COLUMN notification_rules.version IS 'Increases with every change.';
COMMENT ON COLUMN notification_rules.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN notification_rules.created_src IS
    'Component or e-mail address that created the row.';
COMMENT ON COLUMN notification_rules.updated_at IS 'Last change, by the database clock.';
COMMENT ON COLUMN notification_rules.updated_src IS
    'Component or e-mail address of the last change.';

CREATE TABLE notification_deliveries (
    tenant_id            uuid        NOT NULL,
    id                   uuid        NOT NULL,
    channel_id           uuid        NOT NULL,
    channel_name         text        NOT NULL,
    rule_id              uuid,
    rule_name            text,
    kind                 text        NOT NULL,
    event_transaction_id bigint,
    event_id             bigint,
    job_id               uuid,
    subject_dispatch_id  uuid,
    body                 jsonb       NOT NULL,
    held_back            integer     NOT NULL DEFAULT 0,
    status               text        NOT NULL DEFAULT 'waiting',
    dispatch_id          uuid,
    attempts             integer     NOT NULL DEFAULT 0,
    error_class          text,
    error_message        text,
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    reached              text[]      NOT NULL DEFAULT '{}',
    CONSTRAINT notification_deliveries_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT notification_deliveries_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT notification_deliveries_event_key
        UNIQUE (tenant_id, rule_id, event_transaction_id, event_id),
    CONSTRAINT notification_deliveries_kind_check
        CHECK (kind IN ('failure', 'dead_letter', 'missed', 'recovery', 'test')),
    CONSTRAINT notification_deliveries_test_iff_no_rule_check
        CHECK ((kind = 'test') = (rule_id IS NULL)),
    CONSTRAINT notification_deliveries_rule_iff_event_check
        CHECK ((rule_id IS NULL) = (event_id IS NULL)
            AND (event_id IS NULL) = (event_transaction_id IS NULL)),
    CONSTRAINT notification_deliveries_status_check
        CHECK (status IN ('waiting', 'sending', 'sent', 'failed')),
    CONSTRAINT notification_deliveries_body_check CHECK (jsonb_typeof(body) = 'object'),
    CONSTRAINT notification_deliveries_held_back_check CHECK (held_back >= 0),
    CONSTRAINT notification_deliveries_dispatch_check CHECK (CASE status
        WHEN 'waiting' THEN dispatch_id IS NULL
        WHEN 'failed' THEN true
        ELSE dispatch_id IS NOT NULL END)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX notification_deliveries_waiting_idx
    ON notification_deliveries (tenant_id, channel_id, id)
    WHERE status = 'waiting';
CREATE INDEX notification_deliveries_sending_idx ON notification_deliveries (tenant_id, channel_id)
    WHERE status = 'sending';
CREATE INDEX notification_deliveries_created_at_idx ON notification_deliveries (created_at);
COMMENT ON TABLE notification_deliveries IS
    'Messages with their delivery state. Kept as long as finished runs.';
COMMENT ON INDEX notification_deliveries_created_at_idx IS 'Messages to delete by age.';
COMMENT ON CONSTRAINT notification_deliveries_event_key ON notification_deliveries IS
    'A rule sends an event once, however often the event is read.';
COMMENT ON INDEX notification_deliveries_sending_idx IS 'Number of messages in flight per channel.';
COMMENT ON INDEX notification_deliveries_waiting_idx IS
    'Messages without a run, by channel and oldest first.';
COMMENT ON COLUMN notification_deliveries.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN notification_deliveries.id IS
    'Identifier (UUID version 7), the same for all attempts: receivers detect a repeated message '
    'by it.';
COMMENT ON COLUMN notification_deliveries.channel_id IS
    'Destination. The channel may have been deleted since.';
COMMENT ON COLUMN notification_deliveries.channel_name IS 'Name of the channel at that time.';
COMMENT ON COLUMN notification_deliveries.rule_id IS
    'Matching rule; NULL for a test. The rule may have been deleted since.';
COMMENT ON COLUMN notification_deliveries.rule_name IS
    'Name of the rule at that time; NULL for a test.';
COMMENT ON COLUMN notification_deliveries.kind IS 'Kind of message.';
COMMENT ON COLUMN notification_deliveries.event_transaction_id IS
    'Transaction of the event in the stream; NULL for a test.';
COMMENT ON COLUMN notification_deliveries.event_id IS
    'Position of the event in that transaction; NULL for a test.';
COMMENT ON COLUMN notification_deliveries.job_id IS 'Subject job; NULL for a test.';
COMMENT ON COLUMN notification_deliveries.subject_dispatch_id IS
    'Subject run; NULL for a test, or without a run.';
COMMENT ON COLUMN notification_deliveries.body IS 'Message, in the form that a webhook receives.';
COMMENT ON COLUMN notification_deliveries.held_back IS
    'Number of suppressed messages of the same kind and job since the previous message.';
COMMENT ON COLUMN notification_deliveries.status IS
    'waiting: no run yet; sending: has a run; sent; failed: given up.';
COMMENT ON COLUMN notification_deliveries.dispatch_id IS
    'Run of sched.notify that sends it; NULL while waiting, and if it was given up while waiting.';
COMMENT ON COLUMN notification_deliveries.attempts IS 'Number of ended attempts of that run.';
COMMENT ON COLUMN notification_deliveries.error_class IS
    'Error class of the last attempt; NULL if it did not fail.';
COMMENT ON COLUMN notification_deliveries.error_message IS
    'Error message of the last attempt; NULL if it did not fail.';
COMMENT ON COLUMN notification_deliveries.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN notification_deliveries.updated_at IS
    'Last change of the status, by the database clock.';
COMMENT ON COLUMN notification_deliveries.reached IS
    'Addresses whose server accepted the e-mail, so that a retry sends only to the remaining '
    'ones; empty for other kinds.';

CREATE TABLE notification_holds (
    tenant_id uuid        NOT NULL,
    rule_id   uuid        NOT NULL,
    job_id    uuid        NOT NULL,
    kind      text        NOT NULL,
    told_at   timestamptz NOT NULL,
    held_back integer     NOT NULL DEFAULT 0,
    CONSTRAINT notification_holds_pkey PRIMARY KEY (tenant_id, rule_id, job_id, kind),
    CONSTRAINT notification_holds_rule_fkey FOREIGN KEY (tenant_id, rule_id)
        REFERENCES notification_rules (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT notification_holds_held_back_check CHECK (held_back >= 0)
);
COMMENT ON TABLE notification_holds IS
    'Last message and suppressed ones, for rules with min_interval_seconds. Only the leader '
    'writes here.';
COMMENT ON COLUMN notification_holds.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN notification_holds.rule_id IS 'The rule.';
COMMENT ON COLUMN notification_holds.job_id IS 'Subject job.';
COMMENT ON COLUMN notification_holds.kind IS 'Kind of message.';
COMMENT ON COLUMN notification_holds.told_at IS 'Time of the event that was last sent.';
COMMENT ON COLUMN notification_holds.held_back IS 'Number of events suppressed since.';

CREATE TABLE notification_cursor (
    is_only        boolean     NOT NULL DEFAULT true,
    server         bigint      NOT NULL DEFAULT 0,
    transaction_id bigint      NOT NULL DEFAULT 0,
    event_id       bigint      NOT NULL DEFAULT 0,
    moved_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT notification_cursor_pkey PRIMARY KEY (is_only),
    CONSTRAINT notification_cursor_is_only_check CHECK (is_only)
) WITH (fillfactor = 10);
COMMENT ON TABLE notification_cursor IS
    'Position of the leader in the event stream; one row. All settled events before it have been '
    'matched with the rules.';
COMMENT ON COLUMN notification_cursor.is_only IS 'Always true: there is one row.';
COMMENT ON COLUMN notification_cursor.server IS
    'Server that the position belongs to; positions of another server mean nothing.';
COMMENT ON COLUMN notification_cursor.transaction_id IS 'Transaction in the stream.';
COMMENT ON COLUMN notification_cursor.event_id IS
    'Last processed event of that transaction; 0 before all of them.';
COMMENT ON COLUMN notification_cursor.moved_at IS 'Last move, by the database clock.';
INSERT INTO notification_cursor DEFAULT VALUES;

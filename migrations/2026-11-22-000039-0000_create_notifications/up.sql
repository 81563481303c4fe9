-- Notifications (API-6): where they go, what they are sent for, what was sent. New tables only. What a rule matches is found by the leader,
-- which reads the stream of events after a position that it keeps; each delivery is sent by a dispatch of the built-in job sched.notify.

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
    CONSTRAINT notification_channels_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT notification_channels_name_key UNIQUE (tenant_id, name),
    CONSTRAINT notification_channels_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT notification_channels_kind_check CHECK (kind IN ('webhook', 'chat', 'email')),
    CONSTRAINT notification_channels_target_check CHECK (CASE kind
        WHEN 'webhook' THEN url IS NOT NULL AND cardinality(addresses) = 0
        WHEN 'chat' THEN url IS NULL AND secret IS NOT NULL AND cardinality(addresses) = 0
        ELSE url IS NULL AND secret IS NULL AND cardinality(addresses) > 0 END),
    CONSTRAINT notification_channels_version_check CHECK (version > 0)
);
COMMENT ON TABLE  notification_channels             IS 'Where notifications of a tenant go.';
COMMENT ON COLUMN notification_channels.tenant_id   IS 'Owner.';
COMMENT ON COLUMN notification_channels.id          IS 'Identifier.';
COMMENT ON COLUMN notification_channels.name        IS 'Stable name, unique in the tenant.';
COMMENT ON COLUMN notification_channels.description IS 'Free text.';
COMMENT ON COLUMN notification_channels.kind        IS 'How it is reached.';
COMMENT ON COLUMN notification_channels.url         IS 'Where a webhook is sent; NULL for others.';
COMMENT ON COLUMN notification_channels.secret      IS 'Name of a secret of the tenant: with which webhooks are signed, NULL for unsigned ones; or which is the URL of a chat.';
COMMENT ON COLUMN notification_channels.addresses   IS 'To whom e-mail goes; empty for others.';
COMMENT ON COLUMN notification_channels.is_active   IS 'Whether rules use it; what happens meanwhile is not told later.';
COMMENT ON COLUMN notification_channels.version     IS 'Grows with every change.';
COMMENT ON COLUMN notification_channels.created_at  IS 'When it was created, by the database clock.';
COMMENT ON COLUMN notification_channels.created_src IS 'Which component or whose e-mail wrote the row first.';
COMMENT ON COLUMN notification_channels.updated_at  IS 'When it last changed, by the database clock.';
COMMENT ON COLUMN notification_channels.updated_src IS 'Which component or whose e-mail changed it last.';

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
    CONSTRAINT notification_rules_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    -- A channel that rules use stays; a rule goes with what alone it is about.
    CONSTRAINT notification_rules_channel_fkey FOREIGN KEY (tenant_id, channel_id) REFERENCES notification_channels (tenant_id, id),
    CONSTRAINT notification_rules_project_fkey FOREIGN KEY (tenant_id, project_id) REFERENCES projects (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT notification_rules_job_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT notification_rules_name_key UNIQUE (tenant_id, name),
    CONSTRAINT notification_rules_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT notification_rules_kinds_check CHECK (cardinality(kinds) > 0 AND kinds <@ '{failure,dead_letter,missed,recovery}'::text[]),
    CONSTRAINT notification_rules_min_interval_check CHECK (min_interval_seconds BETWEEN 0 AND 604800),
    CONSTRAINT notification_rules_version_check CHECK (version > 0)
);
CREATE INDEX notification_rules_channel_idx ON notification_rules (tenant_id, channel_id);
CREATE INDEX notification_rules_job_idx ON notification_rules (tenant_id, job_id) WHERE job_id IS NOT NULL;
CREATE INDEX notification_rules_project_idx ON notification_rules (tenant_id, project_id) WHERE project_id IS NOT NULL;
COMMENT ON TABLE  notification_rules                      IS 'What is told to whom.';
COMMENT ON INDEX  notification_rules_job_idx              IS 'For the end of a job.';
COMMENT ON INDEX  notification_rules_project_idx          IS 'For the end of a project.';
COMMENT ON COLUMN notification_rules.tenant_id            IS 'Owner.';
COMMENT ON COLUMN notification_rules.id                   IS 'Identifier.';
COMMENT ON COLUMN notification_rules.name                 IS 'Stable name, unique in the tenant.';
COMMENT ON COLUMN notification_rules.description          IS 'Free text.';
COMMENT ON COLUMN notification_rules.channel_id           IS 'Where it is told.';
COMMENT ON COLUMN notification_rules.kinds                IS 'What is told: failure, dead_letter, missed, recovery.';
COMMENT ON COLUMN notification_rules.project_id           IS 'Only of jobs that were in this project when it happened; NULL for all.';
COMMENT ON COLUMN notification_rules.job_id               IS 'Only of this job; NULL for all.';
COMMENT ON COLUMN notification_rules.min_interval_seconds IS 'Shortest time between two messages of one kind about one job; what happens meanwhile is counted in the next one. 0 tells everything.';
COMMENT ON COLUMN notification_rules.is_active            IS 'Whether it tells anything.';
COMMENT ON COLUMN notification_rules.active_since         IS 'Nothing that happened before this is told: when it was created or last switched on.';
COMMENT ON COLUMN notification_rules.version              IS 'Grows with every change.';
COMMENT ON COLUMN notification_rules.created_at           IS 'When it was created, by the database clock.';
COMMENT ON COLUMN notification_rules.created_src          IS 'Which component or whose e-mail wrote the row first.';
COMMENT ON COLUMN notification_rules.updated_at           IS 'When it last changed, by the database clock.';
COMMENT ON COLUMN notification_rules.updated_src          IS 'Which component or whose e-mail changed it last.';

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
    CONSTRAINT notification_deliveries_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT notification_deliveries_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT notification_deliveries_event_key UNIQUE (tenant_id, rule_id, event_transaction_id, event_id),
    CONSTRAINT notification_deliveries_kind_check CHECK (kind IN ('failure', 'dead_letter', 'missed', 'recovery', 'test')),
    CONSTRAINT notification_deliveries_test_iff_no_rule_check CHECK ((kind = 'test') = (rule_id IS NULL)),
    CONSTRAINT notification_deliveries_rule_iff_event_check CHECK ((rule_id IS NULL) = (event_id IS NULL)
        AND (event_id IS NULL) = (event_transaction_id IS NULL)),
    CONSTRAINT notification_deliveries_status_check CHECK (status IN ('waiting', 'sending', 'sent', 'failed')),
    CONSTRAINT notification_deliveries_waiting_iff_no_dispatch_check CHECK ((status = 'waiting') = (dispatch_id IS NULL)),
    CONSTRAINT notification_deliveries_body_check CHECK (jsonb_typeof(body) = 'object'),
    CONSTRAINT notification_deliveries_held_back_check CHECK (held_back >= 0)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX notification_deliveries_waiting_idx ON notification_deliveries (tenant_id, channel_id, id) WHERE status = 'waiting';
CREATE INDEX notification_deliveries_sending_idx ON notification_deliveries (tenant_id, channel_id) WHERE status = 'sending';
CREATE INDEX notification_deliveries_created_at_idx ON notification_deliveries (created_at);
COMMENT ON TABLE  notification_deliveries                      IS 'Messages: what was told, or is being told, and what became of it. Kept as long as finished dispatches.';
COMMENT ON CONSTRAINT notification_deliveries_event_key ON notification_deliveries IS 'A rule tells an event once, however often the event is read.';
COMMENT ON INDEX  notification_deliveries_waiting_idx          IS 'What has no dispatch yet, by channel and oldest first.';
COMMENT ON INDEX  notification_deliveries_sending_idx          IS 'How much is on its way to a channel.';
COMMENT ON INDEX  notification_deliveries_created_at_idx       IS 'Finds what is too old to be kept.';
COMMENT ON COLUMN notification_deliveries.tenant_id            IS 'Owner.';
COMMENT ON COLUMN notification_deliveries.id                   IS 'Identifier (UUID version 7), the same over all attempts: receivers know a repeated message by it.';
COMMENT ON COLUMN notification_deliveries.channel_id           IS 'Where it goes. The channel may have been deleted since.';
COMMENT ON COLUMN notification_deliveries.channel_name         IS 'Name of the channel then.';
COMMENT ON COLUMN notification_deliveries.rule_id              IS 'Which rule wanted it; NULL for a test. The rule may have been deleted since.';
COMMENT ON COLUMN notification_deliveries.rule_name            IS 'Name of the rule then; NULL for a test.';
COMMENT ON COLUMN notification_deliveries.kind                 IS 'What it tells.';
COMMENT ON COLUMN notification_deliveries.event_transaction_id IS 'Position of the event that it tells; NULL for a test.';
COMMENT ON COLUMN notification_deliveries.event_id             IS 'Position of the event within the transaction; NULL for a test.';
COMMENT ON COLUMN notification_deliveries.job_id               IS 'The job that it is about; NULL for a test.';
COMMENT ON COLUMN notification_deliveries.subject_dispatch_id  IS 'The run that it is about; NULL for a test and where there was none.';
COMMENT ON COLUMN notification_deliveries.body                 IS 'The message, as a webhook gets it.';
COMMENT ON COLUMN notification_deliveries.held_back            IS 'How many of the same kind about the same job were not told since the message before.';
COMMENT ON COLUMN notification_deliveries.status               IS 'waiting: has no dispatch yet; sending: has one; sent; failed: given up.';
COMMENT ON COLUMN notification_deliveries.dispatch_id          IS 'The dispatch of sched.notify that sends it; NULL while it waits for one.';
COMMENT ON COLUMN notification_deliveries.attempts             IS 'Attempts of that dispatch that have ended.';
COMMENT ON COLUMN notification_deliveries.error_class          IS 'Kind of error of the last attempt; NULL when none failed, or the last did not.';
COMMENT ON COLUMN notification_deliveries.error_message        IS 'What went wrong in the last attempt; NULL when none failed, or the last did not.';
COMMENT ON COLUMN notification_deliveries.created_at           IS 'When it was decided upon, by the database clock.';
COMMENT ON COLUMN notification_deliveries.updated_at           IS 'When its status last changed, by the database clock.';

CREATE TABLE notification_holds (
    tenant_id  uuid        NOT NULL,
    rule_id    uuid        NOT NULL,
    job_id     uuid        NOT NULL,
    kind       text        NOT NULL,
    told_at    timestamptz NOT NULL,
    held_back  integer     NOT NULL DEFAULT 0,
    CONSTRAINT notification_holds_pkey PRIMARY KEY (tenant_id, rule_id, job_id, kind),
    CONSTRAINT notification_holds_rule_fkey FOREIGN KEY (tenant_id, rule_id) REFERENCES notification_rules (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT notification_holds_held_back_check CHECK (held_back >= 0)
);
COMMENT ON TABLE  notification_holds           IS 'For rules with a min_interval_seconds: when something was last told, and what was not since. Written by the leader alone.';
COMMENT ON COLUMN notification_holds.tenant_id IS 'Owner.';
COMMENT ON COLUMN notification_holds.rule_id   IS 'The rule.';
COMMENT ON COLUMN notification_holds.job_id    IS 'The job that it is about.';
COMMENT ON COLUMN notification_holds.kind      IS 'What is told.';
COMMENT ON COLUMN notification_holds.told_at   IS 'When the event happened that was told last.';
COMMENT ON COLUMN notification_holds.held_back IS 'How many were not told since.';

CREATE TABLE notification_cursor (
    is_only        boolean     NOT NULL DEFAULT true,
    server         bigint      NOT NULL DEFAULT 0,
    transaction_id bigint      NOT NULL DEFAULT 0,
    event_id       bigint      NOT NULL DEFAULT 0,
    moved_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT notification_cursor_pkey PRIMARY KEY (is_only),
    CONSTRAINT notification_cursor_is_only_check CHECK (is_only)
) WITH (fillfactor = 10);
COMMENT ON TABLE  notification_cursor                IS 'How far the leader has read the stream of events for notifications; one row. All that settled before it has been matched with the rules there were.';
COMMENT ON COLUMN notification_cursor.is_only        IS 'Always true: there is one row.';
COMMENT ON COLUMN notification_cursor.server         IS 'Which server it is a position of; positions of another mean nothing here.';
COMMENT ON COLUMN notification_cursor.transaction_id IS 'Number of a transaction in the stream.';
COMMENT ON COLUMN notification_cursor.event_id       IS 'The last event of it that was read; 0 before all of them.';
COMMENT ON COLUMN notification_cursor.moved_at       IS 'When it last moved, by the database clock.';
INSERT INTO notification_cursor DEFAULT VALUES;

SELECT isolate_tenants(name::regclass)
FROM unnest(ARRAY['notification_channels', 'notification_cursor', 'notification_deliveries', 'notification_holds', 'notification_rules']) AS name;
GRANT SELECT, INSERT, UPDATE, DELETE ON notification_channels, notification_rules TO sched_api;
GRANT SELECT ON notification_deliveries TO sched_api;
-- All that the API asks for by itself is a test: what is told of jobs, only the leader says.
GRANT INSERT (tenant_id, id, channel_id, channel_name, kind, body) ON notification_deliveries TO sched_api;
CREATE POLICY tested ON notification_deliveries AS RESTRICTIVE FOR INSERT TO sched_api WITH CHECK (kind = 'test' AND status = 'waiting');

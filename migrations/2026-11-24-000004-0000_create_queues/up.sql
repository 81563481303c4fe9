-- Queues, and the usage that the limits of queues and the quotas of tenants are compared with.

CREATE TABLE queues (
    tenant_id                 uuid        NOT NULL,
    name                      text        NOT NULL,
    description               text        NOT NULL DEFAULT '',
    is_paused                 boolean     NOT NULL DEFAULT false,
    pause_reason              text,
    max_running               integer,
    rate_limit_count          integer,
    rate_limit_period_seconds integer,
    default_priority          smallint    NOT NULL DEFAULT 50,
    created_at                timestamptz NOT NULL DEFAULT now(),
    updated_at                timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT queues_pkey PRIMARY KEY (tenant_id, name),
    CONSTRAINT queues_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT queues_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT queues_pause_reason_check CHECK (pause_reason IS NULL OR is_paused),
    CONSTRAINT queues_max_running_check CHECK (max_running > 0),
    CONSTRAINT queues_rate_limit_check
        CHECK ((rate_limit_count IS NULL) = (rate_limit_period_seconds IS NULL) AND
            (rate_limit_count > 0) AND (rate_limit_period_seconds > 0)),
    CONSTRAINT queues_default_priority_check CHECK (default_priority BETWEEN 0 AND 100)
);
CREATE INDEX queues_apart_idx ON queues (name, tenant_id)
    WHERE is_paused OR max_running IS NOT NULL OR rate_limit_count IS NOT NULL;
COMMENT ON TABLE queues IS
    'Named queues of waiting runs. A worker serves queues by name, for all tenants.';
COMMENT ON INDEX queues_apart_idx IS 'Queues that are paused or limited; every claim reads them.';
COMMENT ON COLUMN queues.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN queues.name IS 'Stable name, unique in the tenant.';
COMMENT ON COLUMN queues.description IS 'Free text.';
COMMENT ON COLUMN queues.is_paused IS
    'Kill switch: while true, nothing is claimed from this queue.';
COMMENT ON COLUMN queues.pause_reason IS 'Reason of the pause, for people; NULL unless paused.';
COMMENT ON COLUMN queues.max_running IS
    'Maximum number of concurrent runs of the queue; NULL means no limit.';
COMMENT ON COLUMN queues.rate_limit_count IS
    'Maximum number of claims in any interval as long as the period; NULL means no limit.';
COMMENT ON COLUMN queues.rate_limit_period_seconds IS
    'Length of the rate-limit period, in seconds.';
COMMENT ON COLUMN queues.default_priority IS
    'Priority of runs whose job has none: 0 runs first, 100 last.';
COMMENT ON COLUMN queues.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN queues.updated_at IS 'Last change, by the database clock.';

-- A separate table, because claims lock and rewrite these rows, while foreign keys reference the
-- rows of queues.
CREATE TABLE queue_usage (
    tenant_id  uuid          NOT NULL,
    queue      text          NOT NULL,
    claimed_at timestamptz[] NOT NULL DEFAULT '{}',
    claimed    integer[]     NOT NULL DEFAULT '{}',
    CONSTRAINT queue_usage_pkey PRIMARY KEY (tenant_id, queue),
    CONSTRAINT queue_usage_queue_fkey FOREIGN KEY (tenant_id, queue)
        REFERENCES queues (tenant_id, name) ON DELETE CASCADE,
    CONSTRAINT queue_usage_claimed_check CHECK (cardinality(claimed_at) = cardinality(claimed))
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE queue_usage IS
    'Recent claims of each queue with a limit. A claim locks the row of its queue, so that '
    'limits hold under concurrency.';
COMMENT ON COLUMN queue_usage.tenant_id IS 'Owning tenant of the queue.';
COMMENT ON COLUMN queue_usage.queue IS 'The queue.';
COMMENT ON COLUMN queue_usage.claimed_at IS
    'Claim times within the rate-limit period, oldest first; at most one entry per tenth of the '
    'period: the last claim in it.';
COMMENT ON COLUMN queue_usage.claimed IS 'Number of claims per entry, in the same order.';

-- The leader rewrites the row at every tick that dispatches for the tenant.
CREATE TABLE tenant_usage (
    tenant_id  uuid        NOT NULL,
    minute     timestamptz NOT NULL,
    dispatched bigint      NOT NULL,
    CONSTRAINT tenant_usage_pkey PRIMARY KEY (tenant_id),
    CONSTRAINT tenant_usage_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT tenant_usage_dispatched_check CHECK (dispatched >= 0)
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tenant_usage IS
    'Runs dispatched per minute, only for tenants with the quota dispatches_per_minute.';
COMMENT ON COLUMN tenant_usage.tenant_id IS 'The tenant.';
COMMENT ON COLUMN tenant_usage.minute IS
    'The counted minute, by the database clock; an earlier minute counts as 0.';
COMMENT ON COLUMN tenant_usage.dispatched IS 'Runs that fires and triggers created in that minute.';

CREATE TABLE tenant_log_usage (
    tenant_id     uuid   NOT NULL,
    day           date   NOT NULL,
    kept_bytes    bigint NOT NULL,
    dropped_bytes bigint NOT NULL,
    granted_bytes bigint NOT NULL,
    CONSTRAINT tenant_log_usage_pkey PRIMARY KEY (tenant_id),
    CONSTRAINT tenant_log_usage_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT tenant_log_usage_bytes_check
        CHECK (kept_bytes >= granted_bytes AND dropped_bytes >= 0 AND granted_bytes >= 0)
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tenant_log_usage IS
    'Output kept per day, only for tenants with the quota log_bytes.';
COMMENT ON COLUMN tenant_log_usage.tenant_id IS 'The tenant.';
COMMENT ON COLUMN tenant_log_usage.day IS
    'The counted day (UTC), by the database clock; an earlier day counts as 0.';
COMMENT ON COLUMN tenant_log_usage.kept_bytes IS 'Output of attempts kept on that day, in bytes.';
COMMENT ON COLUMN tenant_log_usage.dropped_bytes IS
    'Output of attempts dropped on that day because the quota was used up, in bytes.';
COMMENT ON COLUMN tenant_log_usage.granted_bytes IS
    'Bytes kept by the latest statement that stored output.';

-- Every quota of tenants is in effect. Claims ask which tenants have one of what runs, so those stand in an index of their own, which is
-- nearly always empty.
ALTER TABLE tenants DROP CONSTRAINT tenants_known_quotas_check;
-- What was no number had no effect.
UPDATE tenants t
SET quotas = (SELECT coalesce(jsonb_object_agg(q.name, trunc(greatest(least((q.value #>> '{}')::numeric, 9007199254740991), 0))), '{}')
              FROM jsonb_each(t.quotas) AS q (name, value)
              WHERE jsonb_typeof(q.value) = 'number')
WHERE t.quotas <> '{}';
ALTER TABLE tenants ADD CONSTRAINT tenants_known_quotas_check CHECK (
    quotas - ARRAY['jobs', 'dispatches_per_minute', 'running_dispatches', 'log_bytes'] = '{}'
    AND NOT jsonb_path_exists(quotas, 'strict $.* ? (@.type() != "number")')
    AND NOT jsonb_path_exists(quotas, 'strict $.* ? (@ < 0 || @ > 9007199254740991 || @ != @.floor())'));
COMMENT ON CONSTRAINT tenants_known_quotas_check ON tenants IS 'Only known names, and whole numbers from 0 that every reader of JSON can hold.';
COMMENT ON COLUMN tenants.quotas IS 'Limits by name; a missing name means unlimited. jobs, dispatches_per_minute (fire times and triggers), running_dispatches, log_bytes (kept in a day, UTC).';
CREATE INDEX tenants_running_quota_idx ON tenants (id) WHERE quotas ? 'running_dispatches';
COMMENT ON INDEX tenants_running_quota_idx IS 'The tenants that may not run any number of dispatches at once: every claim asks for them.';
COMMENT ON COLUMN tenant_usage.dispatched IS 'Dispatches that fire times and triggers made for it in that minute.';

CREATE TABLE tenant_log_usage (
    tenant_id     uuid   NOT NULL,
    day           date   NOT NULL,
    kept_bytes    bigint NOT NULL,
    dropped_bytes bigint NOT NULL,
    granted_bytes bigint NOT NULL,
    CONSTRAINT tenant_log_usage_pkey PRIMARY KEY (tenant_id),
    CONSTRAINT tenant_log_usage_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT tenant_log_usage_bytes_check CHECK (kept_bytes >= granted_bytes AND dropped_bytes >= 0 AND granted_bytes >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE  tenant_log_usage               IS 'How much of its quota of output a tenant has used in one day; only of tenants that have such a quota.';
COMMENT ON COLUMN tenant_log_usage.tenant_id     IS 'The tenant.';
COMMENT ON COLUMN tenant_log_usage.day           IS 'The day (UTC) this counts, by the database clock; an earlier day than today counts nothing.';
COMMENT ON COLUMN tenant_log_usage.kept_bytes    IS 'Output of attempts that was kept on that day.';
COMMENT ON COLUMN tenant_log_usage.dropped_bytes IS 'Output of attempts that was not kept on that day, because the quota was used up.';
COMMENT ON COLUMN tenant_log_usage.granted_bytes IS 'How much was kept by the latest statement that stored output.';

DROP TABLE tenant_log_usage;
COMMENT ON COLUMN tenant_usage.dispatched IS 'Dispatches the scheduler made for it in that minute.';
DROP INDEX tenants_running_quota_idx;
ALTER TABLE tenants DROP CONSTRAINT tenants_known_quotas_check;
ALTER TABLE tenants ADD CONSTRAINT tenants_known_quotas_check CHECK (
    quotas - ARRAY['jobs', 'dispatches_per_minute', 'running_dispatches', 'log_bytes'] = '{}'
    AND CASE jsonb_typeof(quotas -> 'dispatches_per_minute')
            WHEN 'number' THEN (quotas ->> 'dispatches_per_minute')::numeric >= 0
                               AND trunc((quotas ->> 'dispatches_per_minute')::numeric) = (quotas ->> 'dispatches_per_minute')::numeric
            ELSE NOT quotas ? 'dispatches_per_minute' END);
COMMENT ON CONSTRAINT tenants_known_quotas_check ON tenants IS 'Only known names; dispatches_per_minute is a whole number from 0.';
COMMENT ON COLUMN tenants.quotas IS 'Limits by name (jobs, dispatches_per_minute, running_dispatches, log_bytes); a missing name means unlimited. In effect: dispatches_per_minute, for the fire times of schedules.';

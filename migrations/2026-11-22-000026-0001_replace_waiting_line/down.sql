COMMENT ON INDEX job_dispatch_waiting_idx IS NULL;
ALTER INDEX job_dispatch_waiting_idx RENAME TO job_dispatch_tenants_waiting_idx;
CREATE INDEX job_dispatch_waiting_idx ON job_dispatch (queue, priority, claimable_at, id) WHERE claimable_at IS NOT NULL;
COMMENT ON INDEX job_dispatch_waiting_idx IS 'The waiting line that claims read; holds waiting rows only, so its cost does not grow with history.';

-- Fire times that were missed, for missed_fires: few, among records of what was left out on purpose, which may be many.
CREATE INDEX CONCURRENTLY skipped_fires_missed_idx ON skipped_fires (tenant_id, job_id, first_fire_at) WHERE reason = 'misfire';

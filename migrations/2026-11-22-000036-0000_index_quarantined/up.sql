-- Jobs that the scheduler has disabled, which are few: whoever watches the installation counts them every few seconds.
CREATE INDEX CONCURRENTLY scheduled_jobs_quarantined_idx ON scheduled_jobs (id)
    WHERE NOT is_enabled AND deleted_at IS NULL AND disabled_reason IS NOT NULL;

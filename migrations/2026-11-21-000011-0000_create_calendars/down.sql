COMMENT ON COLUMN scheduled_jobs.start_at       IS 'No fire before this instant; NULL means no bound. Not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.end_at         IS 'No fire at or after this instant; NULL means no bound. Not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.max_runs       IS 'No fire after this many; NULL means no bound. Not in effect yet.';
COMMENT ON COLUMN scheduled_jobs.jitter_seconds IS 'Dispatches become available up to this much after the fire time, stable per job and fire time. Not in effect yet.';

ALTER TABLE scheduled_jobs
    DROP COLUMN calendars,
    DROP COLUMN calendar_roll,
    DROP COLUMN expected_duration_seconds,
    DROP COLUMN settled_until,
    DROP COLUMN fired_count;

DROP TABLE calendars;

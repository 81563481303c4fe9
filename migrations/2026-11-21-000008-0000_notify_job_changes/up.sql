-- A change of a job takes effect at once, whoever makes it: this trigger tells the leader to look.
-- It is a hint and no more; without it the leader looks at its next poll. The tick itself changes none of these columns.

CREATE FUNCTION notify_scheduled_jobs_changed() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('sched_jobs', '');
    RETURN NULL;
END $$;
COMMENT ON FUNCTION notify_scheduled_jobs_changed() IS 'Wakes the leader after jobs were written.';

CREATE TRIGGER scheduled_jobs_inserted AFTER INSERT ON scheduled_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION notify_scheduled_jobs_changed();
CREATE TRIGGER scheduled_jobs_settings_updated AFTER UPDATE OF version ON scheduled_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION notify_scheduled_jobs_changed();
COMMENT ON TRIGGER scheduled_jobs_inserted         ON scheduled_jobs IS 'A new job may be due before the next poll.';
COMMENT ON TRIGGER scheduled_jobs_settings_updated ON scheduled_jobs IS 'Changed settings carry a new version.';

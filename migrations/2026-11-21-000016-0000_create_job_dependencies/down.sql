COMMENT ON COLUMN job_dispatch.scheduled_for         IS 'The fire time, or when the trigger was made.';
COMMENT ON COLUMN job_dispatch.trigger_id            IS 'NULL for a fire time of the schedule; otherwise the id of this trigger, so that it never takes the place of a fire time.';
COMMENT ON COLUMN job_dispatch.scheduler_instance_id IS 'The leader that created it; NULL for triggers.';
COMMENT ON COLUMN job_dispatch.term                  IS 'The term of that leader; NULL for triggers.';

DROP TABLE job_ends;
DROP TABLE job_dependencies;
ALTER TABLE scheduled_jobs
    DROP COLUMN has_dependents,
    DROP COLUMN after_mode,
    DROP COLUMN after;

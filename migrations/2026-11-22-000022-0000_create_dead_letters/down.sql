DROP TABLE dead_letters;
ALTER TABLE job_dispatch DROP COLUMN retry_of;
COMMENT ON COLUMN job_dispatch.scheduled_for IS 'The fire time; for a trigger, when it was made; for a dependency, when the other job ended.';
COMMENT ON COLUMN job_dispatch.trigger_id    IS 'NULL for a fire time of the schedule; for a dependency, the dispatch whose end made this one; otherwise the id of this trigger, so that it never takes the place of a fire time.';

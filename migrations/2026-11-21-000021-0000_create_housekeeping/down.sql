-- The built-in functions would find no worker of an older release that runs them.
DELETE FROM scheduled_jobs j USING task_functions f WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_system;
DELETE FROM task_functions WHERE is_system;
COMMENT ON COLUMN scheduled_jobs.disabled_reason IS 'Why the scheduler disabled the job; NULL when a person did or while enabled.';
DROP TABLE housekeeping;

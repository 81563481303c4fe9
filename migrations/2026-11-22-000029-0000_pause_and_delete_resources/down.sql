-- What was deleted keeps its row, under a name that it does not share with what took its own.
UPDATE task_functions SET name = left(name, 60) || '.deleted.' || left(id::text, 8) WHERE deleted_at IS NOT NULL;
DROP INDEX task_functions_name_key;
ALTER TABLE task_functions DROP CONSTRAINT task_functions_deleted_is_inactive_check;
ALTER TABLE task_functions DROP COLUMN deleted_at;
ALTER TABLE task_functions DROP COLUMN pause_reason;
ALTER TABLE task_functions ADD CONSTRAINT task_functions_name_key UNIQUE (tenant_id, name);
COMMENT ON COLUMN task_functions.name IS 'Stable name, unique in the tenant; jobs refer to it.';

UPDATE projects SET name = left(name, 60) || '.deleted.' || left(id::text, 8) WHERE deleted_at IS NOT NULL;
DROP INDEX projects_name_key;
ALTER TABLE projects DROP CONSTRAINT projects_deleted_is_not_paused_check;
ALTER TABLE projects DROP COLUMN deleted_at;
ALTER TABLE projects ADD CONSTRAINT projects_name_key UNIQUE (tenant_id, name);
COMMENT ON TABLE  projects      IS 'Groups of jobs within a tenant. Deleting a project deletes its jobs.';
COMMENT ON COLUMN projects.name IS 'Stable name, unique in the tenant.';

ALTER TABLE tenants DROP COLUMN pause_reason;

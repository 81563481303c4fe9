-- What projects, functions and tenants need to be paused with a reason and deleted. A deleted project or function keeps its row, since
-- the jobs that were in it or ran it, deleted themselves, keep theirs with their history; its name may be given to another.
-- These tables are small, and no index or constraint that jobs and dispatches refer to is touched.
ALTER TABLE tenants ADD COLUMN pause_reason text;
ALTER TABLE tenants ADD CONSTRAINT tenants_pause_reason_check CHECK (pause_reason IS NULL OR is_paused);
COMMENT ON COLUMN tenants.pause_reason IS 'Why it is paused, for people; NULL unless paused.';

ALTER TABLE projects ADD COLUMN deleted_at timestamptz;
ALTER TABLE projects DROP CONSTRAINT projects_name_key;
CREATE UNIQUE INDEX projects_name_key ON projects (tenant_id, name) WHERE deleted_at IS NULL;
ALTER TABLE projects ADD CONSTRAINT projects_deleted_is_not_paused_check CHECK (deleted_at IS NULL OR NOT is_paused);
COMMENT ON TABLE  projects            IS 'Groups of jobs within a tenant. Deleting a project deletes its jobs; their history stays.';
COMMENT ON COLUMN projects.name       IS 'Stable name, unique in the tenant among projects that are not deleted.';
COMMENT ON COLUMN projects.deleted_at IS 'When it was deleted; NULL while it is there.';

ALTER TABLE task_functions ADD COLUMN pause_reason text;
ALTER TABLE task_functions ADD COLUMN deleted_at timestamptz;
ALTER TABLE task_functions DROP CONSTRAINT task_functions_name_key;
CREATE UNIQUE INDEX task_functions_name_key ON task_functions (tenant_id, name) WHERE deleted_at IS NULL;
ALTER TABLE task_functions ADD CONSTRAINT task_functions_pause_reason_check CHECK (pause_reason IS NULL OR is_paused);
ALTER TABLE task_functions ADD CONSTRAINT task_functions_deleted_is_inactive_check
    CHECK (deleted_at IS NULL OR NOT (is_active OR is_paused OR is_system));
COMMENT ON COLUMN task_functions.name         IS 'Stable name, unique in the tenant among functions that are not deleted; jobs refer to it.';
COMMENT ON COLUMN task_functions.pause_reason IS 'Why it is paused, for people; NULL unless paused.';
COMMENT ON COLUMN task_functions.deleted_at   IS 'When it was deleted; NULL while it is there. Only deleted jobs run it then.';

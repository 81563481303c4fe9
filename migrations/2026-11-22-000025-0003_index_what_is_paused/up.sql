-- Whether any project or function is paused: every claim asks, and only while one is does it look at the job of each dispatch. A paused
-- function stops claims as a paused queue, project or tenant does.
CREATE INDEX projects_paused_idx ON projects (tenant_id, id) WHERE is_paused;
COMMENT ON INDEX projects_paused_idx IS 'The projects that are paused: every claim asks whether there is one.';
CREATE INDEX task_functions_paused_idx ON task_functions (tenant_id, id) WHERE is_paused;
COMMENT ON INDEX task_functions_paused_idx IS 'The functions that are paused: every claim asks whether there is one.';
COMMENT ON COLUMN task_functions.is_paused IS 'Kill switch: while true no job of this function is dispatched or claimed.';

COMMENT ON COLUMN task_functions.is_paused IS 'Kill switch: while true no job of this function is dispatched.';
DROP INDEX task_functions_paused_idx;
DROP INDEX projects_paused_idx;

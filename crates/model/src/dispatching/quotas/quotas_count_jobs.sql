SELECT count(*)
FROM scheduled_jobs j
WHERE j.tenant_id = $1 AND j.deleted_at IS NULL
  AND (j.scope = 'project'
       OR NOT EXISTS (SELECT 1 FROM task_functions f WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_system))

SELECT j.tenant_id, j.id
FROM scheduled_jobs j
WHERE j.queued_dispatches > 0
  AND (j.overlap_policy = 'allow' OR j.active_dispatches - j.queued_dispatches < j.max_instances)
  -- What a pause holds is not let go by anybody.
  AND NOT EXISTS (SELECT 1 FROM task_functions f WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_paused)
  AND NOT EXISTS (SELECT 1 FROM projects o WHERE o.tenant_id = j.tenant_id AND o.id = j.project_id AND o.is_paused)
ORDER BY j.tenant_id, j.id
LIMIT $1
FOR NO KEY UPDATE SKIP LOCKED

-- Jobs whose overlap queue has room and was not released. A pause keeps its queue as it is. The
-- room is read again under the lock when the queue is released.
SELECT j.tenant_id, j.id
FROM scheduled_jobs j
JOIN room r ON r.tenant_id = j.tenant_id AND r.id = j.id
WHERE j.queued_dispatches > 0
  AND coalesce(r.room > 0, true)
  AND NOT EXISTS (SELECT 1 FROM task_functions f
                  WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_paused)
  AND NOT EXISTS (SELECT 1 FROM projects o
                  WHERE o.tenant_id = j.tenant_id AND o.id = j.project_id AND o.is_paused)
ORDER BY j.tenant_id, j.id
LIMIT $1
FOR NO KEY UPDATE OF j SKIP LOCKED

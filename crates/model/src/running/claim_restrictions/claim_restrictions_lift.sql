-- Clears the flag if no claim needs it. An earlier statement has locked the row, so this snapshot
-- contains every pause and limit that set the flag. The conditions are those of the triggers.
UPDATE claim_restrictions
SET is_restricted = false
WHERE is_restricted
  AND NOT EXISTS (SELECT FROM tenants t WHERE t.is_paused)
  AND NOT EXISTS (SELECT FROM tenants t WHERE t.quotas ? 'running_dispatches')
  AND NOT EXISTS (SELECT FROM projects o WHERE o.is_paused)
  AND NOT EXISTS (SELECT FROM task_functions f WHERE f.is_paused)
  AND NOT EXISTS (SELECT FROM queues q WHERE q.is_paused OR q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL)
RETURNING is_restricted

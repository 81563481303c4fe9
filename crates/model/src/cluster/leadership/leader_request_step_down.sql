-- A second request in one term keeps the first.
UPDATE scheduler_instances
SET step_down_requested_at = CASE WHEN step_down_term = term THEN step_down_requested_at ELSE clock_timestamp() END,
    step_down_term = term
WHERE is_leader
RETURNING id

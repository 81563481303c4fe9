UPDATE scheduler_instances
SET last_heartbeat = clock_timestamp(), clock_offset_seconds = $1
WHERE id = $2
RETURNING term, leader_since, step_down_term, last_heartbeat

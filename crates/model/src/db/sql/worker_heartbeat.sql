UPDATE worker_registration
SET last_heartbeat = clock_timestamp(), status = $1, running = $2, jobs_processed = $3
WHERE worker_id = $4 AND status <> 'OFFLINE'
RETURNING drain_requested_at

UPDATE worker_registration
SET status = 'OFFLINE', offline_since = clock_timestamp(), running = 0
WHERE worker_id = $1 AND status <> 'OFFLINE'
RETURNING worker_id

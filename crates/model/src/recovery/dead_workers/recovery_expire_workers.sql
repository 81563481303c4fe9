UPDATE worker_registration
SET status = 'OFFLINE', offline_since = clock_timestamp(), running = 0
WHERE status <> 'OFFLINE' AND abs(extract(epoch FROM clock_timestamp() - last_heartbeat)) > greatest($1, lease_ms / 1000.0)
RETURNING worker_id, hostname

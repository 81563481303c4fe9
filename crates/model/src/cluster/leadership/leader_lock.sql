SELECT term, abs(extract(epoch FROM clock_timestamp() - last_heartbeat)) > $1 AS is_expired
FROM scheduler_instances
WHERE is_leader
FOR UPDATE

DELETE FROM scheduler_instances
WHERE NOT is_leader AND abs(extract(epoch FROM clock_timestamp() - last_heartbeat)) > $1
RETURNING id

UPDATE worker_registration
SET last_heartbeat = clock_timestamp(), status = $1, running = $2, jobs_processed = $3, lease_ms = $4
WHERE worker_id = $5 AND status <> 'OFFLINE'
RETURNING drain_requested_at,
          -- Time since the leader's last heartbeat; at most one row is a leader's.
          (SELECT abs(extract(epoch FROM clock_timestamp() - s.last_heartbeat))::float8 FROM scheduler_instances s WHERE s.is_leader),
          (SELECT count(*)::integer FROM (SELECT FROM worker_registration o WHERE o.status <> 'OFFLINE' AND o.queues && worker_registration.queues LIMIT $6) AS living)

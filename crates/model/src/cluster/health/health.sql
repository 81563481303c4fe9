SELECT clock_timestamp(),
       (SELECT extract(epoch FROM clock_timestamp() - s.last_heartbeat)::float8 FROM scheduler_instances s WHERE s.is_leader),
       (SELECT s.term FROM scheduler_instances s WHERE s.is_leader),
       coalesce((SELECT s.failing_tasks FROM scheduler_instances s WHERE s.is_leader), '{}'),
       -- Only schedulers with a heartbeat within the lease, as in leader_has_standby.sql.
       (SELECT count(*) FROM scheduler_instances s WHERE abs(extract(epoch FROM clock_timestamp() - s.last_heartbeat)) <= $1),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'IDLE'),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'BUSY'),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'DRAINING'),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'OFFLINE'),
       h.oldest_due, h.quarantined,
       (SELECT max(extract(epoch FROM clock_timestamp() - w.last_heartbeat))::float8 FROM worker_registration w WHERE w.status <> 'OFFLINE')
FROM installation_health() AS h

SELECT clock_timestamp(),
       (SELECT extract(epoch FROM clock_timestamp() - s.last_heartbeat)::float8 FROM scheduler_instances s WHERE s.is_leader),
       (SELECT s.term FROM scheduler_instances s WHERE s.is_leader),
       (SELECT count(*) FROM scheduler_instances),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'IDLE'),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'BUSY'),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'DRAINING'),
       (SELECT count(*) FROM worker_registration w WHERE w.status = 'OFFLINE'),
       h.oldest_due, h.quarantined
FROM installation_health() AS h

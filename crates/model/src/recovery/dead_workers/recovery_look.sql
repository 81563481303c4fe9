-- Runs at every check, so it is one statement.
SELECT EXISTS (SELECT 1 FROM worker_registration
               WHERE status <> 'OFFLINE'
                 AND abs(extract(epoch FROM clock_timestamp() - last_heartbeat)) > greatest($1, lease_ms / 1000.0)),
       EXISTS (SELECT 1 FROM worker_registration w JOIN worker_claims c ON c.worker_id = w.worker_id WHERE w.status = 'OFFLINE')

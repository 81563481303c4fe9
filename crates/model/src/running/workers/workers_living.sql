SELECT count(*) FROM worker_registration WHERE status <> 'OFFLINE'

DELETE FROM unserved_queues u
WHERE u.queue <> ALL ($1::text[])
RETURNING u.queue, u.since,
          EXISTS (SELECT 1 FROM worker_registration r WHERE u.queue = ANY (r.queues) AND r.status IN ('IDLE', 'BUSY'))

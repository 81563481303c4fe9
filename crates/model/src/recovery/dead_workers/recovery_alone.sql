-- For a worker that recovers because nobody leads: one at a time, for the length of the transaction, and none beside a leader that lives.
SELECT pg_try_advisory_xact_lock(7954884597190421363)
       AND NOT EXISTS (SELECT 1 FROM scheduler_instances
                       WHERE is_leader AND abs(extract(epoch FROM clock_timestamp() - last_heartbeat)) <= $1)

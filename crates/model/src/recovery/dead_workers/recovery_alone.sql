-- For a worker that recovers because there is no leader: one worker at a time, for the length of
-- the transaction, and not beside a live leader.
SELECT pg_try_advisory_xact_lock(7954884597190421363)
       AND NOT EXISTS (SELECT 1 FROM scheduler_instances
                       WHERE is_leader AND abs(extract(epoch FROM clock_timestamp() - last_heartbeat)) <= $1)

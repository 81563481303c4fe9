-- Waiting dispatches that may expire, by what they are now known by. job_dispatch_expires_at_idx serves daemons of the release before and
-- goes in the next; both are empty where no job sets start_within_seconds.
CREATE INDEX CONCURRENTLY job_dispatch_expiring_idx ON job_dispatch (expires_at)
    WHERE expires_at IS NOT NULL AND claimable_at IS NOT NULL AND attempt = unstarted_count;

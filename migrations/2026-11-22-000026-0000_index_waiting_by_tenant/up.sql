-- The waiting line, ordered by tenant within a queue: a claim finds the tenants by leaping from one to the next and takes from each its
-- share, and the whole line of a tenant or queue that is paused or limited is passed over in one step. What stands in line behind
-- others of its job is not in it: job_dispatch_line_idx holds that. Made beside the line that running workers read, and without a lock
-- that would hold them up; the next migration puts it in the place of that one.
CREATE INDEX CONCURRENTLY job_dispatch_tenants_waiting_idx ON job_dispatch (queue, tenant_id, priority, claimable_at, id)
    WHERE claimable_at < 'infinity';

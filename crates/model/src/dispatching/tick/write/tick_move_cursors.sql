-- Compare-and-set: a cursor that does not have the value that was read is not moved, and the caller
-- rolls back. No column here is one that a trigger names.
UPDATE scheduled_jobs j
SET next_run_at = u.next_run_at,
    settled_until = greatest(j.settled_until, u.settled_until),
    fired_count = j.fired_count + u.dispatched,
    tzdata_version = CASE WHEN u.next_run_at IS NULL THEN j.tzdata_version ELSE u.tzdata_version END,
    last_dispatched_at = CASE WHEN u.dispatched > 0 THEN clock_timestamp() ELSE j.last_dispatched_at END,
    total_run_count = j.total_run_count + u.dispatched,
    active_dispatches = j.active_dispatches + u.dispatched,
    queued_dispatches = j.queued_dispatches + u.in_line,
    last_fire_at = coalesce(u.last_fire_at, j.last_fire_at),
    -- A transaction that only moves the cursor leaves a hold unchanged.
    dispatch_lock_until = CASE WHEN u.settled_until IS NULL THEN j.dispatch_lock_until END
FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::integer[], $6::text[], $7::timestamptz[],
            $8::integer[], $9::timestamptz[])
    AS u (tenant_id, id, from_run_at, next_run_at, dispatched, tzdata_version, settled_until, in_line, last_fire_at)
WHERE j.tenant_id = u.tenant_id AND j.id = u.id AND j.next_run_at = u.from_run_at
RETURNING j.id

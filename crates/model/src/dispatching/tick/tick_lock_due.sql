-- Locks first and joins afterwards. With the join first, the planner may sort all due jobs to find
-- the first of them.
WITH due AS MATERIALIZED (
    SELECT j.*, NULL::text AS edition
    FROM scheduled_jobs j
    WHERE j.next_run_at IS NOT NULL AND greatest(j.next_run_at, j.dispatch_lock_until) <= $1
    ORDER BY greatest(j.next_run_at, j.dispatch_lock_until), j.burst_order
    LIMIT $2 OFFSET $3
    FOR NO KEY UPDATE SKIP LOCKED
)

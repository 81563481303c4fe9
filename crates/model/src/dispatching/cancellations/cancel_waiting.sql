-- As cancel_dispatches, for all waiting runs of one job, which the caller has locked. They are
-- found by an index of waiting runs, for any fire times: a retry has the fire time of the run that
-- it repeats, which may be very old. A run that is claimed while this statement waits for it is
-- running, and continues.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::text AS message),
held AS MATERIALIZED (
    SELECT d.id, d.claimable_at = 'infinity' AS is_in_line
    FROM input
    JOIN job_dispatch d ON d.job_id = input.job_id
    WHERE d.claimable_at IS NOT NULL AND d.status = 'PENDING'
    ORDER BY d.id
    FOR UPDATE OF d
),
cancelled AS (
    UPDATE job_dispatch d
    SET status = 'CANCELLED',
        claimable_at = NULL,
        completed_at = clock_timestamp(),
        cancel_requested_at = coalesce(d.cancel_requested_at, clock_timestamp()),
        error_message = input.message
    FROM held h, input
    WHERE d.id = h.id AND d.status = 'PENDING'
    RETURNING d.id, d.tenant_id, d.job_id, h.is_in_line
),
closed AS (
    SELECT c.tenant_id, c.job_id, count(*)::integer AS closed, (count(*) FILTER (WHERE c.is_in_line))::integer AS from_line
    FROM cancelled c
    GROUP BY c.tenant_id, c.job_id
),
-- A closed run may be one that the counters do not contain yet.
opened AS (
    DELETE FROM uncounted_openings o
    USING closed c
    WHERE o.tenant_id = c.tenant_id AND o.job_id = c.job_id
    RETURNING o.tenant_id, o.job_id, o.opened, o.opened_at
),
counted AS (
    UPDATE scheduled_jobs j
    SET active_dispatches = greatest(j.active_dispatches + b.opened - b.closed, 0),
        queued_dispatches = least(greatest(j.queued_dispatches - b.from_line, 0), greatest(j.active_dispatches + b.opened - b.closed, 0)),
        total_run_count = j.total_run_count + b.opened,
        last_dispatched_at = greatest(j.last_dispatched_at, b.opened_at),
        last_status = 'CANCELLED'
    FROM (SELECT c.*, n.opened, n.opened_at
          FROM closed c
          CROSS JOIN LATERAL (SELECT coalesce(sum(o.opened), 0)::integer AS opened, max(o.opened_at) AS opened_at
                              FROM opened o WHERE o.tenant_id = c.tenant_id AND o.job_id = c.job_id) AS n) AS b
    WHERE j.tenant_id = b.tenant_id AND j.id = b.job_id
)
SELECT c.id FROM cancelled c ORDER BY c.id

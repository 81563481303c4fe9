-- As cancel_dispatches, of all that waits of one job, which the caller has locked. The open dispatches are among its latest, and there are
-- no more of them than the job counts. One that is claimed while this waits for it runs, and goes on.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::text AS message),
open AS MATERIALIZED (
    SELECT latest.id
    FROM input i
    JOIN scheduled_jobs j ON j.tenant_id = i.tenant_id AND j.id = i.job_id
    CROSS JOIN LATERAL (
        SELECT d.id FROM job_dispatch d
        WHERE d.job_id = i.job_id AND d.completed_at IS NULL
        ORDER BY d.scheduled_for DESC
        LIMIT j.active_dispatches
    ) AS latest
),
held AS MATERIALIZED (
    SELECT d.id, d.claimable_at = 'infinity' AS is_in_line
    FROM job_dispatch d
    WHERE d.id IN (SELECT o.id FROM open o) AND d.status = 'PENDING'
    ORDER BY d.id
    FOR UPDATE
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
counted AS (
    UPDATE scheduled_jobs j
    SET active_dispatches = greatest(j.active_dispatches - b.closed, 0),
        queued_dispatches = least(greatest(j.queued_dispatches - b.from_line, 0), greatest(j.active_dispatches - b.closed, 0)),
        last_status = 'CANCELLED'
    FROM (SELECT c.tenant_id, c.job_id, count(*)::integer AS closed, (count(*) FILTER (WHERE c.is_in_line))::integer AS from_line
          FROM cancelled c GROUP BY c.tenant_id, c.job_id) AS b
    WHERE j.tenant_id = b.tenant_id AND j.id = b.job_id
)
SELECT c.id FROM cancelled c ORDER BY c.id

-- What waits is closed at once; what runs is asked to stop, and closed by its worker. A dispatch that is claimed while this runs is
-- judged as it then is: the row is read again under its lock.
WITH input AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) AS u (tenant_id, job_id, most)
),
oldest AS (
    SELECT i.tenant_id, i.job_id, o.id, o.claimable_at = 'infinity' AS is_in_line
    FROM input i
    JOIN scheduled_jobs j ON j.tenant_id = i.tenant_id AND j.id = i.job_id
    CROSS JOIN LATERAL (
        SELECT latest.id, latest.claimable_at
        FROM (SELECT d.id, d.scheduled_for, d.claimable_at
              FROM job_dispatch d
              WHERE d.job_id = i.job_id AND d.completed_at IS NULL
              ORDER BY d.scheduled_for DESC
              LIMIT j.active_dispatches) AS latest
        ORDER BY latest.scheduled_for, latest.id
        LIMIT i.most
    ) AS o
),
cancelled AS (
    UPDATE job_dispatch d
    SET status = CASE WHEN d.status = 'PENDING' THEN 'CANCELLED' ELSE d.status END,
        claimable_at = NULL,
        completed_at = CASE WHEN d.status = 'PENDING' THEN clock_timestamp() END,
        cancel_requested_at = coalesce(d.cancel_requested_at, clock_timestamp()),
        error_message = 'cancelled: a later fire of the job took its place (overlap policy cancel_oldest)'
    FROM oldest o
    WHERE d.id = o.id AND d.completed_at IS NULL
    RETURNING d.tenant_id, d.job_id, d.worker_id, d.status, o.is_in_line
),
by_job AS (
    SELECT c.tenant_id, c.job_id, count(*)::integer AS closed, (count(*) FILTER (WHERE c.is_in_line))::integer AS from_line
    FROM cancelled c WHERE c.status = 'CANCELLED'
    GROUP BY c.tenant_id, c.job_id
),
counted AS (
    UPDATE scheduled_jobs j
    SET active_dispatches = greatest(j.active_dispatches - b.closed, 0),
        queued_dispatches = least(greatest(j.queued_dispatches - b.from_line, 0), greatest(j.active_dispatches - b.closed, 0)),
        last_status = 'CANCELLED'
    FROM by_job b
    WHERE j.tenant_id = b.tenant_id AND j.id = b.job_id
)
SELECT DISTINCT c.worker_id FROM cancelled c WHERE c.status = 'IN_PROGRESS'

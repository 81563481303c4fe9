-- Closes waiting runs at once. Marks running runs once; their workers close them. A run that is
-- marked already counts among the oldest and stays as it is. A run that is claimed while this
-- statement runs is judged by its new state: the row is read again under its lock. Open runs are
-- found as in cancel_open.sql, without reading finished ones: a retry has the fire time of the run
-- that it repeats, however old. Running runs are read once for all jobs.
WITH input AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) AS u (tenant_id, job_id, most)
),
running AS MATERIALIZED (
    SELECT d.tenant_id, d.job_id, d.id, d.scheduled_for, d.claimable_at
    FROM worker_claims c
    CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
    JOIN job_dispatch d ON d.id = u.id
    WHERE d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS' AND d.job_id = ANY (ARRAY(SELECT i.job_id FROM input i))
),
open AS (
    SELECT d.tenant_id, d.job_id, d.id, d.scheduled_for, d.claimable_at
    FROM input i
    JOIN job_dispatch d ON d.job_id = i.job_id
    WHERE d.claimable_at IS NOT NULL
    UNION
    SELECT * FROM running
),
oldest AS (
    SELECT ranked.*
    FROM (
        SELECT i.tenant_id, i.job_id, i.most, o.id, o.claimable_at = 'infinity' AS is_in_line,
               row_number() OVER (PARTITION BY i.job_id ORDER BY o.scheduled_for, o.id) AS nth
        FROM input i
        JOIN open o ON o.job_id = i.job_id AND o.tenant_id = i.tenant_id
    ) AS ranked
    WHERE ranked.nth <= ranked.most
),
cancelled AS (
    UPDATE job_dispatch d
    SET status = CASE WHEN d.status = 'PENDING' THEN 'CANCELLED' ELSE d.status END,
        claimable_at = NULL,
        completed_at = CASE WHEN d.status = 'PENDING' THEN clock_timestamp() END,
        cancel_requested_at = clock_timestamp(),
        error_message = 'cancelled: a later fire of the job took its place (overlap policy cancel_oldest)'
    FROM oldest o
    WHERE d.id = o.id AND d.completed_at IS NULL AND d.cancel_requested_at IS NULL
    RETURNING d.id, d.tenant_id, d.job_id, d.worker_id, d.status, o.is_in_line
),
told AS (
    INSERT INTO events (tenant_id, project_id, job_id, dispatch_id, event_type, payload)
    SELECT c.tenant_id, j.project_id, c.job_id, c.id, CASE c.status WHEN 'CANCELLED' THEN 'dispatch_cancelled' ELSE 'dispatch_cancel_requested' END,
           jsonb_build_object('job_name', j.name, 'by', 'scheduler',
                              'reason', 'a later fire of the job took its place (overlap policy cancel_oldest)')
    FROM cancelled c
    JOIN scheduled_jobs j ON j.tenant_id = c.tenant_id AND j.id = c.job_id
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

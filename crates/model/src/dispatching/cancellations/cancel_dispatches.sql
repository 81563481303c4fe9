-- As cancel_oldest, for named runs of one job, in the order of their ids. The caller has locked the
-- job. A run that is claimed while this statement waits for it is judged by its new state. A run
-- that is marked already stays as it is.
WITH input AS (
    SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::uuid[] AS ids, $4::text AS message
),
held AS MATERIALIZED (
    SELECT d.id, d.claimable_at = 'infinity' AS is_in_line
    FROM job_dispatch d
    WHERE d.id = ANY ((SELECT ids FROM input)::uuid[])
      -- Not `=`: PostgreSQL would use the key of runs and read every run that the job ever had.
      AND d.tenant_id IS NOT DISTINCT FROM (SELECT tenant_id FROM input) AND d.job_id IS NOT DISTINCT FROM (SELECT job_id FROM input)
      AND d.completed_at IS NULL AND d.cancel_requested_at IS NULL
    ORDER BY d.id
    FOR UPDATE
),
cancelled AS (
    UPDATE job_dispatch d
    SET status = CASE WHEN d.status = 'PENDING' THEN 'CANCELLED' ELSE d.status END,
        claimable_at = NULL,
        completed_at = CASE WHEN d.status = 'PENDING' THEN clock_timestamp() END,
        cancel_requested_at = clock_timestamp(),
        error_message = input.message
    FROM held h, input
    WHERE d.id = h.id AND d.completed_at IS NULL AND d.cancel_requested_at IS NULL
    RETURNING d.id, d.tenant_id, d.job_id, d.worker_id, d.status, h.is_in_line
),
closed AS (
    SELECT c.tenant_id, c.job_id, count(*)::integer AS closed, (count(*) FILTER (WHERE c.is_in_line))::integer AS from_line
    FROM cancelled c WHERE c.status = 'CANCELLED'
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
-- The worker of each running run.
SELECT c.id, CASE WHEN c.status = 'IN_PROGRESS' THEN c.worker_id END FROM cancelled c ORDER BY c.id

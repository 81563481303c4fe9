-- Puts waiting runs of jobs whose project or function is paused back into the queue of their job:
-- claims must not pass them, and would read all of them each time. Reads only jobs with open runs
-- outside of their queue. Finds their due runs in the waiting line, queue by queue, never among
-- finished runs. Then locks jobs before runs, and waits for neither.
WITH input AS (SELECT $1::bigint AS page),
paused AS MATERIALIZED (
    SELECT o.tenant_id, o.id, NULL::uuid AS function_id FROM projects o WHERE o.is_paused
    UNION ALL
    SELECT f.tenant_id, NULL, f.id FROM task_functions f WHERE f.is_paused
),
affected AS MATERIALIZED (
    SELECT j.tenant_id, j.id
    FROM paused p
    JOIN scheduled_jobs j ON j.tenant_id = p.tenant_id AND (j.project_id = p.id OR j.task_function_id = p.function_id)
    WHERE (j.active_dispatches > j.queued_dispatches
           OR EXISTS (SELECT FROM uncounted_openings o WHERE o.tenant_id = j.tenant_id AND o.job_id = j.id))
      -- While nothing is paused, no job and no waiting run is read.
      AND EXISTS (SELECT FROM paused)
),
found AS MATERIALIZED (
    SELECT w.id, q.tenant_id, w.job_id
    FROM queues q
    CROSS JOIN LATERAL (
        SELECT d.id, d.job_id
        FROM job_dispatch d
        WHERE d.queue = q.name AND d.tenant_id = q.tenant_id AND d.claimable_at <= now() AND d.claimable_at < 'infinity'
          -- Not `d.job_id = ANY (…)`: PostgreSQL would search all runs that these jobs ever had.
          AND CASE WHEN d.job_id = ANY (ARRAY(SELECT a.id FROM affected a)) THEN true ELSE false END
        LIMIT (SELECT page FROM input)
    ) AS w
    WHERE q.tenant_id IN (SELECT a.tenant_id FROM affected a)
      AND EXISTS (SELECT FROM affected)
    LIMIT (SELECT page FROM input)
),
jobs AS MATERIALIZED (
    SELECT j.tenant_id, j.id
    FROM scheduled_jobs j
    WHERE (j.tenant_id, j.id) IN (SELECT f.tenant_id, f.job_id FROM found f)
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE SKIP LOCKED
),
due AS MATERIALIZED (
    SELECT d.id
    FROM job_dispatch d
    WHERE d.id = ANY (ARRAY(SELECT f.id FROM found f JOIN jobs j ON j.tenant_id = f.tenant_id AND j.id = f.job_id))
      AND d.claimable_at <= now() AND d.claimable_at < 'infinity'
    ORDER BY d.id
    FOR UPDATE SKIP LOCKED
),
held AS (
    UPDATE job_dispatch d
    SET claimable_at = 'infinity'
    FROM due
    WHERE d.id = due.id AND d.status = 'PENDING'
    RETURNING d.tenant_id, d.job_id
),
by_job AS (
    SELECT tenant_id, job_id, count(*)::integer AS held FROM held GROUP BY tenant_id, job_id
),
-- A queued run may be one that the counters do not contain yet.
opened AS (
    DELETE FROM uncounted_openings o
    USING by_job b
    WHERE o.tenant_id = b.tenant_id AND o.job_id = b.job_id
    RETURNING o.tenant_id, o.job_id, o.opened, o.opened_at
),
counted AS (
    UPDATE scheduled_jobs j
    SET active_dispatches = j.active_dispatches + h.opened,
        queued_dispatches = least(j.queued_dispatches + h.held, j.active_dispatches + h.opened),
        total_run_count = j.total_run_count + h.opened,
        last_dispatched_at = greatest(j.last_dispatched_at, h.opened_at)
    FROM (SELECT b.*, n.opened, n.opened_at
          FROM by_job b
          CROSS JOIN LATERAL (SELECT coalesce(sum(o.opened), 0)::integer AS opened, max(o.opened_at) AS opened_at
                              FROM opened o WHERE o.tenant_id = b.tenant_id AND o.job_id = b.job_id) AS n) AS h
    WHERE j.tenant_id = h.tenant_id AND j.id = h.job_id
)
SELECT count(*) FROM held

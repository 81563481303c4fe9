-- What waits of jobs whose project or function is paused goes back into the line of its job: claims must not pass it, and would read all of
-- it each time. Only jobs of which something is open outside of their line are looked at. Jobs are locked before dispatches, and neither is
-- waited for.
WITH input AS (SELECT $1::bigint AS page),
jobs AS MATERIALIZED (
    SELECT j.tenant_id, j.id
    FROM (SELECT o.tenant_id, o.id, NULL::uuid AS function_id FROM projects o WHERE o.is_paused
          UNION ALL
          SELECT f.tenant_id, NULL, f.id FROM task_functions f WHERE f.is_paused) AS p
    JOIN scheduled_jobs j ON j.tenant_id = p.tenant_id AND (j.project_id = p.id OR j.task_function_id = p.function_id)
    WHERE j.active_dispatches > j.queued_dispatches
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE OF j SKIP LOCKED
),
due AS MATERIALIZED (
    SELECT d.id
    FROM job_dispatch d
    WHERE d.claimable_at <= now() AND d.claimable_at < 'infinity' AND (d.tenant_id, d.job_id) IN (SELECT j.tenant_id, j.id FROM jobs j)
    LIMIT (SELECT page FROM input)
    FOR UPDATE SKIP LOCKED
),
held AS (
    UPDATE job_dispatch d
    SET claimable_at = 'infinity'
    FROM due
    WHERE d.id = due.id AND d.status = 'PENDING'
    RETURNING d.tenant_id, d.job_id
),
counted AS (
    UPDATE scheduled_jobs j
    SET queued_dispatches = least(j.queued_dispatches + h.held, j.active_dispatches)
    FROM (SELECT tenant_id, job_id, count(*)::integer AS held FROM held GROUP BY 1, 2) AS h
    WHERE j.tenant_id = h.tenant_id AND j.id = h.job_id
)
SELECT count(*) FROM held

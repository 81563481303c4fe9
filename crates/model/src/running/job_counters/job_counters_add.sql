-- The caller has locked the jobs in an earlier statement, so the runs of all ends that it took are
-- visible here or counted already. All uncounted runs of these jobs are counted: they are taken
-- only under the lock on their job, so that none is added after its end was subtracted. A row that
-- the counts do not change is not written. Returns the jobs with queued runs that may have room now.
WITH ends AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::timestamptz[], $5::text[])
        AS u (tenant_id, job_id, closed, last_run_at, last_status)
),
taken AS (
    -- Each job by the key. No other transaction deletes these rows, and none updates them.
    DELETE FROM uncounted_openings o
    WHERE o.ctid = ANY (ARRAY(
        SELECT u.ctid
        FROM ends e
        CROSS JOIN LATERAL (SELECT n.ctid FROM uncounted_openings n
                            WHERE n.tenant_id = e.tenant_id AND n.job_id = e.job_id OFFSET 0) AS u))
    RETURNING o.tenant_id, o.job_id, o.opened, o.opened_at
),
-- No joins, which would take quadratic time if the planner expects few rows.
by_job AS (
    SELECT b.tenant_id, b.job_id, sum(b.closed)::integer AS closed, sum(b.opened)::integer AS opened,
           max(b.last_run_at) AS last_run_at, max(b.last_status) AS last_status, max(b.opened_at) AS opened_at
    FROM (SELECT e.tenant_id, e.job_id, e.closed, 0 AS opened, e.last_run_at, e.last_status, NULL::timestamptz AS opened_at FROM ends e
          UNION ALL
          SELECT t.tenant_id, t.job_id, 0, t.opened, NULL, NULL, t.opened_at FROM taken t) AS b
    GROUP BY b.tenant_id, b.job_id
)
UPDATE scheduled_jobs j
SET last_run_at = greatest(j.last_run_at, u.last_run_at),
    last_status = coalesce(u.last_status, j.last_status),
    last_dispatched_at = greatest(j.last_dispatched_at, u.opened_at),
    total_run_count = j.total_run_count + u.opened,
    active_dispatches = greatest(j.active_dispatches + u.opened - u.closed, 0),
    -- Defends against wrong counters: a run that has run must be stored.
    queued_dispatches = least(j.queued_dispatches, greatest(j.active_dispatches + u.opened - u.closed, 0))
FROM by_job u
WHERE j.tenant_id = u.tenant_id AND j.id = u.job_id
  AND (u.closed > 0 OR u.opened > 0 OR u.last_run_at > coalesce(j.last_run_at, '-infinity'))
RETURNING j.tenant_id, j.id, u.closed > 0 AND j.queued_dispatches > 0

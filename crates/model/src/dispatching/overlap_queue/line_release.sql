-- The oldest of each line, as many as there is room for. Of a line that has room without end, because a pause had put it there, a part.
WITH room AS (
    SELECT j.tenant_id, j.id,
           CASE WHEN j.overlap_policy = 'allow' THEN least(j.queued_dispatches, 5000)
                ELSE least(j.queued_dispatches, j.max_instances - (j.active_dispatches - j.queued_dispatches)) END AS places
    FROM scheduled_jobs j
    WHERE (j.tenant_id, j.id) IN (SELECT u.tenant_id, u.id FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id))
      AND j.queued_dispatches > 0
      AND NOT EXISTS (SELECT 1 FROM task_functions f WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_paused)
      AND NOT EXISTS (SELECT 1 FROM projects o WHERE o.tenant_id = j.tenant_id AND o.id = j.project_id AND o.is_paused)
),
next AS (
    SELECT r.tenant_id, r.id AS job_id, n.id
    FROM room r
    CROSS JOIN LATERAL (
        SELECT d.id
        FROM job_dispatch d
        WHERE d.job_id = r.id AND d.claimable_at = 'infinity'
        ORDER BY d.scheduled_for, d.id
        LIMIT r.places
    ) AS n
    WHERE r.places > 0
),
released AS (
    UPDATE job_dispatch d
    SET claimable_at = greatest(d.available_at, clock_timestamp())
    FROM next
    WHERE d.id = next.id AND d.claimable_at = 'infinity'
    RETURNING d.tenant_id, d.job_id, d.queue
),
counted AS (
    -- A line that holds fewer than it counts is counted anew.
    UPDATE scheduled_jobs j
    SET queued_dispatches = CASE WHEN coalesce(n.released, 0) < r.places THEN 0 ELSE j.queued_dispatches - n.released END
    FROM room r
    LEFT JOIN (SELECT tenant_id, job_id, count(*)::integer AS released FROM released GROUP BY 1, 2) AS n
        ON n.tenant_id = r.tenant_id AND n.job_id = r.id
    WHERE j.tenant_id = r.tenant_id AND j.id = r.id AND r.places > 0
)
SELECT DISTINCT queue FROM released

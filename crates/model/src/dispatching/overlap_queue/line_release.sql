-- Releases the oldest runs of each overlap queue, as many as the job has room for. A job without a
-- limit has a queue after a pause: it is released in parts of 5,000.
, places AS MATERIALIZED (
    SELECT r.tenant_id, r.id, least(r.queued_dispatches, coalesce(r.room, 5000)) AS places
    FROM room r
    WHERE (r.tenant_id, r.id) IN (SELECT u.tenant_id, u.id FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id))
      AND r.queued_dispatches > 0
      AND NOT EXISTS (SELECT 1 FROM task_functions f WHERE f.tenant_id = r.tenant_id AND f.id = r.task_function_id AND f.is_paused)
      AND NOT EXISTS (SELECT 1 FROM projects o WHERE o.tenant_id = r.tenant_id AND o.id = r.project_id AND o.is_paused)
),
next AS (
    SELECT r.tenant_id, r.id AS job_id, n.id
    FROM places r
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
    -- A queue that holds fewer than it counts is counted again.
    UPDATE scheduled_jobs j
    SET queued_dispatches = CASE WHEN coalesce(n.released, 0) < r.places THEN 0 ELSE j.queued_dispatches - n.released END
    FROM places r
    LEFT JOIN (SELECT tenant_id, job_id, count(*)::integer AS released FROM released GROUP BY 1, 2) AS n
        ON n.tenant_id = r.tenant_id AND n.job_id = r.id
    WHERE j.tenant_id = r.tenant_id AND j.id = r.id AND r.places > 0
)
SELECT DISTINCT queue FROM released

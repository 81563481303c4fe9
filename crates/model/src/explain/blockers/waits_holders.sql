-- Some open runs of jobs that are not queued themselves, the oldest first. Running ones are found
-- through the claims of workers, waiting ones among the job's latest runs, so no history is read.
WITH input AS MATERIALIZED (SELECT $1::uuid AS tenant_id, $2::uuid[] AS jobs, $3::integer AS most),
running AS MATERIALIZED (
    SELECT DISTINCT d.id, d.job_id, d.status, d.claimed_at AS since, d.worker_id, d.scheduled_for
    FROM worker_claims c
    CROSS JOIN input
    CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
    JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
    WHERE d.tenant_id = input.tenant_id AND d.job_id = ANY (input.jobs)
),
waiting AS MATERIALIZED (
    SELECT w.id, j.id AS job_id, w.status, w.available_at AS since, NULL::uuid AS worker_id, w.scheduled_for
    FROM input
    CROSS JOIN LATERAL (SELECT DISTINCT u.id FROM unnest(input.jobs) AS u (id)) AS j
    CROSS JOIN LATERAL (
        SELECT d.id, d.status, d.available_at, d.scheduled_for, d.claimable_at
        FROM job_dispatch d
        WHERE d.job_id = j.id
        ORDER BY d.scheduled_for DESC
        LIMIT 500
    ) AS w
    WHERE w.claimable_at < 'infinity'
),
ranked AS (
    SELECT o.*, row_number() OVER (PARTITION BY o.job_id ORDER BY o.scheduled_for, o.id) AS nth
    FROM (SELECT * FROM running UNION ALL SELECT * FROM waiting) AS o
)
SELECT r.job_id, r.id, r.status, r.since, coalesce(w.hostname, r.worker_id::text)
FROM input
JOIN ranked r ON r.nth <= input.most
LEFT JOIN worker_registration w ON w.worker_id = r.worker_id
ORDER BY r.job_id, r.nth

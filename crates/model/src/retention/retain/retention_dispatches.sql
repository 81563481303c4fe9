-- Reads one page of the oldest runs by primary key, and deletes those that may go. The page costs
-- the same however many rows must stay. It does not wait for jobs: the records of a locked job are
-- left for the next pass. The ledger start of a job is written once an hour, for everything deleted
-- up to that hour, and not with every page.
WITH input AS (
    SELECT $1::uuid AS after_id, $2::uuid AS before_id, $3::bigint AS page, $4::timestamptz AS finished, $5::timestamptz AS dead_letters
),
page AS MATERIALIZED (
    SELECT d.id, d.tenant_id, d.job_id, d.scheduled_for, d.trigger_id IS NULL AS is_scheduled,
           (d.completed_at < CASE WHEN d.status = 'DEAD_LETTER' THEN input.dead_letters ELSE input.finished END) IS TRUE AS may_go
    FROM input
    CROSS JOIN LATERAL (
        SELECT * FROM job_dispatch o WHERE o.id > input.after_id AND o.id < input.before_id ORDER BY o.id LIMIT input.page
    ) AS d
),
jobs AS MATERIALIZED (
    SELECT j.tenant_id, j.id
    FROM scheduled_jobs j
    WHERE (j.tenant_id, j.id) IN (SELECT p.tenant_id, p.job_id FROM page p WHERE p.may_go AND p.is_scheduled)
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE SKIP LOCKED
),
going AS MATERIALIZED (
    SELECT p.id, p.tenant_id, p.job_id, p.scheduled_for, p.is_scheduled
    FROM page p
    LEFT JOIN jobs j ON j.tenant_id = p.tenant_id AND j.id = p.job_id
    WHERE p.may_go AND (NOT p.is_scheduled OR j.id IS NOT NULL)
),
gone AS (
    DELETE FROM job_dispatch d
    USING going g
    WHERE d.id = g.id AND d.completed_at IS NOT NULL
    RETURNING d.id, d.tenant_id
),
letters AS (
    DELETE FROM dead_letters l
    USING gone g
    WHERE l.tenant_id = g.tenant_id AND l.dispatch_id = g.id
),
told AS (
    UPDATE scheduled_jobs j
    SET ledger_starts_at = greatest(j.ledger_starts_at, r.last_fire_at, r.finished)
    FROM (SELECT g.tenant_id, g.job_id, max(g.scheduled_for) AS last_fire_at, input.finished
          FROM going g, input WHERE g.is_scheduled GROUP BY g.tenant_id, g.job_id, input.finished) AS r
    WHERE j.tenant_id = r.tenant_id AND j.id = r.job_id
      AND (j.ledger_starts_at IS NULL OR j.ledger_starts_at < r.last_fire_at)
)
SELECT (SELECT count(*) FROM page), (SELECT p.id FROM page p ORDER BY p.id DESC LIMIT 1), (SELECT count(*) FROM gone)

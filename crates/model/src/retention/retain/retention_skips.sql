-- As for runs: one page of the oldest by primary key. A range that was extended recently stays, at
-- any age.
WITH input AS (SELECT $1::bigint AS after_id, $2::bigint AS page, $3::timestamptz AS finished),
page AS MATERIALIZED (
    SELECT s.id, s.tenant_id, s.job_id, s.last_fire_at,
           s.recorded_at < input.finished AS is_old,
           s.recorded_at < input.finished AND s.last_fire_at < input.finished AS may_go
    FROM input
    CROSS JOIN LATERAL (
        SELECT * FROM skipped_fires o WHERE o.id > input.after_id ORDER BY o.id LIMIT input.page
    ) AS s
),
jobs AS MATERIALIZED (
    SELECT j.tenant_id, j.id
    FROM scheduled_jobs j
    WHERE (j.tenant_id, j.id) IN (SELECT p.tenant_id, p.job_id FROM page p WHERE p.may_go)
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE SKIP LOCKED
),
going AS MATERIALIZED (
    SELECT p.id, p.tenant_id, p.job_id, p.last_fire_at
    FROM page p
    JOIN jobs j ON j.tenant_id = p.tenant_id AND j.id = p.job_id
    WHERE p.may_go
),
gone AS (
    DELETE FROM skipped_fires s
    USING going g, input
    -- A range may have been extended until its job was locked.
    WHERE s.id = g.id AND s.last_fire_at < input.finished
    RETURNING s.id
),
told AS (
    UPDATE scheduled_jobs j
    SET ledger_starts_at = greatest(j.ledger_starts_at, r.last_fire_at, r.finished)
    FROM (SELECT g.tenant_id, g.job_id, max(g.last_fire_at) AS last_fire_at, input.finished
          FROM going g, input GROUP BY g.tenant_id, g.job_id, input.finished) AS r
    WHERE j.tenant_id = r.tenant_id AND j.id = r.job_id
      AND (j.ledger_starts_at IS NULL OR j.ledger_starts_at < r.last_fire_at)
)
SELECT (SELECT count(*) FROM page p WHERE p.is_old), (SELECT max(p.id) FROM page p WHERE p.is_old), (SELECT count(*) FROM gone)

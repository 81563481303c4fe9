-- Keys of finished runs. The key of an open run still prevents a second run.
WITH input AS (SELECT $1::uuid AS after_id, $2::uuid AS before_id, $3::bigint AS page),
page AS MATERIALIZED (
    SELECT d.id, d.completed_at IS NOT NULL AS may_go
    FROM input
    CROSS JOIN LATERAL (
        SELECT * FROM job_dispatch o
        WHERE o.idempotency_key IS NOT NULL AND o.id > input.after_id AND o.id < input.before_id
        ORDER BY o.id LIMIT input.page
    ) AS d
),
cleared AS (
    UPDATE job_dispatch d
    SET idempotency_key = NULL
    FROM page p
    WHERE d.id = p.id AND p.may_go
    RETURNING d.id
)
SELECT (SELECT count(*) FROM page), (SELECT p.id FROM page p ORDER BY p.id DESC LIMIT 1), (SELECT count(*) FROM cleared)

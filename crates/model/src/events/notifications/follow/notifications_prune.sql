-- The oldest finished deliveries.
WITH input AS (SELECT $1::timestamptz AS before_at, $2::bigint AS max_rows),
old AS MATERIALIZED (
    SELECT d.tenant_id, d.id
    FROM notification_deliveries d
    WHERE d.created_at < (SELECT before_at FROM input) AND d.status IN ('sent', 'failed')
    ORDER BY d.created_at
    LIMIT (SELECT max_rows FROM input)
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM notification_deliveries d USING old o
    WHERE d.tenant_id = o.tenant_id AND d.id = o.id
    RETURNING 1
)
SELECT count(*) FROM gone

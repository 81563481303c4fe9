WITH input AS (SELECT $1::timestamptz AS minute)
INSERT INTO tenant_usage AS t (tenant_id, minute, dispatched)
SELECT u.tenant_id, input.minute, u.dispatched
FROM input, unnest($2::uuid[], $3::bigint[]) AS u (tenant_id, dispatched)
ON CONFLICT (tenant_id) DO UPDATE
SET minute = excluded.minute,
    dispatched = excluded.dispatched + CASE WHEN t.minute = excluded.minute THEN t.dispatched ELSE 0 END
RETURNING tenant_id

-- Locks the usage of each tenant until the end of the transaction, in the order of their ids.
-- Begins a new window if the last one is over.
WITH input AS (SELECT $1::timestamptz AS minute)
INSERT INTO tenant_usage AS t (tenant_id, minute, dispatched)
SELECT u.tenant_id, input.minute, 0 FROM input, unnest($2::uuid[]) AS u (tenant_id) ORDER BY u.tenant_id
ON CONFLICT (tenant_id) DO UPDATE
SET minute = greatest(t.minute, excluded.minute), dispatched = CASE WHEN t.minute >= excluded.minute THEN t.dispatched ELSE 0 END
RETURNING tenant_id, dispatched

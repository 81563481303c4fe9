-- The last event before a position, which may be within a batch.
WITH input AS (SELECT $1::bigint::text::xid8 AS transaction_id, $2::bigint AS id)
SELECT e.transaction_id::text::bigint,
       CASE WHEN e.transaction_id = (SELECT transaction_id FROM input) THEN least(e.id + e.size, (SELECT id FROM input)) ELSE e.id + e.size END - 1,
       e.created_at
FROM event_positions e
WHERE (e.transaction_id, e.id) < ((SELECT transaction_id FROM input), (SELECT id FROM input))
ORDER BY e.transaction_id DESC, e.id DESC
LIMIT 1

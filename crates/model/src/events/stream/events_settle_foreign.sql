-- Events of transactions that this server has not had yet: they came with a dump of another server.
-- Their numbers mean nothing here, and new events would sort before them. They are found at the end
-- of the key, which is usually empty. The lowest numbers first: this server reaches those next.
WITH foreign_events AS (
    SELECT e.transaction_id, e.id, e.created_at
    FROM events e
    WHERE e.transaction_id >= pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY e.transaction_id, e.id
    LIMIT $1
),
settled AS (
    UPDATE events e
    SET transaction_id = '0'
    FROM foreign_events f
    WHERE e.transaction_id = f.transaction_id AND e.id = f.id AND e.created_at = f.created_at
    RETURNING 1
)
SELECT count(*) FROM settled

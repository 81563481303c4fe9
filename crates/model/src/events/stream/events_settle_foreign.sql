-- Events of transactions that this server has not had yet: they came with a dump of another server.
-- Their numbers mean nothing here, and new events would sort before them. They are found at the end
-- of the key, which is usually empty. The lowest numbers first: this server reaches those next. A
-- batch counts as one event. The last event of all shows whether there is one. The counts spare the
-- updates a scan for nothing.
WITH foreign_events AS MATERIALIZED (
    SELECT e.transaction_id, e.id, e.created_at
    FROM event_positions e
    WHERE e.transaction_id >= pg_snapshot_xmax(pg_current_snapshot())
      AND (SELECT l.transaction_id FROM event_positions l ORDER BY l.transaction_id DESC, l.id DESC LIMIT 1)
          >= pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY e.transaction_id, e.id
    LIMIT $1
),
events_settled AS (
    UPDATE events e
    SET transaction_id = '0'
    FROM foreign_events f
    WHERE e.transaction_id = f.transaction_id AND e.id = f.id AND e.created_at = f.created_at
      AND (SELECT count(*) FROM foreign_events) > 0
),
starts_settled AS (
    UPDATE run_start_batches b
    SET transaction_id = '0'
    FROM foreign_events f
    WHERE b.transaction_id = f.transaction_id AND b.id = f.id AND b.created_at = f.created_at
      AND (SELECT count(*) FROM foreign_events) > 0
),
ends_settled AS (
    UPDATE run_end_batches b
    SET transaction_id = '0'
    FROM foreign_events f
    WHERE b.transaction_id = f.transaction_id AND b.id = f.id AND b.created_at = f.created_at
      AND (SELECT count(*) FROM foreign_events) > 0
),
-- The count of the ends finds a batch by its key.
uncounted_settled AS (
    UPDATE uncounted_ends u
    SET transaction_id = '0'
    FROM foreign_events f
    WHERE u.transaction_id = f.transaction_id AND u.batch_id = f.id AND u.created_at = f.created_at
)
SELECT count(*) FROM foreign_events

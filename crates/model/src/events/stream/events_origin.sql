-- The server id, the age of the oldest stored month of events, and whether an event exists.
WITH input AS (SELECT $1::bigint AS transaction_id, $2::bigint AS id, $3::timestamptz AS created_at)
SELECT (SELECT system_identifier FROM pg_control_system()), pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       -- Retention removes a month of one table after the other.
       (SELECT max(parent.oldest)
        FROM (SELECT min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''([^'']+)''\)')::timestamptz) AS oldest
              FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
              WHERE i.inhparent = ANY ('{events,run_start_batches,run_end_batches}'::regclass[])
              GROUP BY i.inhparent) AS parent),
       (SELECT id FROM input) = 0
       OR EXISTS (SELECT FROM event_positions e
                  WHERE e.transaction_id = (SELECT transaction_id::text::xid8 FROM input) AND e.id <= (SELECT id FROM input)
                    AND e.id + e.size > (SELECT id FROM input) AND e.created_at = (SELECT created_at FROM input))

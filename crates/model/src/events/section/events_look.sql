-- The section, and its end. The last event of the reader is looked up too: if it is gone, the
-- database is a different or an earlier one than the reader's.
, mark AS (SELECT $5::timestamptz AS created_at)
SELECT s.ends_at::text::bigint, (SELECT pg_snapshot_xmax(snapshot) FROM seen)::text::bigint, clock_timestamp(),
       (SELECT system_identifier FROM pg_control_system()), s.has_foreign,
       (SELECT id FROM input) = 0
       OR EXISTS (SELECT FROM event_positions e
                  WHERE e.transaction_id = (SELECT transaction_id::text::xid8 FROM input) AND e.id <= (SELECT id FROM input)
                    AND e.id + e.size > (SELECT id FROM input) AND e.created_at = (SELECT created_at FROM mark)),
       p.transaction_id::text::bigint, p.id, p.created_at, p.tenant_id, p.project_id, p.job_id, p.dispatch_id, p.event_type, p.payload
FROM settled s
LEFT JOIN page p ON true
ORDER BY p.transaction_id, p.id

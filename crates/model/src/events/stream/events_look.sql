-- One snapshot shows the finished transactions and the events: every event of a transaction before
-- the settled end is visible now, or never will be. Transactions that cannot write events do not
-- block. If there are events of transactions that this server has not had yet, their numbers mean
-- nothing until they are settled, and no event is returned; nor by a standby, whose snapshots do
-- not contain the running transactions. The last event of the reader is looked up too: if it is
-- gone, the database is a different or an earlier one than the reader's.
WITH input AS (SELECT $1::bigint AS transaction_id, $2::bigint AS id, $3::timestamptz AS created_at, $4::bigint[] AS ignored,
                      $5::bigint AS max_rows),
seen AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot),
settled AS MATERIALIZED (
    SELECT coalesce(
        (SELECT x FROM seen CROSS JOIN LATERAL pg_snapshot_xip(snapshot) AS x WHERE x::text::bigint <> ALL ((SELECT ignored FROM input)::bigint[])
         ORDER BY x LIMIT 1),
        (SELECT pg_snapshot_xmax(snapshot) FROM seen)) AS ends_at,
        pg_is_in_recovery() OR EXISTS (SELECT FROM events e WHERE e.transaction_id >= (SELECT pg_snapshot_xmax(snapshot) FROM seen)) AS has_foreign,
        (SELECT id FROM input) = 0
        OR EXISTS (SELECT FROM events e
                   WHERE e.transaction_id = (SELECT transaction_id::text::xid8 FROM input) AND e.id = (SELECT id FROM input)
                     AND e.created_at = (SELECT created_at FROM input)) AS is_there
),
page AS (
    SELECT e.transaction_id, e.id, e.created_at, e.tenant_id, e.project_id, e.job_id, e.dispatch_id, e.event_type, e.payload
    FROM events e
    WHERE (e.transaction_id, e.id) > ((SELECT transaction_id::text::xid8 FROM input), (SELECT id FROM input))
      AND e.transaction_id < (SELECT ends_at FROM settled)
      AND NOT (SELECT has_foreign FROM settled)
    ORDER BY e.transaction_id, e.id
    LIMIT (SELECT max_rows FROM input)
)
SELECT s.ends_at::text::bigint, (SELECT pg_snapshot_xmax(snapshot) FROM seen)::text::bigint, clock_timestamp(),
       (SELECT system_identifier FROM pg_control_system()), s.has_foreign, s.is_there,
       p.transaction_id::text::bigint, p.id, p.created_at, p.tenant_id, p.project_id, p.job_id, p.dispatch_id, p.event_type, p.payload
FROM settled s
LEFT JOIN page p ON true
ORDER BY p.transaction_id, p.id

-- The next section of the stream: at most max_rows settled events after a position, in `page`. One
-- snapshot shows the finished transactions and the events: every event of a transaction before the
-- settled end is visible now, or never will be. Transactions that cannot write events do not block.
-- If there are events of transactions that this server has not had yet, their numbers mean nothing
-- until they are settled, and no event is returned; nor by a standby, whose snapshots do not
-- contain the running transactions. The end of the key shows whether there are any, usually none. A
-- search by condition reads all events of the month if the planner expects an early match.
--
-- Each table is read in its own order, so that no more batches are expanded than the section needs:
-- `transaction_id >=` repeats a part of the comparison of positions, which an index of batches
-- cannot use.
WITH input AS (SELECT $1::bigint AS transaction_id, $2::bigint AS id, $3::bigint[] AS ignored, $4::bigint AS max_rows),
seen AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot),
settled AS MATERIALIZED (
    SELECT coalesce(
        (SELECT x FROM seen CROSS JOIN LATERAL pg_snapshot_xip(snapshot) AS x WHERE x::text::bigint <> ALL ((SELECT ignored FROM input)::bigint[])
         ORDER BY x LIMIT 1),
        (SELECT pg_snapshot_xmax(snapshot) FROM seen)) AS ends_at,
        pg_is_in_recovery()
        OR coalesce((SELECT e.transaction_id FROM event_positions e ORDER BY e.transaction_id DESC, e.id DESC LIMIT 1)
                    >= (SELECT pg_snapshot_xmax(snapshot) FROM seen), false) AS has_foreign
),
page AS MATERIALIZED (
    SELECT found.*
    FROM (
        (SELECT e.transaction_id, e.id, e.created_at, e.tenant_id, e.project_id, e.job_id, e.dispatch_id, e.event_type, e.payload
         FROM events e
         WHERE (e.transaction_id, e.id) > ((SELECT transaction_id::text::xid8 FROM input), (SELECT id FROM input))
           AND e.transaction_id < (SELECT ends_at FROM settled)
         ORDER BY e.transaction_id, e.id
         LIMIT (SELECT max_rows FROM input))
        UNION ALL
        (SELECT e.transaction_id, e.id, e.created_at, e.tenant_id, e.project_id, e.job_id, e.dispatch_id, e.event_type, e.payload
         FROM run_start_events e
         WHERE (e.transaction_id, e.id) > ((SELECT transaction_id::text::xid8 FROM input), (SELECT id FROM input))
           AND e.transaction_id >= (SELECT transaction_id::text::xid8 FROM input)
           AND e.transaction_id < (SELECT ends_at FROM settled)
         ORDER BY e.transaction_id, e.batch_id, e.id
         LIMIT (SELECT max_rows FROM input))
        UNION ALL
        (SELECT e.transaction_id, e.id, e.created_at, e.tenant_id, e.project_id, e.job_id, e.dispatch_id, e.event_type, e.payload
         FROM run_end_events e
         WHERE (e.transaction_id, e.id) > ((SELECT transaction_id::text::xid8 FROM input), (SELECT id FROM input))
           AND e.transaction_id >= (SELECT transaction_id::text::xid8 FROM input)
           AND e.transaction_id < (SELECT ends_at FROM settled)
         ORDER BY e.transaction_id, e.batch_id, e.id
         LIMIT (SELECT max_rows FROM input))
    ) AS found
    WHERE NOT (SELECT has_foreign FROM settled)
    ORDER BY found.transaction_id, found.id
    LIMIT (SELECT max_rows FROM input)
)

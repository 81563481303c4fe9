-- Running transactions: their databases, and whether they may have written events that are not
-- visible yet. A transaction of another database never can; every role may see the database of a
-- process or a prepared transaction. A transaction that ended after the snapshot is not found and
-- counts as one of this database: the next check does not see it.
SELECT x::text::bigint, coalesce(s.datname <> current_database(), p.database <> current_database(), false),
       EXISTS (SELECT FROM pg_locks t
               WHERE t.virtualtransaction = l.virtualtransaction AND t.pid IS NOT DISTINCT FROM l.pid AND t.locktype = 'relation'
                 AND t.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                 AND t.relation IN (SELECT p.relid
                                  FROM unnest('{events,run_start_batches,run_end_batches}'::regclass[]) AS parent (name)
                                  CROSS JOIN LATERAL pg_partition_tree(parent.name) AS p)
                 AND t.mode NOT IN ('AccessShareLock', 'RowShareLock')),
       l.virtualtransaction IS NOT NULL, l.pid
FROM pg_snapshot_xip(pg_current_snapshot()) AS x
LEFT JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = x::xid AND l.mode = 'ExclusiveLock' AND l.granted
LEFT JOIN pg_stat_activity s ON s.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON p.transaction = x::xid

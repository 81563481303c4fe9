-- Binary search for the first transaction whose first event of the tenant is not older than the
-- given time: about forty index lookups, for any number of events. NULL if there is none. Events of
-- a dump all belong to transaction 0, at any time.
WITH RECURSIVE input AS (SELECT $1::uuid AS tenant_id, $2::timestamptz AS at),
halves (low, high) AS (
    SELECT (SELECT e.transaction_id::text::bigint FROM event_positions e WHERE e.tenant_id = (SELECT tenant_id FROM input)
            ORDER BY e.transaction_id, e.id LIMIT 1),
           (SELECT e.transaction_id::text::bigint + 1 FROM event_positions e WHERE e.tenant_id = (SELECT tenant_id FROM input)
            ORDER BY e.transaction_id DESC, e.id DESC LIMIT 1)
    UNION ALL
    SELECT CASE WHEN looked.is_before THEN looked.middle + 1 ELSE looked.low END,
           CASE WHEN looked.is_before THEN looked.high ELSE looked.middle END
    FROM (SELECT h.low, h.high, h.middle,
                 coalesce((SELECT e.created_at FROM event_positions e
                           WHERE e.tenant_id = (SELECT tenant_id FROM input) AND e.transaction_id >= h.middle::text::xid8
                           ORDER BY e.transaction_id, e.id LIMIT 1) < (SELECT at FROM input), false) AS is_before
          FROM (SELECT low, high, low + (high - low) / 2 AS middle FROM halves WHERE low < high) AS h) AS looked
)
SELECT CASE WHEN (SELECT e.created_at FROM event_positions e
                  WHERE e.tenant_id = (SELECT tenant_id FROM input) AND e.transaction_id = '0'
                  ORDER BY e.id DESC LIMIT 1) >= (SELECT at FROM input) THEN 0
       ELSE (SELECT max(low) FROM halves) END

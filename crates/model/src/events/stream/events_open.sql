-- The running transactions of the whole server, and the next one.
SELECT pg_snapshot_xmax(seen.snapshot)::text::bigint, ARRAY(SELECT x::text::bigint FROM pg_snapshot_xip(seen.snapshot) AS x)
FROM (SELECT pg_current_snapshot() AS snapshot) AS seen

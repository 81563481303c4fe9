-- A hint needs no durability: this statement is its own transaction, which commits without waiting
-- for the disk or for a standby, so listeners receive the hint sooner. If the transaction wrote
-- earlier, it stays durable.
SELECT set_config('synchronous_commit',
                  CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN 'off' ELSE current_setting('synchronous_commit') END, true) <> ''
FROM (SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS p (payload)) AS sent

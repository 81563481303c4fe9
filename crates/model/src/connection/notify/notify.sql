-- A hint needs no disk: its transaction, which is this statement, commits without waiting for one, or for a standby, so that whoever listens
-- hears of it that much sooner. Where something was written before it in the same transaction, that is made durable as ever.
SELECT set_config('synchronous_commit',
                  CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN 'off' ELSE current_setting('synchronous_commit') END, true) <> ''
FROM (SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS p (payload)) AS sent

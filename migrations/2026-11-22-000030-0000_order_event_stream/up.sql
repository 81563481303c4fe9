-- The stream of events is read in the order of the transactions that wrote them (db::event_stream), so that order is their key. It takes
-- the place of the key by id, which nothing reads by: what writes events keeps one index for it, as before. The months that are there are
-- locked while their keys are built, some ten seconds for ten million events; what would write events waits, and gives up after its
-- `lock_timeout` to try again.
--
-- A transaction may write events within two minutes of its beginning and not later. Readers rely on it: one that has run for longer and has
-- not touched events will not write any, so they need not wait for its end.
ALTER TABLE events DROP CONSTRAINT events_pkey, ADD CONSTRAINT events_pkey PRIMARY KEY (transaction_id, id, created_at);
ALTER TABLE events ALTER COLUMN transaction_id
    SET DEFAULT CASE WHEN clock_timestamp() - now() < interval '2 minutes' THEN pg_current_xact_id() END;
COMMENT ON COLUMN events.id             IS 'Position among the events of one transaction. Ids can commit out of order: see transaction_id.';
COMMENT ON COLUMN events.transaction_id IS 'The transaction that wrote it, and the order of the stream: a reader goes no further than the oldest transaction that may still write one, and so skips nothing. NULL, and so refused, from a transaction older than two minutes.';

ALTER TABLE events ALTER COLUMN transaction_id SET DEFAULT pg_current_xact_id();
ALTER TABLE events DROP CONSTRAINT events_pkey, ADD CONSTRAINT events_pkey PRIMARY KEY (id, created_at);
ALTER TABLE events ALTER COLUMN transaction_id SET NOT NULL;
COMMENT ON COLUMN events.id             IS 'Position in the stream. Ids can commit out of order: see transaction_id.';
COMMENT ON COLUMN events.transaction_id IS 'The transaction that wrote it: a reader goes no further than the oldest transaction still running, and so skips nothing.';

CREATE INDEX events_dispatch_idx ON events (dispatch_id) WHERE dispatch_id IS NOT NULL;

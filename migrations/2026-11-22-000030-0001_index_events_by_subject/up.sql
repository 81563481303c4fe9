-- Pages of events that somebody asks for by tenant, by job or by dispatch, each in the order of the stream. All but a few events are the
-- beginnings and ends of executions; the others have an index of their own, which costs those nothing.
CREATE INDEX events_tenant_idx ON events (tenant_id, transaction_id, id);
CREATE INDEX events_job_idx ON events (job_id, transaction_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX events_dispatch_idx ON events (dispatch_id) WHERE dispatch_id IS NOT NULL;
CREATE INDEX events_rare_idx ON events (tenant_id, transaction_id, id)
    WHERE event_type <> 'schedule_execution_started' AND event_type <> 'schedule_execution_completed';
COMMENT ON INDEX events_rare_idx IS 'Everything but the beginnings and ends of executions, so that what happens once a month is found without reading those.';

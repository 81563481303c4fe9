DELETE FROM notification_deliveries WHERE status = 'failed' AND dispatch_id IS NULL;
ALTER TABLE notification_deliveries
    DROP COLUMN reached,
    DROP CONSTRAINT notification_deliveries_dispatch_check,
    ADD CONSTRAINT notification_deliveries_waiting_iff_no_dispatch_check CHECK ((status = 'waiting') = (dispatch_id IS NULL));
COMMENT ON COLUMN notification_deliveries.dispatch_id IS 'The dispatch of sched.notify that sends it; NULL while it waits for one.';

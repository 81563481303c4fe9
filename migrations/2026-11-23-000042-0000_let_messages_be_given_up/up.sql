-- A message that waits for its turn for too long is given up without ever having had a dispatch; and an e-mail that some of its addresses have
-- taken goes only to the others when it is tried again.
ALTER TABLE notification_deliveries
    DROP CONSTRAINT notification_deliveries_waiting_iff_no_dispatch_check,
    ADD CONSTRAINT notification_deliveries_dispatch_check CHECK (CASE status
        WHEN 'waiting' THEN dispatch_id IS NULL
        WHEN 'failed' THEN true
        ELSE dispatch_id IS NOT NULL END),
    ADD COLUMN reached text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN notification_deliveries.reached IS 'Addresses whose server has taken the e-mail; empty for other channels.';
COMMENT ON COLUMN notification_deliveries.dispatch_id IS 'The dispatch of sched.notify that sends it; NULL while it waits for one, and when it was given up waiting.';
